// A regression tree that grows on a stream: leaves hold means, and counts and sums per bin to split by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stream_bins.hpp"

namespace anytime {

struct StreamTreeSettings {
  int32_t max_depth = 5, max_leaves = 16;
  int32_t grace = 50;        // rows of a leaf between two looks for a split
  double confidence = 0.05;  // chance of a split that should not have been made
  double tie = 0.1;          // split when Hoeffding's bound is below this, however close the second best is
  int32_t n_bins = 32;
  int32_t width = 1;    // columns of a tree
  double memory = 0.0;  // rows after which a leaf forgets; 0: never
  double fade = 0.0;    // a leaf's n-th row counts like n^fade in its mean
  int64_t stagger = 0;  // rows by which a tree begins later than the one before it
  uint64_t seed = 0;
};

class StreamTree {
 public:
  // Siblings stand side by side, behind their parent.
  struct Node {
    double threshold = 0.0;  // at most this: to the left
    int32_t column = -1;     // -1: a leaf
    int32_t left : 31 = 0;   // the left child; the right one is next to it
    uint32_t missing_left : 1 = 0;
  };
  struct Leaf {
    double count = 0.0;   // weight behind its mean
    double square = 0.0;  // of the targets counted in its bins
    int32_t since = 0;    // rows since it last looked for a split
    int32_t slot = -1;    // where its bins are; -1: it has none
    int32_t depth = 0;
  };

  // Tree `number` of a bank, which sleeps for some rows: it says 0 and learns nothing.
  StreamTree(const StreamTreeSettings& settings, int64_t n_columns, int64_t n_outputs, uint64_t number,
             int64_t sleep);

  // The leaf of a row, looked for from `node` downwards.
  int32_t leaf_of(const double* x, int32_t node = 0) const noexcept {
    const Node* at = nodes_.data() + node;
    while (at->column >= 0) {
      const double value = x[at->column];
      const bool left = value <= at->threshold || (at->missing_left != 0 && value != value);
      at = nodes_.data() + at->left + !left;
    }
    return static_cast<int32_t>(at - nodes_.data());
  }
  // Has the counts of a row's bins brought into the cache.
  void fetch(int32_t leaf, const uint8_t* codes) const noexcept {
    const int32_t slot = leaves_[static_cast<size_t>(leaf)].slot;
    if (slot < 0) return;
    const float* bins = bins_of(slot);
    for (const int32_t column : columns_) {
      __builtin_prefetch(bins + entry_ * static_cast<size_t>(codes[column]), 1);
      bins += column_size_;
    }
  }
  const double* value(int32_t node) const noexcept { return values_.data() + node * n_outputs_; }

  // Before there are bins: a row only moves the mean of the root and is kept for `recall`.
  void remember(const double* target, double weight);
  // The kept rows, which are the last that the bins have seen, are counted.
  void recall(const StreamBins& bins);
  // A row, whose bins are `codes`, comes to `leaf`.
  void learn(int32_t leaf, const uint8_t* codes, const double* target, double weight, const StreamBins& bins);
  void rebin(const Rebinned& changed);
  // Forgets everything; it is awake.
  void restart();

  std::span<const int32_t> columns() const noexcept { return columns_; }
  std::span<const Node> nodes() const noexcept { return nodes_; }
  std::span<const Leaf> leaves() const noexcept { return leaves_; }  // one per node
  std::span<const double> values() const noexcept { return values_; }
  std::span<const double> early() const noexcept { return early_; }
  int64_t sleep() const noexcept { return sleep_; }
  bool wanted() const noexcept { return wanted_; }
  size_t slot_size() const noexcept { return columns_.size() * column_size_; }
  const float* bins_of(int32_t slot) const noexcept {
    return pool_.data() + static_cast<size_t>(slot) * slot_size();
  }

  // What was saved; a leaf with slot >= 0 takes the next stretch of `bins`. Checked: std::invalid_argument.
  void load(std::vector<Node> nodes, std::vector<Leaf> leaves, std::vector<double> values,
            std::vector<double> early, int64_t sleep, bool wanted, std::span<const float>& bins);

 private:
  struct Split {
    double gain = 0.0, second = 0.0;  // of the best column, of the best other one
    size_t place = 0;                 // of the column among those of the tree
    int32_t bin = -1;                 // the last to the left
    bool missing_left = false;
  };

  void move_mean(int32_t leaf, const double* target, double weight) noexcept;
  void count(int32_t leaf, const uint8_t* codes, const double* target, double weight) noexcept;
  void look_for_split(int32_t leaf, const StreamBins& bins);
  double best_cut(const float* bins, int32_t n_cuts, Split& best) const noexcept;
  double best_cut_of_one(const float* bins, int32_t n_cuts, Split& best) const noexcept;
  double gain(const double* left, const double* total) const noexcept;
  Split best_split(const float* bins, const StreamBins& all) const noexcept;
  void split(int32_t leaf, const Split& how, const StreamBins& bins);
  void forget(int32_t leaf, double weight) noexcept;
  bool open(const Leaf& leaf) const noexcept { return leaf.depth < settings_.max_depth && !full(); }
  bool take_slot(Leaf& leaf);
  bool full() const noexcept { return static_cast<int32_t>(nodes_.size() / 2) + 1 >= settings_.max_leaves; }

  StreamTreeSettings settings_;
  int64_t n_outputs_;
  size_t entry_, column_size_;  // floats of a bin: a count and a sum per output; of a column
  std::vector<int32_t> columns_;
  std::vector<Node> nodes_;
  std::vector<Leaf> leaves_;
  std::vector<double> values_;
  std::vector<float> pool_;              // bins of leaves that can be split, as many as there is room for
  std::vector<int32_t> free_;            // slots of it that nobody has
  int64_t sleep_;                        // rows left
  bool wanted_ = false;                  // a leaf has looked for a slot and found none
  std::vector<double> early_;            // (rows, 1 + n_outputs) weights and targets before there are bins
  std::vector<float> added_;             // 1 + n_outputs
  mutable std::vector<double> scratch_;  // three times as many
};

}  // namespace anytime
