// What is still open in a pruning: splits whose fate is not settled, and the pairs that several of them need.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "prune.hpp"

namespace anytime {

enum class Fate : uint8_t { kOpen = 0, kPruned = 1, kInternal = 2 };

// Gains and prices in whole units.
struct PruneMoney {
  std::span<const int64_t> gain;  // of every split; negative: it costs to keep it, pairs apart
  std::span<const double> rate;   // of every group: what it costs for a row of weight 1, rounded up per row
};

// Numbered anew: splits with their links, pairs with their links.
struct OpenGraph {
  std::vector<int32_t> split;  // number in the graph
  std::vector<int32_t> up;     // -1: the parent is settled, or there is none
  std::vector<int32_t> child_start, child;
  std::vector<int64_t> link_start;  // of splits
  std::vector<int32_t> link_pair;
  std::vector<int64_t> pair_start;
  std::vector<int32_t> pair_split;
  std::vector<uint32_t> pair_link;
  std::vector<int64_t> money;  // of splits; negative: what is missing to keep it
  std::vector<int64_t> room;   // of pairs: what they cost

  int32_t n_splits() const noexcept { return static_cast<int32_t>(split.size()); }
  int32_t n_pairs() const noexcept { return static_cast<int32_t>(room.size()); }
  std::span<const int32_t> children(int32_t k) const noexcept {
    return {child.data() + child_start[k], child.data() + child_start[k + 1]};
  }
};

// Settles what is easy to settle (in `fate`, which says what is known already) and returns the rest. Whatever
// the prices of the pairs, the best pruning with the fewest splits is the same.
OpenGraph open_graph(const PruneGraph& graph, const PruneMoney& money, std::span<Fate> fate);

}  // namespace anytime
