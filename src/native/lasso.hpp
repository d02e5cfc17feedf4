// The group lasso on a Gram matrix, by block coordinate descent.
#pragma once

#include <cstdint>
#include <span>

namespace anytime {

// min over w of  tr(w' K w) / 2 - tr(v' w) + sum_g limits[g] |w_g|,  |.| the Frobenius norm.
struct GroupLasso {
  const double* gram = nullptr;       // (m, m) K, symmetric
  std::span<const int64_t> start;     // (J + 1) first column of each group
  std::span<const double> limits;     // (J)
  std::span<const double> curvature;  // (J) at least the largest eigenvalue of K_g
  int64_t n_outputs = 1;
};

// Bring w (m, p) and the gradient v - K w (m, p) towards the optimum; returns the sweeps made, at most
// max_sweeps. Ends earlier after a sweep over all groups in which no optimality condition was violated by
// more than tolerance[g]. `spare` is room for (largest group) * p numbers.
int64_t descend(const GroupLasso& problem, double* weights, double* gradient, const double* tolerance,
                int64_t max_sweeps, std::span<double> spare) noexcept;

}  // namespace anytime
