// The forest rearranged for speed.
//
// A value is compared many times but lies between the same two thresholds each time. So each row is first
// turned into ranks: per column, how many of the forest's thresholds lie below the value. Then x <=
// threshold[k] is rank <= k, a comparison of small integers, exact for every double. Nodes that treat missing
// values differently use different columns of ranks, in which a missing value is first or last, so that no
// node needs to ask. A column with more thresholds than its integers can count is cut into several.
//
// Siblings are neighbours, so a step down is `at += node.down + (rank > node.rank)`. A leaf leads to itself:
// then many walks can take the same number of steps side by side, which hides the latency of memory.
#pragma once

#include <bit>
#include <cstdint>
#include <new>
#include <vector>

#include "forest.hpp"
#include "frozen.hpp"
#include "scan.hpp"

namespace anytime {

inline constexpr int kHalf = 8;            // ranks of this many rows stand side by side, column after column
inline constexpr int kLanes = 2 * kHalf;   // rows of a pack, walks that go side by side
inline constexpr int64_t kWholeStep = 64;  // a node of a scan costs a row about this part of a step of a walk

// Nanoseconds that the search for a rank takes, measured: for one of many rows, for a row alone.
inline constexpr double kSearchInPack = 2.5, kSearchAlone = 6.0;

// Ranks of 8 bits, at most 256 columns: four bytes a node keep a forest of 500 trees in the second cache.
struct SmallNode {
  using Rank = uint8_t;
  uint8_t column;  // at a leaf, its number within the tree (reads a rank that decides nothing)
  uint8_t rank;
  uint16_t down;  // slots from here to the left child
};

// Ranks of 16 bits.
struct MediumNode {
  using Rank = uint16_t;
  uint16_t column;  // times kHalf
  uint16_t rank;
  uint32_t down;
};

// For trees with categories, and for forests with more columns than the others can number.
struct LargeNode {
  using Rank = uint16_t;
  uint32_t column;
  uint32_t rank;
  uint32_t down;
  uint32_t set;  // 0: numeric; otherwise the first word of a bit set in which 1 means right
};

// What a value that is not a plain number becomes, at all nodes that share a column.
enum class Reading : uint8_t { kNanIsZero, kNanLeft, kNanRight, kNanOrZeroLeft, kNanOrZeroRight, kCategory };

inline bool nan_goes_right(Reading reading) noexcept {
  return reading == Reading::kNanRight || reading == Reading::kNanOrZeroRight;
}

// One look-up of a value among sorted numbers; the answer fills one or more columns of ranks.
//
// The range of a column's thresholds is cut into buckets of equal width. Which bucket a value falls into is a
// product and a rounding, both of which never swap two numbers: thresholds of lower buckets lie below the
// value, those of higher buckets do not, and only the few of its own bucket are left to search.
struct Search {
  int32_t feature;
  Reading reading;
  uint32_t first;  // in thresholds, or in categories: the values that some set names
  uint32_t count;
  uint32_t column;
  uint32_t columns;
  double low = 0.0, scale = 0.0;  // of thresholds: where buckets begin, buckets per unit
  double last_bucket = 0.0;
  uint32_t bucket = 0;  // in Layout::buckets
  uint32_t steps = 0;   // halvings that find a place among the thresholds of any bucket
  double key_low = 0.0, key_scale = 0.0;
  uint32_t keys = 0;      // the first of its tables in Layout::keys
  uint32_t key_step = 0;  // how many keys share a pivot: 1, 2 or 4; 0: the search has no keys

  // A NaN falls into the first bucket: it lies above no threshold.
  int32_t bucket_of(double x) const noexcept { return bucket_of(x, low, scale, last_bucket); }
  static int32_t bucket_of(double x, double low, double scale, double last) noexcept {
    const double at = (x - low) * scale, above = at > 0.0 ? at : 0.0;
    return static_cast<int32_t>(above < last ? above : last);
  }

  // A number of 16 bits that is never lower for a greater x: unequal keys are in the order of their values,
  // and equal ones leave it open. No threshold has the key of NaN and of all that lies far below, 0, nor that
  // of all that lies far above. A number's last bits, once 2^52 is added, are those of it as a whole number.
  uint16_t key_of(double x) const noexcept {
    const double at = (x - key_low) * key_scale, above = at > -1.0 ? at : -1.0;
    return static_cast<uint16_t>(std::bit_cast<uint64_t>((above < kLastKey ? above : kLastKey) + kWhole));
  }
  static constexpr double kLastKey = 65533.0;
  static constexpr double kWhole = 0x1p52 + 1.0;  // keys begin at 0
};

// The thresholds of a search that stages test first. As long as these are all, comparisons with each of them
// take the place of a search: a value's rank is one more than that of the last of them that lies below it,
// which every node of these stages compares as it compares the number of all thresholds below.
inline constexpr int kFew = 4;
struct Early {
  int32_t many = 0;          // stages that test no others
  int32_t stage[kFew];       // the first that tests each; kNever: there is no such threshold
  uint32_t rank[kFew] = {};  // how many thresholds lie below it; they rise
  static constexpr int32_t kNever = 0x7fffffff;
};

// Keys of a search stand in tables of so many, which vectors look up without memory: first the pivots (every
// key_step-th key, from the last of its step on), then the first keys of all steps, the second ones, ...
// Behind the last key stands kNoKey, which is above every key.
inline constexpr size_t kKeyTable = 64;
inline constexpr uint16_t kNoKey = 0xffff;

enum class Form : uint8_t { kSmall, kMedium, kLarge, kPlain };

struct Tree {
  uint32_t root;       // slot, or node when plain
  uint32_t value;      // where its leaves' values begin
  int32_t depth;       // steps that lead from the root to any leaf
  int32_t sure_steps;  // steps that most walks need; the depth itself where that is not much more
  int32_t output;
  Form form;
  bool numbered;            // values by the number of the leaf; otherwise by slot
  bool scanned = false;     // whether `scan` and what follows is there
  uint16_t scan_count = 0;  // inner nodes
  uint16_t first_leaf = 0;  // the leftmost
  uint32_t scan = 0;        // the first of its nodes in Slots::scan
};

template <class T>
struct LineAligned {  // allocator: a tree's first levels fill exactly one cache line
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
  Frozen<Node, LineAligned<Node>> nodes;
  Frozen<int64_t> values;  // (leaves or slots, value_width), in units
  Frozen<ScanNode<typename Node::Rank>> scan;
};

struct Layout {
  explicit Layout(const Forest& forest);
  Layout() = default;  // to be filled by each()

  Frozen<Search> searches;    // in the order in which stages first need them
  Frozen<Early> early;        // of each search
  Frozen<double> thresholds;  // behind those of a search so many infinities that its last steps stay inside
  Frozen<uint16_t> buckets;   // how many of the search's thresholds lie in the buckets before this one
  Frozen<uint16_t> keys;
  Frozen<int32_t> categories;
  Frozen<int32_t> searches_needed;  // (n_stages + 1): what the stages before s need
  Frozen<int64_t> work;             // (n_stages + 1): the most steps that a row takes in the stages before s
  Frozen<int64_t> scan_work;        // (n_stages + 1): the same in 64ths of a step, if small trees are scanned
  Frozen<int64_t> visits;           // (n_stages + 1): nodes that a row typically visits in them
  Frozen<Tree> trees;
  Frozen<uint32_t> roots;  // of the trees once more, close together
  Slots<SmallNode> small;
  Slots<MediumNode> medium;
  Slots<LargeNode> large;
  Frozen<uint32_t> set_bits;
  bool small_ranks = true;
  uint32_t least_columns = 1;  // columns that must be readable, whatever the searches fill

  // All arrays, in an order of their own.
  template <class Self, class Visit>
  static void each(Self& self, Visit&& visit) {
    visit(self.searches);
    visit(self.early);
    visit(self.thresholds);
    visit(self.buckets);
    visit(self.keys);
    visit(self.categories);
    visit(self.searches_needed);
    visit(self.work);
    visit(self.scan_work);
    visit(self.visits);
    visit(self.trees);
    visit(self.roots);
    visit(self.small.nodes);
    visit(self.small.values);
    visit(self.small.scan);
    visit(self.medium.nodes);
    visit(self.medium.values);
    visit(self.medium.scan);
    visit(self.large.nodes);
    visit(self.large.values);
    visit(self.set_bits);
  }

  // Steps of a row in a tree, in 64ths.
  static int64_t cost(const Tree& tree, bool scans) noexcept {
    return scans && tree.scanned ? tree.scan_count + int64_t{kWholeStep}
                                 : kWholeStep * int64_t{tree.depth + 1};
  }
  // Columns to reserve for the stages before s.
  size_t columns_for(int32_t stages) const noexcept;
  // Whether so few nodes are visited that the ranks which stages before `end` need would cost more than they
  // save; `search` is what one of them costs, in nanoseconds.
  bool is_short(int64_t typical_visits, int32_t end, double search) const noexcept;
  // The same for stages [from, to).
  bool is_short(int32_t from, int32_t to, double search) const noexcept;
};

// Rank of a value that goes right everywhere, and of a leaf, which sends everything left (to itself).
template <class Rank>
inline constexpr Rank kLastRank = static_cast<Rank>(~Rank{0});

// Thresholds that one column can tell apart: their ranks and kLastRank fill the integer.
template <class Rank>
inline constexpr uint32_t kPerColumn = kLastRank<Rank> - 1u;

}  // namespace anytime
