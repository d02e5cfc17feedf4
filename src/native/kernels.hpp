// The inner loops: sixteen walks at a time, either one tree for sixteen rows or several trees for one row.
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

// Slots reached by the rows of a pack in one tree.
template <class Node, class Rank>
inline void descend_rows(const Node* nodes, const uint32_t* set_bits, const Rank* ranks, uint32_t root, int32_t depth,
                         uint32_t (&slot)[kLanes]) noexcept {
  constexpr int kTogether = 8;  // as many walks as there are registers for
  for (int first = 0; first < kLanes; first += kTogether) {
    uint32_t at[kTogether];
    for (uint32_t& a : at) a = root;
    for (int32_t d = 0; d < depth; ++d) {
      for (int i = 0; i < kTogether; ++i) {
        const Node& node = nodes[at[i]];
        at[i] = step(node, set_bits, ranks[node.column + static_cast<uint32_t>(first + i)]);
      }
    }
    for (int i = 0; i < kTogether; ++i) slot[first + i] = at[i];
  }
}

// Slots reached by one row in N trees; `ranks` is its lane.
template <int N, class Node, class Rank>
inline void descend_trees(const Node* nodes, const uint32_t* set_bits, const Rank* ranks, int32_t depth,
                          uint32_t (&slot)[N]) noexcept {
  for (int32_t d = 0; d < depth; ++d) {
    for (int i = 0; i < N; ++i) {
      const Node& node = nodes[slot[i]];
      slot[i] = step(node, set_bits, ranks[node.column]);
    }
  }
}

}  // namespace anytime
