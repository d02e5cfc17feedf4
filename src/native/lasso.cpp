#include "lasso.hpp"

#include <algorithm>
#include <cmath>

namespace anytime {
namespace {

// gradient -= sum_k changes[k] * columns[k], for `size` neighbouring columns (rows of the symmetric gram).
void follow(const double* columns, int64_t m, const double* changes, int64_t size,
            double* gradient) noexcept {
  int64_t k = 0;
  for (; k + 4 <= size; k += 4, columns += 4 * m) {  // four at a time: the gradient passes through once
    const double *k0 = columns, *k1 = k0 + m, *k2 = k1 + m, *k3 = k2 + m;
    const double c0 = changes[k], c1 = changes[k + 1], c2 = changes[k + 2], c3 = changes[k + 3];
    for (int64_t i = 0; i < m; ++i) {
      gradient[i] -= (k0[i] * c0 + k1[i] * c1) + (k2[i] * c2 + k3[i] * c3);
    }
  }
  for (; k < size; ++k, columns += m) {
    for (int64_t i = 0; i < m; ++i) gradient[i] -= columns[i] * changes[k];
  }
}

// Minimise over group g (exactly where K_g is a multiple of the identity, else a bound of it); returns by how
// much its optimality condition was violated.
double improve(const GroupLasso& problem, size_t g, double* weights, double* gradient,
               double* spare) noexcept {
  const int64_t m = problem.start.back(), first = problem.start[g], size = problem.start[g + 1] - first;
  const double curvature = problem.curvature[g], limit = problem.limits[g];
  double squares = 0.0, moved = 0.0;
  for (int64_t o = 0; o < problem.n_outputs; ++o) {
    const double *w = weights + o * m + first, *b = gradient + o * m + first;
    double* target = spare + o * size;
    for (int64_t k = 0; k < size; ++k) {
      target[k] = b[k] + curvature * w[k];
      squares += target[k] * target[k];
    }
  }
  const double norm = std::sqrt(squares);
  const double shrink = norm > limit ? (1.0 - limit / norm) / curvature : 0.0;
  for (int64_t o = 0; o < problem.n_outputs; ++o) {
    double *w = weights + o * m + first, *change = spare + o * size;
    for (int64_t k = 0; k < size; ++k) {
      const double next = shrink * change[k];
      change[k] = next - w[k];
      w[k] = next;
      moved += change[k] * change[k];
    }
  }
  if (moved == 0.0) return 0.0;
  for (int64_t o = 0; o < problem.n_outputs; ++o) {
    follow(problem.gram + first * m, m, spare + o * size, size, gradient + o * m);
  }
  return curvature * std::sqrt(moved);
}

bool in_use(const GroupLasso& problem, size_t g, const double* weights) noexcept {
  const int64_t m = problem.start.back(), first = problem.start[g], end = problem.start[g + 1];
  for (int64_t o = 0; o < problem.n_outputs; ++o) {
    const double* w = weights + o * m;
    if (std::any_of(w + first, w + end, [](double weight) { return weight != 0.0; })) return true;
  }
  return false;
}

}  // namespace

bool descend(const GroupLasso& problem, double* weights, double* gradient, const double* tolerance,
             int64_t max_sweeps, double* spare) noexcept {
  bool everyone = true;  // a sweep over all groups, then sweeps over those in use until they rest, and again
  for (int64_t sweep = 0; sweep < max_sweeps; ++sweep) {
    bool rested = true;
    for (size_t g = 0; g < problem.limits.size(); ++g) {
      if (problem.start[g] == problem.start[g + 1] || (!everyone && !in_use(problem, g, weights))) continue;
      rested &= improve(problem, g, weights, gradient, spare) <= tolerance[g];
    }
    if (rested && everyone) return true;
    everyone = rested;
  }
  return false;
}

}  // namespace anytime
