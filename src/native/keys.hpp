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

// The ranks of a few packs in those of the searches [from, to) that have keys and are not among the few
// tests.
template <class Rank>
using BinByKeys = void (*)(const Layout& layout, bool float32_input, std::span<const PackRows<Rank>> packs,
                           int32_t from, int32_t to, const FewTests& few) noexcept;

// The ranks of at most kBinTogether packs in columns of which few thresholds are tested. A row's columns are
// compared as they stand in memory; only bits change from rows to columns.
template <class Rank>
using BinFew = void (*)(bool float32_input, std::span<const FewTests::Columns> columns,
                        std::span<const PackRows<Rank>> packs) noexcept;

// Null where an instruction set has none.
template <class Rank>
BinByKeys<Rank> bin_by_keys_for(Vectors vectors) noexcept;
template <class Rank>
BinFew<Rank> bin_few_for(Vectors vectors) noexcept;

}  // namespace anytime
