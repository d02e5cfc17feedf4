// Matrix products whose rows have the same bits whatever rows stand beside them, which BLAS does not promise:
// an interrupted and resumed run multiplies other sets of rows than an uninterrupted one.
#pragma once

#include <cstdint>
#include <vector>

namespace anytime {

// sums (k) += left (m) times right (m, k); each sum runs over m from first to last.
inline void add_product(const double* left, int64_t m, const double* right, int64_t k,
                        double* sums) noexcept {
  for (int64_t j = 0; j < m; ++j) {
    const double factor = left[j];
    const double* terms = right + j * k;
    for (int64_t c = 0; c < k; ++c) sums[c] += factor * terms[c];
  }
}

// The same with one sum per row, in eight interleaved parts: a single chain of additions waits for each of
// them.
inline double dot(const double* left, const double* right, int64_t m) noexcept {
  double parts[8] = {};
  int64_t j = 0;
  for (; j + 8 <= m; j += 8) {
    for (int64_t p = 0; p < 8; ++p) parts[p] += left[j + p] * right[j + p];
  }
  for (int64_t p = 0; j < m; ++j, ++p) parts[p] += left[j] * right[j];
  return ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
}

// out (n, k) = left (n, m) times right (m, k), all in C order.
inline void row_products(const double* left, int64_t n, int64_t m, const double* right, int64_t k,
                         double* out) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    double* sums = out + i * k;
    for (int64_t c = 0; c < k; ++c) sums[c] = 0.0;
    add_product(left + i * m, m, right, k, sums);
  }
}

// A linear model of some columns of X (n, d): out (n, k) = intercept (k) + (X[:, columns] - centres) times
// coefficients (m, k). With centres a missing value counts as its column's centre, so that it adds nothing;
// without, it spoils the sum.
inline void linear_outputs(const double* X, int64_t n, int64_t d, const int32_t* columns, int64_t m,
                           const double* centres, const double* coefficients, int64_t k,
                           const double* intercept, double* out) {
  std::vector<double> gathered(static_cast<size_t>(m));
  double* row = gathered.data();
  for (int64_t i = 0; i < n; ++i) {
    const double* x = X + i * d;
    for (int64_t j = 0; j < m; ++j) row[j] = x[columns[j]];
    if (centres != nullptr) {
      for (int64_t j = 0; j < m; ++j) {
        const double away = row[j] - centres[j];
        row[j] = row[j] == row[j] ? away : 0.0;
      }
    }
    double* sums = out + i * k;
    for (int64_t c = 0; c < k; ++c) sums[c] = intercept[c];
    if (k == 1) {
      sums[0] += dot(row, coefficients, m);
    } else {
      add_product(row, m, coefficients, k, sums);
    }
  }
}

}  // namespace anytime
