// Ranks of many rows by 16-bit keys.
//
// A search in doubles waits for memory at every step. Keys (see Search::key_of) are a quarter of their size:
// those of a search fit into a few registers, in which 32 rows are searched side by side. A row whose key
// equals that of the next threshold compares doubles from there on, so that ranks are exact.
#pragma once

#include <span>

#include "binning.hpp"
#include "scan.hpp"

namespace anytime {

// The ranks of a few packs in those of the searches [from, to) that have keys.
template <class Rank>
using BinByKeys = void (*)(const Layout& layout, bool float32_input, std::span<const PackRows<Rank>> packs,
                           int32_t from, int32_t to) noexcept;

// Null where an instruction set has none.
template <class Rank>
BinByKeys<Rank> bin_by_keys_for(Vectors vectors) noexcept;

}  // namespace anytime
