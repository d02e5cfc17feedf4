// Values to ranks: see layout.hpp for what a rank is.
#pragma once

#include <cstdint>

#include "layout.hpp"

namespace anytime {

// Ranks of columns [from, to) of the layout for kLanes rows; `ranks` holds kLanes entries per column.
template <class Rank>
void bin_pack(const Layout& layout, bool float32_input, const double* const (&rows)[kLanes], int32_t from, int32_t to,
              Rank* ranks) noexcept;

// The same for one row, whose ranks stand in lane 0 of each column.
template <class Rank>
void bin_row(const Layout& layout, bool float32_input, const double* row, int32_t from, int32_t to,
             Rank* ranks) noexcept;

}  // namespace anytime
