// Growing trees of classes or numbers, depth first, by cost-weighted impurity.
//
// A node tests the column of least risk, price / (fall of the impurity), by the worst outcome of a test or by
// the mean of its outcomes. Weights are whole multiples of a power of two, so that sums of classes are exact
// in any order; a tree is grown by one thread, trees at the same time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bins.hpp"
#include "class_grow_impurity.hpp"
#include "costs.hpp"
#include "grow.hpp"

namespace anytime {

struct ClassGrowOptions {
  ImpurityRule impurity;
  bool expected = false;      // risk by the mean impurity of the outcomes, else by the worst
  bool multiway = false;      // an outcome for every bin, else two
  bool random = false;        // a few random stumps per column, else all
  int64_t max_features = 0;   // random columns per node; 0: all
  int64_t max_depth = -1;     // tests on a path; -1: no limit
  int64_t min_rows = 1;       // of an outcome
  double min_impurity = 0.0;  // at most this: a leaf
  bool discount_reused = false;
  int threads = 1;
};

// What the rows want: classes as whole numbers, or numbers.
struct ClassTargets {
  std::span<const double> y;
  std::span<const double> weight;  // empty: 1 each
  int32_t n_classes = 0;           // 0: regression
};

// Which trees: tree t depends on the seed and t only.
struct ForestDraw {
  uint64_t seed = 0;
  int64_t first_tree = 0;
  int64_t n_trees = 1;
  bool bootstrap = true;
};

struct ClassTree {
  GrownTree tree;  // `values` and `leaf` are for every node: leaf == its own number
  int32_t width = 0;
  std::vector<double> statistics;  // (nodes, width): weights of classes, or sum w, sum w y, sum w y^2
  std::vector<double> risk;        // of the test that begins at a node, in ticks; NaN: none does
  int64_t depth = 0;               // tests
};

// How often tree `tree` draws each of n rows (those of positive weight).
std::vector<int32_t> bootstrap_counts(int64_t n, uint64_t seed, int64_t tree);

// `rows`: those to learn from, with repeats (none: all); `columns`: those to test (none: all); no `table`:
// every column costs 1. Throws std::invalid_argument where numbers cannot be used. Empty: a custom impurity
// gave up.
std::vector<ClassTree> grow_class_trees(const Bins& bins, const ClassTargets& targets,
                                        std::optional<std::span<const int64_t>> rows,
                                        std::optional<std::span<const uint8_t>> columns,
                                        const CostTable* table, const ClassGrowOptions& options,
                                        const ForestDraw& draw);

}  // namespace anytime
