// One tree for the rows of several packs.
#pragma once

#include <cstdint>
#include <span>

#include "binning.hpp"
#include "kernels.hpp"
#include "walk.hpp"

namespace anytime {

inline constexpr size_t kSpan = kMostWalks / kLanes;  // packs that go through a tree together
static_assert(kSpan * kLanes == kScanRows);

// Memory for the ranks of packs. Those for scans lie in pieces of kSpan packs, kScanRows ranks of a column
// side by side; others pack by pack, so that a walk finds the columns that it tests close together.
template <class Rank>
class RankStore {
 public:
  RankStore(const Layout& layout, int32_t stages, size_t packs, bool scans)
      : scans_(scans),
        half_(layout.columns_for(stages) * kHalf),
        ranks_(2 * half_ * (scans ? (packs + kSpan - 1) / kSpan * kSpan : packs)) {}

  PackRanks<Rank> operator[](size_t pack) noexcept {
    if (scans_) {
      Rank* low = ranks_.data() + 2 * half_ * (pack / kSpan * kSpan) + pack % kSpan * kLanes;
      return {low, low + kHalf, kScanRows};
    }
    Rank* low = ranks_.data() + 2 * half_ * pack;
    return {low, low + half_, kHalf};
  }
  static size_t bytes_per_pack(const Layout& layout, int32_t stages) noexcept {
    return 2 * kHalf * sizeof(Rank) * layout.columns_for(stages);
  }

 private:
  bool scans_;
  size_t half_;
  LineVector<Rank> ranks_;
};

// Slots of the leaves that the rows of at most kSpan packs reach; kLanes of them per pack.
template <size_t kStride, class Node, class Rank>
void find_slots(const Layout& layout, const Slots<Node>& slots, const Tree& tree,
                std::span<const PackRanks<Rank>> packs, uint32_t* slot) noexcept {
  const Node* nodes = slots.nodes.data();
  const uint32_t* set_bits = layout.set_bits.data();
  for (size_t p = 0; p < packs.size(); ++p) {
    const PackRanks<Rank> ranks = packs[p];
    std::fill_n(slot + p * kLanes, kLanes, tree.root);
    descend<kStride>(
        nodes, set_bits, [&](int i) { return i < kHalf ? ranks.low + i : ranks.high + (i - kHalf); },
        tree.sure_steps, slot + p * kLanes);
  }
  if (tree.sure_steps == tree.depth) return;
  const auto lane = [&](uint32_t w) -> const Rank* {
    const PackRanks<Rank>& ranks = packs[w / kLanes];
    return (w % kLanes < kHalf ? ranks.low : ranks.high) + w % kHalf;
  };
  finish<Rank, kStride>(nodes, set_bits, lane, slot, static_cast<uint32_t>(packs.size()) * kLanes);
}

// Values of the leaf in a slot.
template <class Node>
inline const int64_t* leaf_values(const Slots<Node>& slots, const Tree& tree, uint32_t slot,
                                  size_t width) noexcept {
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

// Calls `use` with the nodes in which trees of a form (not plain) are stored.
template <class Rank, class Use>
inline void with_slots(const Layout& layout, Form form, Use&& use) noexcept {
  if (form == Form::kLarge) {
    use(layout.large);
  } else if constexpr (sizeof(Rank) == 1) {
    use(layout.small);
  } else {
    use(layout.medium);
  }
}

}  // namespace anytime
