// Matrix products whose rows have the same bits whatever rows stand beside them, which BLAS does not promise:
// an interrupted and resumed run multiplies other sets of rows than an uninterrupted one.
#pragma once

#include <cstdint>

namespace anytime {

// out (n, k) = left (n, m) times right (m, k), all in C order; each sum runs over m from first to last.
inline void row_products(const double* left, int64_t n, int64_t m, const double* right, int64_t k,
                         double* out) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    double* sums = out + i * k;
    for (int64_t c = 0; c < k; ++c) sums[c] = 0.0;
    for (int64_t j = 0; j < m; ++j) {
      const double factor = left[i * m + j];
      const double* terms = right + j * k;
      for (int64_t c = 0; c < k; ++c) sums[c] += factor * terms[c];
    }
  }
}

}  // namespace anytime
