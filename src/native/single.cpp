// The microsecond path: one row, sixteen trees at a time.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "evaluate.hpp"
#include "pack.hpp"

namespace anytime {
namespace {

constexpr int32_t kTreesPerLook = 32;     // under a watch: about 300 ns
constexpr int32_t kSearchesPerLook = 32;

// Adds `count` trees from t on, at most kLanes, all in the form of `slots`.
template <class Node, class Rank>
void add_group(const Forest& forest, const Slots<Node>& slots, const Rank* ranks, int32_t t, int32_t count,
               int64_t* acc) noexcept {
  const Layout& layout = forest.layout();
  const Tree* trees = layout.trees.data() + t;
  uint32_t slot[kLanes];
  int32_t depth = 0;
  for (int i = 0; i < count; ++i) depth = std::max(depth, trees[i].depth);
  for (int i = 0; i < kLanes; ++i) slot[i] = trees[std::min(i, count - 1)].root;
  descend<0>(slots.nodes.data(), layout.set_bits.data(), ranks, ranks, depth, slot);
  const auto width = static_cast<size_t>(forest.value_width());
  for (int i = 0; i < count; ++i) {
    add_values(leaf_values(slots, trees[i], slot[i], width), width, trees[i].output, acc);
  }
}

// Adds trees [begin, end).
template <class Rank>
void add_trees(const Forest& forest, const double* x, const Rank* ranks, int32_t begin, int32_t end,
               int64_t* acc) noexcept {
  const Layout& layout = forest.layout();
  for (int32_t t = begin; t < end;) {
    const Form form = layout.trees[static_cast<size_t>(t)].form;
    int32_t count = 1;
    if (form == Form::kPlain) {
      add_leaf(forest, t, find_leaf(forest, layout.trees[static_cast<size_t>(t)].root, x), acc);
    } else {
      while (count < kLanes && t + count < end && layout.trees[static_cast<size_t>(t + count)].form == form) ++count;
      if (form == Form::kLarge) {
        add_group(forest, layout.large, ranks, t, count, acc);
      } else if constexpr (sizeof(Rank) == 1) {
        add_group(forest, layout.small, ranks, t, count, acc);
      } else {
        add_group(forest, layout.medium, ranks, t, count, acc);
      }
    }
    t += count;
  }
}

// Row by row the same memory serves again; a thread keeps its own.
template <class Rank>
Rank* scratch_ranks(size_t size) {
  thread_local LineVector<Rank> ranks;
  if (ranks.size() < size) ranks.resize(size);
  return ranks.data();
}

template <class Rank>
int32_t run_watched(const Forest& forest, const double* x, int32_t until, const Watch& watch, Rank* ranks,
                    int64_t* acc) {
  thread_local std::vector<int64_t> partial;
  const Layout& layout = forest.layout();
  partial.resize(static_cast<size_t>(forest.n_outputs()));
  int32_t binned = 0;
  for (int32_t s = 0; s < until;) {
    if (watch.expired()) return s;
    const int32_t begin = forest.first_tree(s);
    int32_t to = s + 1;  // as many whole stages as fit between two looks at the clock, and at least one
    while (to < until && forest.first_tree(to + 1) - begin <= kTreesPerLook) ++to;
    const int32_t end = forest.first_tree(to), needed = layout.searches_needed[static_cast<size_t>(to)];
    while (binned < needed) {
      const int32_t next = std::min(needed, binned + kSearchesPerLook);
      bin_row(layout, forest.float32_input(), x, binned, next, ranks);
      binned = next;
      if (watch.expired()) return s;
    }
    std::fill(partial.begin(), partial.end(), 0);
    for (int32_t t = begin; t < end; t += kTreesPerLook) {
      if (t > begin && watch.expired()) return s;
      add_trees(forest, x, ranks, t, std::min(end, t + kTreesPerLook), partial.data());
    }
    for (size_t k = 0; k < partial.size(); ++k) add_units(acc[k], partial[k]);
    s = to;
  }
  return until;
}

template <class Rank>
int32_t run_row(const Forest& forest, const double* x, int32_t until, const Watch& watch, int64_t* acc) {
  const Layout& layout = forest.layout();
  Rank* ranks = scratch_ranks<Rank>(layout.columns_for(until) * kHalf);
  if (watch.armed()) return run_watched(forest, x, until, watch, ranks, acc);
  bin_row(layout, forest.float32_input(), x, 0, layout.searches_needed[static_cast<size_t>(until)], ranks);
  add_trees(forest, x, ranks, 0, forest.first_tree(until), acc);
  return until;
}

}  // namespace

int32_t run_one(const Forest& forest, const double* x, int32_t until, const Watch& watch, int64_t* acc) {
  if (until < 0 || until > forest.n_stages()) {
    throw std::invalid_argument("until is " + std::to_string(until) + ", not in [0, " +
                                std::to_string(forest.n_stages()) + "]");
  }
  std::fill_n(acc, forest.n_outputs(), 0);
  return forest.layout().small_ranks ? run_row<uint8_t>(forest, x, until, watch, acc)
                                     : run_row<uint16_t>(forest, x, until, watch, acc);
}

}  // namespace anytime
