#include "lasso.hpp"

#include <algorithm>
#include <cmath>

namespace anytime {
namespace {

// gradient -= K[:, j] * change, for one column j and all outputs.
void follow(const double* column, int64_t m, const double* change, int64_t p, double* gradient) noexcept {
  if (p == 1) {
    const double c = change[0];
    for (int64_t i = 0; i < m; ++i) gradient[i] -= column[i] * c;
    return;
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t o = 0; o < p; ++o) gradient[i * p + o] -= column[i] * change[o];
  }
}

bool is_zero(const double* values, int64_t n) noexcept {
  return std::all_of(values, values + n, [](double v) { return v == 0.0; });
}

// Minimise over group g (exactly where K_g is a multiple of the identity, else a bound of it); returns by how
// much its optimality condition was violated.
double improve(const GroupLasso& problem, size_t g, double* weights, double* gradient,
               double* change) noexcept {
  const int64_t m = problem.start.back(), p = problem.n_outputs, first = problem.start[g];
  const int64_t size = (problem.start[g + 1] - first) * p;
  double* w = weights + first * p;
  const double* b = gradient + first * p;
  const double curvature = problem.curvature[g];
  double squares = 0.0;
  for (int64_t k = 0; k < size; ++k) {
    change[k] = b[k] + curvature * w[k];
    squares += change[k] * change[k];
  }
  const double norm = std::sqrt(squares);
  const double shrink = norm > problem.limits[g] ? (1.0 - problem.limits[g] / norm) / curvature : 0.0;
  double moved = 0.0;
  for (int64_t k = 0; k < size; ++k) {
    const double next = shrink * change[k];
    change[k] = next - w[k];
    w[k] = next;
    moved += change[k] * change[k];
  }
  if (moved == 0.0) return 0.0;
  for (int64_t k = 0; k < size; k += p)
    follow(problem.gram + (first + k / p) * m, m, change + k, p, gradient);
  return curvature * std::sqrt(moved);
}

}  // namespace

bool descend(const GroupLasso& problem, double* weights, double* gradient, const double* tolerance,
             int64_t max_sweeps, double* spare) noexcept {
  const int64_t p = problem.n_outputs;
  bool everyone = true;  // a sweep over all groups, then sweeps over those in use until they rest, and again
  for (int64_t sweep = 0; sweep < max_sweeps; ++sweep) {
    bool rested = true;
    for (size_t g = 0; g < problem.limits.size(); ++g) {
      const int64_t first = problem.start[g], size = problem.start[g + 1] - first;
      if (size == 0 || (!everyone && is_zero(weights + first * p, size * p))) continue;
      rested &= improve(problem, g, weights, gradient, spare) <= tolerance[g];
    }
    if (rested && everyone) return true;
    everyone = rested;
  }
  return false;
}

}  // namespace anytime
