// One tree for the rows of a pack.
#pragma once

#include <algorithm>
#include <cstdint>

#include "binning.hpp"
#include "kernels.hpp"
#include "walk.hpp"

namespace anytime {

// Memory for the ranks of packs, all of one size.
template <class Rank>
class RankStore {
 public:
  RankStore(const Layout& layout, int32_t stages, size_t packs)
      : half_(layout.columns_for(stages) * kHalf), ranks_(2 * half_ * packs) {}

  PackRanks<Rank> operator[](size_t pack) noexcept {
    Rank* low = ranks_.data() + 2 * half_ * pack;
    return {low, low + half_};
  }
  static size_t bytes_per_pack(const Layout& layout, int32_t stages) noexcept {
    return 2 * kHalf * sizeof(Rank) * layout.columns_for(stages);
  }

 private:
  size_t half_;
  LineVector<Rank> ranks_;
};

// Values of the leaf in a slot.
template <class Node>
inline const int64_t* leaf_values(const Slots<Node>& slots, const Tree& tree, uint32_t slot, size_t width) noexcept {
  const uint32_t leaf = tree.numbered ? static_cast<uint32_t>(slots.nodes[slot].column) : slot - tree.root;
  return slots.values.data() + size_t{tree.value + leaf} * width;
}

inline void add_values(const int64_t* values, size_t width, int32_t output, int64_t* sums) noexcept {
  if (width == 1) {
    add_units(sums[output], values[0]);
    return;
  }
  for (size_t k = 0; k < width; ++k) add_units(sums[k], values[k]);
}

template <class Node, class Rank, class Sums>
void add_slots(const Forest& forest, const Slots<Node>& slots, const Tree& tree, PackRanks<Rank> ranks, int32_t rows,
               Sums&& sums) noexcept {
  uint32_t slot[kLanes];
  std::fill_n(slot, kLanes, tree.root);
  descend<1>(slots.nodes.data(), forest.layout().set_bits.data(), ranks.low, ranks.high, tree.depth, slot);
  const auto width = static_cast<size_t>(forest.value_width());
  for (int lane = 0; lane < rows; ++lane) {
    if (int64_t* out = sums(lane)) add_values(leaf_values(slots, tree, slot[lane], width), width, tree.output, out);
  }
}

// Adds the answers of tree t. `sums(lane)` is where a lane's outputs are summed, null to leave it out; `x(lane)` is its
// row.
template <class Rank, class Sums, class X>
void add_tree(const Forest& forest, int32_t t, PackRanks<Rank> ranks, int32_t rows, Sums&& sums, X&& x) noexcept {
  const Layout& layout = forest.layout();
  const Tree& tree = layout.trees[static_cast<size_t>(t)];
  if (tree.form == Form::kPlain) {
    for (int lane = 0; lane < rows; ++lane) {
      if (int64_t* out = sums(lane)) add_leaf(forest, t, find_leaf(forest, tree.root, x(lane)), out);
    }
  } else if (tree.form == Form::kLarge) {
    add_slots(forest, layout.large, tree, ranks, rows, sums);
  } else if constexpr (sizeof(Rank) == 1) {
    add_slots(forest, layout.small, tree, ranks, rows, sums);
  } else {
    add_slots(forest, layout.medium, tree, ranks, rows, sums);
  }
}

}  // namespace anytime
