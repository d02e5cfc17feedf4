// Impurities of many sets at once, from their statistics.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace anytime {

enum class ImpurityKind : uint8_t {
  kPairs,
  kPowers,
  kPolynomial,
  kEntropy,
  kGini,
  kSquaredPairs,
  kSquaredError,
  kCustom
};

struct PolynomialTerm {
  double factor = 1.0;
  std::vector<int32_t> exponents;  // one per class
};

// By their formulas, of one set with statistics n.
namespace impurities {

// Pairs of examples of different classes: no difference of large numbers, zero exactly on pure sets.
inline double pairs(const double* n, int32_t width) noexcept {
  double sum = 0.0, before = 0.0;
  for (int32_t i = 0; i < width; ++i) {
    sum += n[i] * before;
    before += n[i];
  }
  return sum;
}

inline double threshold_pairs(const double* n, int32_t width, double alpha) noexcept {
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

inline double power(double x, int32_t degree) noexcept {
  double product = x;
  for (int32_t i = 1; i < degree; ++i) product *= x;
  return product;
}

inline double powers(const double* n, int32_t width, int32_t degree) noexcept {
  double total = 0.0, sum = 0.0;
  for (int32_t i = 0; i < width; ++i) {
    total += n[i];
    sum += power(n[i], degree);
  }
  return power(total, degree) - sum;
}

inline double polynomial(const double* n, int32_t width, const std::vector<PolynomialTerm>& terms) noexcept {
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

inline double entropy(const double* n, int32_t width) noexcept {
  double total = 0.0, sum = 0.0;
  for (int32_t i = 0; i < width; ++i) total += n[i];
  for (int32_t i = 0; i < width; ++i) {
    if (n[i] > 0.0) sum -= n[i] / total * std::log(n[i] / total);
  }
  return sum;
}

inline double gini(const double* n, int32_t width) noexcept {
  double total = 0.0;
  for (int32_t i = 0; i < width; ++i) total += n[i];
  return total > 0.0 ? 2.0 * pairs(n, width) / (total * total) : 0.0;
}

inline double squared_pairs(const double* n) noexcept { return std::max(n[0] * n[2] - n[1] * n[1], 0.0); }

inline double squared_error(const double* n) noexcept {
  const double mean = n[1] / n[0];
  return std::max(n[2] / n[0] - mean * mean, 0.0);
}

}  // namespace impurities

struct ImpurityRule {
  ImpurityKind kind = ImpurityKind::kPairs;
  double alpha = 0.0;                 // pairs
  int32_t degree = 2;                 // powers
  std::vector<PolynomialTerm> terms;  // polynomial
  // Custom: (n, width) statistics to n impurities; false: give up.
  std::function<bool(const double* statistics, int64_t n, int32_t width, double* out)> custom;

  // Statistics are sum w, sum w y, sum w y^2.
  bool regression() const noexcept {
    return kind == ImpurityKind::kSquaredPairs || kind == ImpurityKind::kSquaredError;
  }
  // Classes that a set has none of may be left out of its statistics.
  bool symmetric() const noexcept {
    return kind != ImpurityKind::kPolynomial && kind != ImpurityKind::kCustom;
  }
  bool is_custom() const noexcept { return kind == ImpurityKind::kCustom; }

  // use(of) with of(statistics, width), the impurity of one set; not for the custom one.
  template <class Use>
  void with(Use&& use) const;
  // out[i] for row i of (n, width) statistics; false: the custom one gave up.
  bool evaluate(const double* statistics, int64_t n, int32_t width, double* out) const;
};

template <class Use>
void ImpurityRule::with(Use&& use) const {
  switch (kind) {
    case ImpurityKind::kPairs:
      if (alpha == 0.0)
        return use([](const double* n, int32_t width) { return impurities::pairs(n, width); });
      return use(
          [this](const double* n, int32_t width) { return impurities::threshold_pairs(n, width, alpha); });
    case ImpurityKind::kPowers:
      return use([this](const double* n, int32_t width) { return impurities::powers(n, width, degree); });
    case ImpurityKind::kPolynomial:
      return use([this](const double* n, int32_t width) { return impurities::polynomial(n, width, terms); });
    case ImpurityKind::kEntropy:
      return use([](const double* n, int32_t width) { return impurities::entropy(n, width); });
    case ImpurityKind::kGini:
      return use([](const double* n, int32_t width) { return impurities::gini(n, width); });
    case ImpurityKind::kSquaredPairs:
      return use([](const double* n, int32_t) { return impurities::squared_pairs(n); });
    case ImpurityKind::kSquaredError:
      return use([](const double* n, int32_t) { return impurities::squared_error(n); });
    case ImpurityKind::kCustom:
      return;
  }
}

}  // namespace anytime
