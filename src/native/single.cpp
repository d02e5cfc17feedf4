// The microsecond path: one row, sixteen trees at a time.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "evaluate.hpp"
#include "pack.hpp"

namespace anytime {
namespace {

// Trees between two looks at the clock: few at first, when one more matters most, later about half a
// microsecond's, or some where the trees come from memory; few again when the deadline is near.
constexpr int32_t kFewestTrees = kLanes, kMostTrees = 64;
constexpr int32_t kSearchesPerLook = 32;
constexpr int64_t kNearNanoseconds = 20'000;
// While the deadline is this far away, looks are rare: a window of so many trees takes some microseconds.
constexpr int64_t kFarNanoseconds = 1'000'000;
constexpr int32_t kTreesWhileFar = 512, kSearchesWhileFar = 1024;

// Adds `count` trees from t on, at most kMostWalks, all stored in `slots`.
template <class Node, class Rank>
void add_group(const Forest& forest, const Slots<Node>& slots, const Rank* ranks, size_t t, size_t count,
               int64_t* acc) noexcept {
  const Layout& layout = forest.layout();
  const Node* nodes = slots.nodes.data();
  const Tree* trees = layout.trees.data() + t;
  const auto lane = [=](uint32_t) { return ranks; };
  uint32_t slot[kMostWalks + kLanes];
  std::copy_n(layout.roots.data() + t, count, slot);
  std::fill_n(slot + count, kLanes, layout.roots[t]);
  for (size_t first = 0; first < count; first += kLanes) {
    descend<kHalf>(nodes, layout.set_bits.data(), lane, trees[first].sure_steps, slot + first);
  }
  finish<Rank, kHalf>(nodes, layout.set_bits.data(), lane, slot, static_cast<uint32_t>(count));

  const auto width = static_cast<size_t>(forest.value_width());
  if (forest.n_outputs() == 1) {  // a sum in a register does not wait for the one before to be stored
    int64_t sum = 0;
    for (size_t i = 0; i < count; ++i) add_units(sum, *leaf_values(slots, trees[i], slot[i], 1));
    add_units(*acc, sum);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    add_values(leaf_values(slots, trees[i], slot[i], width), width, trees[i].output, acc);
  }
}

// Adds trees [begin, end).
template <class Rank>
void add_trees(const Forest& forest, const double* x, const Rank* ranks, int32_t begin, int32_t end,
               int64_t* acc) noexcept {
  const Layout& layout = forest.layout();
  for (auto t = static_cast<size_t>(begin); t < static_cast<size_t>(end);) {
    const Form form = layout.trees[t].form;
    if (form == Form::kPlain || ranks == nullptr) {
      add_leaf(forest, static_cast<int32_t>(t), find_leaf(forest, forest.tree_start()[t], x), acc);
      ++t;
      continue;
    }
    const size_t most = std::min(static_cast<size_t>(end) - t, size_t{kMostWalks});
    size_t count = 1;
    while (count < most && layout.trees[t + count].form == form) ++count;
    with_slots<Rank>(layout, form,
                     [&](const auto& slots) { add_group(forest, slots, ranks, t, count, acc); });
    t += count;
  }
}

template <class Rank>
int32_t run_watched(const Forest& forest, const double* x, int32_t until, const Watch& watch, Rank* ranks,
                    int64_t* acc) {
  thread_local std::vector<int64_t> partial;
  const Layout& layout = forest.layout();
  partial.resize(static_cast<size_t>(forest.n_outputs()));
  int32_t searched = 0;
  for (int32_t s = 0; s < until;) {
    const int64_t left = watch.left_ns();
    if (left <= 0) return s;
    const bool far = left > kFarNanoseconds && watch.is_deadline();
    const int32_t begin = forest.first_tree(s), most = left < kNearNanoseconds ? kFewestTrees : kMostTrees;
    const int32_t window = far ? kTreesWhileFar : std::clamp(begin, kFewestTrees, most);
    // As many whole stages as fit between two looks at the clock, and at least one.
    const auto starts = forest.stage_start();
    const auto beyond = std::upper_bound(starts.begin() + s + 2, starts.begin() + until + 1, begin + window);
    const auto to = static_cast<int32_t>(beyond - starts.begin()) - 1;
    const int32_t end = forest.first_tree(to), needed = layout.searches_needed[static_cast<size_t>(to)];
    while (ranks != nullptr && searched < needed) {
      const int32_t next = std::min(needed, searched + (far ? kSearchesWhileFar : kSearchesPerLook));
      bin_row(layout, forest.float32_input(), x, searched, next, ranks);
      searched = next;
      if ((!far || searched < needed) && watch.expired()) return s;
    }
    std::fill(partial.begin(), partial.end(), 0);
    for (int32_t t = begin; t < end; t += window) {
      if (t > begin && watch.expired()) return s;
      add_trees(forest, x, ranks, t, std::min(end, t + window), partial.data());
    }
    for (size_t k = 0; k < partial.size(); ++k) add_units(acc[k], partial[k]);
    s = to;
  }
  return until;
}

template <class Rank>
int32_t run_row(const Forest& forest, const double* x, int32_t until, const Watch& watch, int64_t* acc) {
  thread_local LineVector<Rank> scratch;  // the same memory serves row after row
  const Layout& layout = forest.layout();
  Rank* ranks = nullptr;
  if (!layout.is_short(0, until, kSearchAlone)) {
    const size_t size = layout.columns_for(until) * kHalf;
    if (scratch.size() < size) scratch.resize(size);
    ranks = scratch.data();
  }
  if (watch.armed()) return run_watched(forest, x, until, watch, ranks, acc);
  if (ranks != nullptr) {
    bin_row(layout, forest.float32_input(), x, 0, layout.searches_needed[static_cast<size_t>(until)], ranks);
  }
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
