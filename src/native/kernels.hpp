// The inner loops: sixteen walks side by side, one tree for sixteen rows or sixteen trees for one row.
#pragma once

#include <cstdint>

#include "layout.hpp"

namespace anytime {

template <class Rank>
inline uint32_t step(const NarrowNode& node, const uint32_t*, Rank rank) noexcept {
  return node.left + (rank > node.rank);
}

template <class Rank>
inline uint32_t step(const WideNode& node, const uint32_t* set_bits, Rank rank) noexcept {
  const uint32_t wide_rank = rank;
  const uint32_t word = set_bits[node.set == 0 ? 0 : node.set + (wide_rank >> 5)];
  const uint32_t in_set = (word >> (wide_rank & 31u)) & 1u;
  return node.left + (node.set == 0 ? wide_rank > node.rank : in_set);
}

// Moves every walk down until all stand on a leaf, which takes at most `depth` steps. Walk i reads `ranks[i * apart]`
// and what stands kLanes entries further for each further column.
template <int kApart, class Node, class Rank>
inline void descend(const Node* nodes, const uint32_t* set_bits, const Rank* ranks, int32_t depth,
                    uint32_t (&slot)[kLanes]) noexcept {
  constexpr int32_t kStepsPerCheck = STEPS;
  uint32_t at[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) at[i] = slot[i];
  int32_t d = 0;
#ifdef CHECK
  while (depth - d > kStepsPerCheck) {
    for (int32_t e = d + (d == 0 ? CHECK : kStepsPerCheck) - 1; d < e; ++d) {
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        const Node& node = nodes[at[i]];
        at[i] = step(node, set_bits, ranks[size_t{node.column} + static_cast<size_t>(i * kApart)]);
      }
    }
    uint32_t moved = 0;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      const Node& node = nodes[at[i]];
      const uint32_t next = step(node, set_bits, ranks[size_t{node.column} + static_cast<size_t>(i * kApart)]);
      moved |= next ^ at[i];
      at[i] = next;
    }
    ++d;
    if (moved == 0) {d = depth; break;}
  }
#endif
  for (; d < depth; ++d) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      const Node& node = nodes[at[i]];
      at[i] = step(node, set_bits, ranks[size_t{node.column} + static_cast<size_t>(i * kApart)]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) slot[i] = at[i];
}

}  // namespace anytime
