// Means over the regions of a structure: of a picture's atoms, of a sentence's words.
#pragma once

#include <cstdint>
#include <span>

namespace anytime {

// The elements of every region, one list after the other, and the share of its region that each makes up.
struct RegionElements {
  std::span<const int64_t> start;  // n_regions + 1
  std::span<const int64_t> element;
  std::span<const double> share;  // of the elements in that order
};

// means (n_regions, n_columns) of values (n_elements, n_columns), added up in the order of the lists: a
// region has the same bits whatever others are worked on. `wanted`, by region: the others are left as they
// are; none: all are worked on.
void region_means(const RegionElements& regions, const double* values, int64_t n_columns,
                  const uint8_t* wanted, double* means);

}  // namespace anytime
