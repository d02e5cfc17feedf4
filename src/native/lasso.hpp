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
  std::span<const double> curvature;  // (J) at least the largest eigenvalue of K_g, and not zero
  int64_t n_outputs = 1;
};

// Bring w' (p, m) and the gradient (v - K w)' (p, m) towards the optimum in at most max_sweeps sweeps. True
// when the last went over all groups and found no optimality condition violated by more than tolerance[g].
// `spare` has room for p numbers per column of the largest group.
bool descend(const GroupLasso& problem, double* weights, double* gradient, const double* tolerance,
             int64_t max_sweeps, double* spare) noexcept;

}  // namespace anytime
