// Pruning a forest under prices, as a graph: splits that may stay internal, and pairs (group, row) that they
// need.
//
// Split h needs pair (g, i) when row i passes h and h is the first on its way that needs group g. The rows of
// a split are a stretch of its tree's rows in depth-first order. So the links of a split with the pairs of
// one group (a block) are that stretch, and links need no index of their own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace anytime {

// The arrays of anytime.forests.pruning.PruningProblem, checked there.
struct PruneArrays {
  std::span<const int32_t> parent;
  std::span<const int64_t> tree_start;
  std::span<const int64_t> group_start;
  std::span<const int32_t> node_groups;
  std::span<const double> prices;
  std::span<const int32_t> leaf;   // (rows, trees)
  std::span<const double> weight;  // of rows; empty: 1 each
};

// The links of one split with one group.
struct PruneBlock {
  int32_t split;
  int32_t group;
  int64_t link;  // the first one
};

class PruneGraph {
 public:
  explicit PruneGraph(const PruneArrays& arrays);

  int32_t n_splits() const noexcept { return static_cast<int32_t>(up_.size()); }
  int32_t n_rows() const noexcept { return static_cast<int32_t>(weight_.size()); }  // different ones
  int32_t n_groups() const noexcept { return static_cast<int32_t>(price_.size()); }
  int64_t n_links() const noexcept { return n_links_; }
  int64_t n_pairs() const noexcept { return int64_t{n_rows()} * n_groups(); }
  double n_cost() const noexcept { return n_cost_; }  // rows by weight

  // Splits are the nodes with children, in the order of the nodes, hence after their parents.
  std::span<const int32_t> nodes() const noexcept { return node_; }  // their numbers in the problem
  std::span<const int32_t> up() const noexcept { return up_; }       // the parent, -1 at a root
  std::span<const double> reach() const noexcept { return reach_; }  // weight of the rows that pass

  std::span<const double> weight() const noexcept { return weight_; }  // of the different rows
  std::span<const double> price() const noexcept { return price_; }

  // Blocks by group, then by split; links are numbered through in this order. Groups without a price have
  // none.
  std::span<const PruneBlock> blocks() const noexcept { return blocks_; }
  std::span<const PruneBlock> blocks_of_group(int32_t group) const noexcept {
    return {blocks_.data() + group_block_[group], blocks_.data() + group_block_[group + 1]};
  }
  // Numbers of the blocks of a split.
  std::span<const int32_t> blocks_of_split(int32_t split) const noexcept {
    return {split_blocks_.data() + split_block_[split], split_blocks_.data() + split_block_[split + 1]};
  }
  // The rows that pass a split, in the order of its links.
  std::span<const int32_t> rows(int32_t split) const noexcept {
    return {order_.data() + first_[split], static_cast<size_t>(size_[split])};
  }

  // visit(group, row) for every pair that a split needs.
  template <class Visit>
  void each_pair(int32_t split, Visit&& visit) const {
    for (const int32_t block : blocks_of_split(split)) {
      for (const int32_t row : rows(split)) visit(blocks_[block].group, row);
    }
  }

 private:
  std::vector<int32_t> merge_rows(const PruneArrays& arrays);
  void order_rows(const PruneArrays& arrays, std::span<const int32_t> kept);
  void find_first_uses(const PruneArrays& arrays);
  void sort_blocks();

  std::vector<int32_t> node_, up_, size_;
  std::vector<int64_t> first_;
  std::vector<double> reach_, weight_, price_;
  std::vector<int32_t> order_;  // (trees, rows)
  std::vector<PruneBlock> blocks_;
  std::vector<int32_t> group_block_, split_block_, split_blocks_;
  int64_t n_links_ = 0;
  double n_cost_ = 0.0;
};

}  // namespace anytime
