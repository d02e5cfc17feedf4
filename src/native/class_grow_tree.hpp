// One tree: its rows, its nodes, depth first.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "class_grow.hpp"
#include "class_grow_random.hpp"
#include "class_grow_search.hpp"

namespace anytime {

// What all trees of a call share.
struct ClassJob {
  const Bins& bins;
  const ClassTargets& targets;
  const ClassGrowOptions& options;
  const CostTable* table;
  uint64_t seed;
  bool bootstrap;
  std::vector<int32_t> rows;     // to draw from, perhaps with repeats
  std::vector<double> weight;    // of all rows, rounded; empty: 1 each
  std::vector<int32_t> columns;  // by slot, then by number
  std::vector<double> prices;    // of columns, in ticks; with what they require

  int32_t width() const noexcept { return targets.n_classes > 0 ? targets.n_classes : 3; }
};

// What a row brings.
struct RowFact {
  double weight = 0.0;
  double target = 0.0;
  int32_t label = 0;
  int32_t repeats = 0;
};

// A node that may still be split.
struct OpenNode {
  int32_t node = 0;
  size_t begin = 0, end = 0;            // its rows
  size_t live_begin = 0, live_end = 0;  // columns that were not constant in its parent
  int64_t depth = 0;
  int64_t n_rows = 0;  // repeats counted
  double impurity = 0.0;
  bool local = false;              // rows are those of the patch
  std::vector<uint8_t> paid = {};  // groups, where that matters
};

// An outcome of the test just made.
struct Outcome {
  int32_t node = 0;
  size_t begin = 0, end = 0;
  int64_t n_rows = 0;
  bool constant = true;  // all targets are the same number
  std::vector<double> statistics{};
};

// Grows one tree after the other; scratch of one thread.
class ClassGrower {
 public:
  explicit ClassGrower(const ClassJob& job);

  // False: the impurity gave up.
  bool grow(int64_t tree, ClassTree& out);

 private:
  size_t width() const noexcept { return total_.size(); }
  bool regression() const noexcept { return job_.targets.n_classes == 0; }
  const RowFact* facts(bool local) const noexcept { return local ? patch_facts_.data() : facts_.data(); }
  SlotValues values(int32_t column, bool local) const noexcept {
    const int32_t slot = bins_.place(column).slot;
    if (!local) {
      return bins_.wide() ? SlotValues{.wide = bins_.column<uint16_t>(slot)}
                          : SlotValues{.narrow = bins_.column<uint8_t>(slot)};
    }
    const size_t first = static_cast<size_t>(slot) * patch_facts_.size();
    return bins_.wide() ? SlotValues{.wide = patch_wide_.data() + first}
                        : SlotValues{.narrow = patch_narrow_.data() + first};
  }
  double* statistics(int32_t node) noexcept {
    return tree_->statistics.data() + static_cast<size_t>(node) * width();
  }

  void draw();
  bool open_root();
  void open(const Outcome& outcome, const OpenNode& parent, double impurity);
  void move_in(OpenNode& open) noexcept;
  NodeRows prepare(OpenNode& open);
  bool search(const OpenNode& open, const NodeRows& node, std::vector<size_t>& live);
  double price(int32_t column, const OpenNode& open) const noexcept;
  void split(OpenNode& open);
  void partition(const OpenNode& open, int32_t column, size_t n_outcomes);
  void sum_up(Outcome& outcome, bool local) const noexcept;
  int32_t add_nodes(size_t n);
  void make_stump(int32_t node, const Proposal& chosen);
  void expand(int32_t node, int32_t first, int32_t last, const BinColumn& column);
  double weight_of(const double* sums) const noexcept {
    return regression() ? sums[0] : std::accumulate(sums, sums + width(), 0.0);
  }
  void finish();

  const ClassJob& job_;
  const Bins& bins_;
  const ClassGrowOptions& options_;
  TestSearch search_;
  RandomStream random_{0, 0};
  std::vector<RowFact> facts_;  // by row
  std::vector<int32_t> rows_;   // those of a node together
  std::vector<int32_t> moved_;
  // The rows of the node at hand, in the order of its list.
  std::vector<int32_t> code_, repeats_;
  std::vector<double> weight_, target_, total_;
  std::vector<int32_t> code_of_;  // by class
  // Rows of the subtree at hand, copied together.
  std::vector<RowFact> patch_facts_;
  std::vector<uint8_t> patch_narrow_;
  std::vector<uint16_t> patch_wide_;

  std::vector<OpenNode> stack_;
  std::vector<size_t> live_;  // lists of columns, as positions in the job's, a child's after its parent's
  std::vector<size_t> pool_;  // columns to draw from
  std::vector<int32_t> outcome_of_;  // by slot value
  std::vector<Outcome> outcomes_;
  ClassTree* tree_ = nullptr;
};

}  // namespace anytime
