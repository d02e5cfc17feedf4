// Values to ranks: see layout.hpp for what a rank is.
#pragma once

#include <cstdint>

#include "layout.hpp"

namespace anytime {

// The ranks of a pack: those of its first kHalf rows, column after column, and those of the others.
template <class Rank>
struct PackRanks {
  Rank* low;
  Rank* high;
  size_t stride;  // from a column to the next: kHalf, or kScanRows where trees may be scanned
};

// Searches [from, to) of the layout for the rows of a pack.
template <class Rank>
void bin_pack(const Layout& layout, bool float32_input, const double* const (&rows)[kLanes], int32_t from,
              int32_t to, PackRanks<Rank> ranks) noexcept;

// The same for one row, whose ranks stand in the first lane.
template <class Rank>
void bin_row(const Layout& layout, bool float32_input, const double* row, int32_t from, int32_t to,
             Rank* ranks) noexcept;

}  // namespace anytime
