#include "region_means.hpp"

#include <algorithm>
#include <cstddef>

namespace anytime {

void region_means(const RegionElements& regions, const double* values, int64_t n_columns,
                  const uint8_t* wanted, double* means) {
  for (size_t r = 0; r + 1 < regions.start.size(); ++r) {
    if (wanted != nullptr && wanted[r] == 0) continue;
    double* to = means + static_cast<int64_t>(r) * n_columns;
    std::fill_n(to, n_columns, 0.0);
    for (int64_t i = regions.start[r]; i < regions.start[r + 1]; ++i) {
      const double share = regions.share[static_cast<size_t>(i)];
      const double* from = values + regions.element[static_cast<size_t>(i)] * n_columns;
      for (int64_t k = 0; k < n_columns; ++k) to[k] += share * from[k];
    }
  }
}

}  // namespace anytime
