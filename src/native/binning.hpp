// Values to ranks: see layout.hpp for what a rank is.
#pragma once

#include <cstdint>
#include <span>

#include "layout.hpp"

namespace anytime {

// The ranks of a pack: those of its first kHalf rows, column after column, and those of the others.
template <class Rank>
struct PackRanks {
  Rank* low;
  Rank* high;
  size_t stride;  // from a column to the next: kHalf, or kScanRows where trees may be scanned
};

// The rows of a pack, and where their ranks are to stand.
template <class Rank>
struct PackRows {
  const double* row[kLanes];
  PackRanks<Rank> ranks;
};

// Packs that are best taken together: their rows stay in the first cache, and what a search reads serves them
// all.
inline constexpr size_t kBinTogether = 4;

// Searches [from, to) of the layout for the rows of some packs.
template <class Rank>
void bin_packs(const Layout& layout, bool float32_input, std::span<const PackRows<Rank>> packs, int32_t from,
               int32_t to) noexcept;

// One search, by comparisons of doubles (or categories) alone.
template <class Rank>
void bin_by_doubles(const Layout& layout, bool float32_input, const Search& search,
                    std::span<const PackRows<Rank>> packs) noexcept;

// The same for one row, whose ranks stand in the first lane.
template <class Rank>
void bin_row(const Layout& layout, bool float32_input, const double* row, int32_t from, int32_t to,
             Rank* ranks) noexcept;

}  // namespace anytime
