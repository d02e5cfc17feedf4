// The forest rearranged for speed.
//
// A value is compared many times but lies between the same two thresholds each time. So each row is first turned into
// ranks: per column, how many of the forest's thresholds lie below the value. Then x <= threshold[k] is rank <= k, a
// comparison of small integers, exact for every double. A column is split by what its nodes do with missing values,
// which then have a rank too (first or last), and no node needs to ask.
//
// Siblings are neighbours, so a step down is `left + (rank > node.rank)`; a leaf leads to itself, so that many walks
// can take the same number of steps side by side, which hides the latency of memory.
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include "forest.hpp"

namespace anytime {

inline constexpr int kLanes = 16;  // rows of a pack: their ranks stand side by side, column after column

struct NarrowNode {
  uint16_t column;  // times kLanes
  uint16_t rank;
  uint32_t left;
};

// For trees with categories, and forests with more columns or thresholds than 16 bits can number.
struct WideNode {
  uint32_t column;  // times kLanes
  uint32_t rank;
  uint32_t left;
  uint32_t set;  // 0: numeric; otherwise the first word of a bit set in which 1 means right
};

// What a value that is not a plain number becomes, at all nodes of a column of the layout.
enum class Reading : uint8_t { kNanIsZero, kNanLeft, kNanRight, kNanOrZeroLeft, kNanOrZeroRight, kCategory };

struct Column {
  int32_t feature;
  Reading reading;
  uint32_t first;  // thresholds, or for a category the values that some set names
  uint32_t count;
};

enum class Form : uint8_t { kNarrow, kWide, kPlain };

struct Tree {
  uint32_t root;  // slot, or node when plain
  int32_t depth;  // steps that lead from the root to any leaf
  int32_t output;
  Form form;
};

template <class T>
struct LineAligned {  // allocator: a tree's first three levels fill exactly one cache line
  using value_type = T;
  LineAligned() = default;
  template <class U>
  LineAligned(const LineAligned<U>&) noexcept {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, size_t) noexcept { ::operator delete(p, std::align_val_t{64}); }
  template <class U>
  bool operator==(const LineAligned<U>&) const noexcept {
    return true;
  }
};

template <class T>
using LineVector = std::vector<T, LineAligned<T>>;

template <class Node>
struct Slots {
  LineVector<Node> nodes;
  std::vector<int64_t> values;  // (slots, value_width), in units; zero at inner nodes
};

struct Layout {
  explicit Layout(const Forest& forest);

  std::vector<Column> columns;  // in the order in which stages first need them
  std::vector<double> thresholds;
  std::vector<int32_t> categories;
  std::vector<int32_t> columns_needed;  // (n_stages + 1): stages before s use the first columns_needed[s] columns
  std::vector<int64_t> work;            // (n_stages + 1): steps that one row takes in the stages before s
  std::vector<Tree> trees;
  Slots<NarrowNode> narrow;
  Slots<WideNode> wide;
  std::vector<uint32_t> set_bits;
  bool wide_ranks = false;  // ranks are uint32 instead of uint16
};

// Rank of a value that goes right everywhere, and of a leaf, which sends everything left (to itself).
template <class Rank>
inline constexpr Rank kLastRank = static_cast<Rank>(~Rank{0});

}  // namespace anytime
