// The plain walk: one row, one node after the other, as arrays.py describes it. It serves where every test
// has to be seen (metered runs, lazy features), and the fast kernels are judged by it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "forest.hpp"

namespace anytime {

inline bool is_member(std::span<const int32_t> members, double x) noexcept {
  if (!(x > -1.0 && x < kMaxCategory + 1.0)) return false;  // cut towards zero, -0.5 is category 0
  return std::binary_search(members.begin(), members.end(), static_cast<int32_t>(x));
}

inline bool goes_left(const Forest& forest, const PlainNode& node, double x) noexcept {
  if (forest.float32_input()) x = static_cast<float>(x);
  if (node.is_categorical()) {
    if (std::isnan(x)) return node.default_left != 0;
    return is_member(forest.members(node.category_set), x) == (node.members_left != 0);
  }
  if (std::isnan(x)) {
    if (node.missing != kMissingNever) return node.default_left != 0;
    x = 0.0;
  }
  if (node.missing == kMissingNanOrZero && std::abs(x) <= kZero) return node.default_left != 0;
  return x <= node.threshold;
}

// Node of the leaf that the row reaches. `may_read(feature)` is asked before a value is read; if it says no,
// -1.
template <class MayRead>
int64_t find_leaf(const Forest& forest, int64_t root, const double* row, MayRead&& may_read) noexcept {
  int64_t at = root;
  for (;;) {
    const PlainNode& node = forest.nodes()[static_cast<size_t>(at)];
    if (node.is_leaf()) return at;
    if (!may_read(node.feature)) return -1;
    at = goes_left(forest, node, row[node.feature]) ? node.left : node.right;
  }
}

inline int64_t find_leaf(const Forest& forest, int64_t root, const double* row) noexcept {
  return find_leaf(forest, root, row, [](int32_t) { return true; });
}

// Sums are unsigned inside: a caller's garbage may wrap around, but is never undefined behaviour.
inline void add_units(int64_t& sum, int64_t units) noexcept {
  sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(units));
}

// Adds what a leaf of `tree` says to the row's sums (n_outputs of them).
inline void add_leaf(const Forest& forest, int32_t tree, int64_t leaf, int64_t* sums) noexcept {
  const int64_t width = forest.value_width();
  const double* values = forest.values().data() + leaf * width;
  if (width == 1) {
    add_units(sums[forest.tree_output()[static_cast<size_t>(tree)]], forest.to_units(values[0]));
    return;
  }
  for (int64_t k = 0; k < width; ++k) add_units(sums[k], forest.to_units(values[k]));
}

}  // namespace anytime
