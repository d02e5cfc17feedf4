#include "class_grow_impurity.hpp"

namespace anytime {

bool ImpurityRule::evaluate(const double* statistics, int64_t n, int32_t width, double* out) const {
  if (is_custom()) return custom(statistics, n, width, out);
  with([&](const auto& of) {
    for (int64_t i = 0; i < n; ++i) out[i] = of(statistics + i * width, width);
  });
  return true;
}

}  // namespace anytime
