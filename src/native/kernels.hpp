// The inner loop: sixteen walks side by side, one tree for sixteen rows or sixteen trees for one row.
#pragma once

#include <cstdint>

#include "layout.hpp"

namespace anytime {

template <class Rank>
inline size_t rank_at(const SmallNode& node) noexcept {
  return size_t{node.column} * kHalf;
}
template <class Rank>
inline size_t rank_at(const MediumNode& node) noexcept {
  return node.column;
}
template <class Rank>
inline size_t rank_at(const LargeNode& node) noexcept {
  return size_t{node.column} * kHalf;
}

template <class Node, class Rank>
inline uint32_t goes_right(const Node& node, const uint32_t*, Rank rank) noexcept {
  return rank > node.rank;
}
template <class Rank>
inline uint32_t goes_right(const LargeNode& node, const uint32_t* set_bits, Rank rank) noexcept {
  const uint32_t wide_rank = rank;
  const uint32_t word = set_bits[node.set == 0 ? 0 : node.set + (wide_rank >> 5)];
  return node.set == 0 ? wide_rank > node.rank : (word >> (wide_rank & 31u)) & 1u;
}

// Takes `steps` steps down with every walk. Walk i reads its ranks in lane i * kApart: 1 for rows, 0 for trees.
template <int kApart, class Node, class Rank>
inline void descend(const Node* nodes, const uint32_t* set_bits, const Rank* low, const Rank* high, int32_t steps,
                    uint32_t (&slot)[kLanes]) noexcept {
  uint32_t at[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) at[i] = slot[i];
  for (int32_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      const Node& node = nodes[at[i]];
      const Rank rank = (i < kHalf ? low : high)[rank_at<Rank>(node) + static_cast<size_t>(i % kHalf * kApart)];
      at[i] += node.down + goes_right(node, set_bits, rank);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) slot[i] = at[i];
}

}  // namespace anytime
