// Growing one regression tree on bins, best leaf first, with prices on the columns.
//
// A leaf's answer minimises sum_i w_i |t_i - value|^2 + l2 |value|^2 (or is a Newton step). Sums are
// integers: what rows add is rounded once to multiples of a power of two, so that any number of threads, and
// a histogram found by subtraction, have the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bins.hpp"
#include "costs.hpp"
#include "grow_peers.hpp"

namespace anytime {

struct GrowOptions {
  int64_t max_leaves = 31;  // 0: no limit
  int64_t max_depth = 0;    // 0: no limit
  int64_t min_rows = 20;
  double min_weight = 1e-3;
  double l2 = 0.0;
  double min_gain = 0.0;
  double penalty = 0.0;     // of a unit of money, in units of the impurity
  bool mean_scale = false;  // impurity: mean of w |t - v|^2; else half of the sum
  bool vote = false;        // a leaf answers with the output that has the largest sum
  int threads = 1;
};

// float64 or float32 numbers of the caller.
struct Numbers {
  const double* wide = nullptr;
  const float* narrow = nullptr;

  explicit operator bool() const noexcept { return wide != nullptr || narrow != nullptr; }
  double operator[](int64_t i) const noexcept {
    return wide != nullptr ? wide[i] : static_cast<double>(narrow[i]);
  }
};

// What the rows want. Newton: target holds gradients and weight hessians.
struct GrowTargets {
  Numbers target;  // (n_rows, n_outputs)
  Numbers weight;  // none, (n_rows,) or (n_rows, n_outputs)
  int32_t n_outputs = 1;
  bool weight_per_output = false;
  bool newton = false;
};

// What columns cost and which groups are paid for. Without a table everything is free.
struct GrowPrices {
  const CostTable* table = nullptr;
  double tick = 1.0;  // money
  std::span<const uint8_t> bought;
};

using BinSet = std::array<uint64_t, 4>;

inline bool has(const BinSet& set, int32_t bin) noexcept {
  return (set[static_cast<size_t>(bin) >> 6] >> (static_cast<uint32_t>(bin) & 63u) & 1u) != 0;
}
inline void put(BinSet& set, int32_t bin) noexcept {
  set[static_cast<size_t>(bin) >> 6] |= uint64_t{1} << (static_cast<uint32_t>(bin) & 63u);
}

// Where rows go at a node.
struct Split {
  double gain = 0.0;      // impurity decrease, without prices
  int32_t cut = -1;       // numeric: bins up to this one go left; categorical: 0. -1: no split
  bool possible = false;  // some split leaves both sides large enough, here or below
  bool categorical = false;
  bool default_left = false;
  bool members_left = false;  // categorical: the side whose categories are listed
  BinSet left{};              // categorical: bins that go left, that of missing values included

  bool goes_left(int32_t bin, int32_t missing) const noexcept {
    if (categorical) return has(left, bin);
    return bin == missing ? default_left : bin <= cut;
  }
};

struct GrownNode {
  int32_t column = -1;  // -1: a leaf
  int32_t left = -1, right = -1;
  int32_t leaf = -1;  // its number among the leaves
  Split split;
};

class GrownTree {
 public:
  std::shared_ptr<const Cuts> cuts;
  std::vector<GrownNode> nodes;  // a child after its parent
  std::vector<double> values;    // (n_leaves, n_outputs)
  int32_t n_outputs = 1;
  int32_t n_leaves = 0;
  double gain = 0.0;
  int64_t ticks = 0;            // what its columns cost beyond what was bought
  std::vector<uint8_t> bought;  // groups, with what the tree added

  // The threshold of a numeric node.
  double threshold(const GrownNode& node) const noexcept;
  // The leaf of each row; `bins` must have the same cuts.
  void find_leaves(const Bins& bins, int threads, std::span<int32_t> leaf) const;
  // Of those rows only that have kNoLeaf.
  void find_other_leaves(const Bins& bins, int threads, std::span<int32_t> leaf) const;
  static constexpr int32_t kNoLeaf = -1;
};

// `rows`: those to learn from (none: all); `columns`: those to split on (none: all). `leaf` gets the leaf of
// every row. Throws std::invalid_argument where numbers are not finite, weights are negative, or there is
// nothing to learn from. With `peers` the tree is that of everyone's rows, and no slot may be wide; all give
// the same columns, prices and options.
GrownTree grow(const Bins& bins, const GrowTargets& targets, std::optional<std::span<const int64_t>> rows,
               std::optional<std::span<const uint8_t>> columns, const GrowPrices& prices,
               const GrowOptions& options, std::span<int32_t> leaf, Peers* peers = nullptr);

}  // namespace anytime
