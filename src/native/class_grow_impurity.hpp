// Impurities of many sets at once, from their statistics.
#pragma once

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

  // out[i] for row i of (n, width) statistics; false: the custom one gave up.
  bool evaluate(const double* statistics, int64_t n, int32_t width, double* out) const;
};

}  // namespace anytime
