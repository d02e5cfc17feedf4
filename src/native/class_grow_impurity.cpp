#include "class_grow_impurity.hpp"

#include <algorithm>
#include <cmath>

namespace anytime {
namespace {

// Pairs of examples of different classes: no difference of large numbers, zero exactly on pure sets.
double pairs(const double* n, int32_t width) noexcept {
  double sum = 0.0, before = 0.0;
  for (int32_t i = 0; i < width; ++i) {
    sum += n[i] * before;
    before += n[i];
  }
  return sum;
}

double threshold_pairs(const double* n, int32_t width, double alpha) noexcept {
  double sum = 0.0;
  const double square = alpha * alpha;
  for (int32_t i = 0; i < width; ++i) {
    const double above = n[i] - alpha;
    if (above <= 0.0) continue;
    for (int32_t j = i + 1; j < width; ++j)
      sum += std::max(above * std::max(n[j] - alpha, 0.0) - square, 0.0);
  }
  return sum;
}

double power(double x, int32_t degree) noexcept {
  double product = x;
  for (int32_t i = 1; i < degree; ++i) product *= x;
  return product;
}

double powers(const double* n, int32_t width, int32_t degree) noexcept {
  double total = 0.0, sum = 0.0;
  for (int32_t i = 0; i < width; ++i) {
    total += n[i];
    sum += power(n[i], degree);
  }
  return power(total, degree) - sum;
}

double polynomial(const double* n, int32_t width, const std::vector<PolynomialTerm>& terms) noexcept {
  double sum = 0.0;
  for (const PolynomialTerm& term : terms) {
    double product = term.factor;
    for (int32_t j = 0; j < width; ++j) {
      for (int32_t p = 0; p < term.exponents[static_cast<size_t>(j)]; ++p) product *= n[j];
    }
    sum += product;
  }
  return sum;
}

double entropy(const double* n, int32_t width) noexcept {
  double total = 0.0, sum = 0.0;
  for (int32_t i = 0; i < width; ++i) total += n[i];
  for (int32_t i = 0; i < width; ++i) {
    if (n[i] > 0.0) sum -= n[i] / total * std::log(n[i] / total);
  }
  return sum;
}

double gini(const double* n, int32_t width) noexcept {
  double total = 0.0;
  for (int32_t i = 0; i < width; ++i) total += n[i];
  return total > 0.0 ? 2.0 * pairs(n, width) / (total * total) : 0.0;
}

double squared_pairs(const double* n) noexcept { return std::max(n[0] * n[2] - n[1] * n[1], 0.0); }

double squared_error(const double* n) noexcept {
  const double mean = n[1] / n[0];
  return std::max(n[2] / n[0] - mean * mean, 0.0);
}

template <class Of>
void each(const double* statistics, int64_t n, int32_t width, double* out, Of&& of) noexcept {
  for (int64_t i = 0; i < n; ++i) out[i] = of(statistics + i * width);
}

}  // namespace

bool ImpurityRule::evaluate(const double* statistics, int64_t n, int32_t width, double* out) const {
  const auto all = [&](auto&& of) { each(statistics, n, width, out, of); };
  switch (kind) {
    case ImpurityKind::kPairs:
      if (alpha == 0.0)
        all([&](const double* row) { return pairs(row, width); });
      else
        all([&](const double* row) { return threshold_pairs(row, width, alpha); });
      return true;
    case ImpurityKind::kPowers:
      all([&](const double* row) { return powers(row, width, degree); });
      return true;
    case ImpurityKind::kPolynomial:
      all([&](const double* row) { return polynomial(row, width, terms); });
      return true;
    case ImpurityKind::kEntropy:
      all([&](const double* row) { return entropy(row, width); });
      return true;
    case ImpurityKind::kGini:
      all([&](const double* row) { return gini(row, width); });
      return true;
    case ImpurityKind::kSquaredPairs:
      all([](const double* row) { return squared_pairs(row); });
      return true;
    case ImpurityKind::kSquaredError:
      all([](const double* row) { return squared_error(row); });
      return true;
    case ImpurityKind::kCustom:
      return custom(statistics, n, width, out);
  }
  return false;
}

}  // namespace anytime
