// The inner loops: sixteen walks side by side, one tree for sixteen rows or sixteen trees for one row.
//
// Walks differ in length. All take as many steps as a balanced tree would need, and a few more, without
// looking; then those that are not on a leaf yet are gathered and go on together, so that a lopsided tree
// costs its typical depth and not its greatest.
#pragma once

#include <algorithm>
#include <cstdint>

#include "layout.hpp"

namespace anytime {

inline constexpr uint32_t kMostWalks = 256;  // that are finished together
inline constexpr int32_t kStepsPerCheck = 4;

// Where a node's rank is found, with `kStride` ranks from a column to the next.
template <size_t kStride>
inline size_t rank_at(const SmallNode& node) noexcept {
  return size_t{node.column} * kStride;
}
template <size_t kStride>
inline size_t rank_at(const MediumNode& node) noexcept {
  return size_t{node.column} * (kStride / kHalf);
}
template <size_t kStride>
inline size_t rank_at(const LargeNode& node) noexcept {
  return size_t{node.column} * kStride;
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

// Takes `steps` steps down with kLanes walks; `lane(i)` is where walk i reads its ranks.
template <size_t kStride, class Node, class Lane>
inline void descend(const Node* nodes, const uint32_t* set_bits, Lane&& lane, int32_t steps,
                    uint32_t* slot) noexcept {
  uint32_t at[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) at[i] = slot[i];
  for (int32_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      const Node& node = nodes[at[i]];
      at[i] += node.down + goes_right(node, set_bits, lane(i)[rank_at<kStride>(node)]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) slot[i] = at[i];
}

// Takes `count` walks, at most kMostWalks, from wherever they are down to their leaves; `lane(w)` as above.
template <class Rank, size_t kStride, class Node, class Lane>
inline void finish(const Node* nodes, const uint32_t* set_bits, Lane&& lane, uint32_t* slot,
                   uint32_t count) noexcept {
  uint16_t open[kMostWalks + kLanes];
  uint32_t n = 0;
  for (uint32_t w = 0; w < count; ++w) {
    open[n] = static_cast<uint16_t>(w);
    n += nodes[slot[w]].down != 0;
  }
  while (n > 0) {
    std::fill_n(open + n, kLanes, open[n - 1]);
    for (uint32_t first = 0; first < n; first += kLanes) {
      const uint16_t* walk = open + first;
      uint32_t at[kLanes];
      const Rank* ranks[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        at[i] = slot[walk[i]];
        ranks[i] = lane(walk[i]);
      }
      descend<kStride>(nodes, set_bits, [&](int i) { return ranks[i]; }, kStepsPerCheck, at);
      for (int i = 0; i < kLanes; ++i) slot[walk[i]] = at[i];
    }
    uint32_t still = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const uint16_t w = open[i];
      open[still] = w;
      still += nodes[slot[w]].down != 0;
    }
    n = still;
  }
}

}  // namespace anytime
