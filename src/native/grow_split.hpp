// The best split of a column, given the sums over its bins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grow_rows.hpp"

namespace anytime {

// Of the thresholds that separate bin `low` from the next one that is not empty, `high`: the one nearest to
// the middle.
int32_t middle_cut(const BinColumn& column, int32_t low, int32_t high) noexcept;

// The split of a categorical column whose bins `left` and `right` are known; bins of neither go with most
// rows.
Split set_split(const BinColumn& column, const BinSet& left, const BinSet& right, bool mostly_left) noexcept;

// A node as the search sees it.
struct NodeSums {
  const int64_t* total = nullptr;
  double floor = 0.0;  // gains up to this may be rounding
};

// Scratch of one thread. Fill with clear() and add(), in the order of the bins and empty ones left out; then
// best().
class SplitSearch {
 public:
  SplitSearch(const Channels& channels, const GrowOptions& options, double scale, int64_t most_bins);

  void clear() noexcept;
  void add(int32_t bin, const int64_t* sums) noexcept;
  // Bins 0 to n_values - 1, empty ones skipped; after clear() only.
  void add_all(const int64_t* sums, int32_t n_values) noexcept;
  // Sums of the rows whose value is missing.
  int64_t* missing() noexcept { return missing_.data(); }
  // Room for one sum.
  int64_t* spare() noexcept { return left_.data(); }

  Split best(const BinColumn& column, const NodeSums& node) noexcept;
  // Impurity decrease that is certainly above what rounding can feign.
  double floor(const int64_t* total) const noexcept;

 private:
  Split best_number(const BinColumn& column, const NodeSums& node) noexcept;
  Split best_set(const BinColumn& column, const NodeSums& node) noexcept;
  void sort_categories(const int64_t* total) noexcept;
  // Best way to cut the entries in their order, `extra` joined to the left; how many entries go left.
  struct Cut {
    double gain = 0.0;
    int64_t left = 0;  // entries; 0: none
    bool possible = false;
  };
  Cut best_cut(const NodeSums& node, const int64_t* extra, int64_t last) noexcept;
  Cut best_cut_single(const NodeSums& node, const int64_t* extra, int64_t last) noexcept;
  double gain(const int64_t* left, const int64_t* total) const noexcept;
  const int64_t* entry(int64_t i) const noexcept { return sums_.data() + i * channels_.width; }

  const Channels& channels_;
  const GrowOptions& options_;
  double scale_;
  int64_t n_ = 0;
  std::vector<int32_t> bin_;
  std::vector<int64_t> sums_;
  std::vector<int64_t> missing_, left_;
  std::vector<int64_t> left_packed_;
  std::vector<double> left_weight_, left_output_, gain_;
};

}  // namespace anytime
