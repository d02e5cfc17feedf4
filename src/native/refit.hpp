// Leaves of a pruned forest, corrected together: see anytime/forests/pruning/refit.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace anytime {

// Rows and trees; n rows, T trees, M nodes, K outputs. Not owned.
struct RefitArrays {
  std::span<const int32_t> leaf;        // (T, n): the leaf of the whole forest that a row reaches
  std::span<const int32_t> ends;        // (M,): where a walk that gets to a node ends in the pruning
  std::span<const int64_t> tree_start;  // (T + 1,): first node of each tree
  std::span<const double> value;        // (M, K): what nodes answer alone
  std::span<const double> target;       // (n, K)
  std::span<const double> weight;       // (n,)
  std::span<const uint8_t> unseen;      // (T, n): whether a tree counts in what is missing at a row
  size_t n_outputs = 1;
};

// (M, K) new answers after so many sweeps over all trees, forth and back. Throws std::invalid_argument where
// a walk ends outside of its tree.
std::vector<double> refit_leaves(const RefitArrays& arrays, double caution, int sweeps);

}  // namespace anytime
