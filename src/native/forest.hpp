// An ensemble of trees, checked once and immutable after. The layout is that of anytime/trees/arrays.py.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "frozen.hpp"

namespace anytime {

// The arrays of anytime.trees.TreeArrays, not owned. Sizes and contents are whatever the caller has: see
// check_arrays.
struct TreeArraysView {
  std::span<const int64_t> tree_start;
  std::span<const int64_t> stage_start;
  std::span<const int32_t> feature;
  std::span<const double> threshold;
  std::span<const int32_t> left;
  std::span<const int32_t> right;
  std::span<const uint8_t> default_left;
  std::span<const uint8_t> missing;
  std::span<const int32_t> category_set;
  std::span<const uint8_t> members_left;
  std::span<const int64_t> category_start;
  std::span<const int32_t> categories;
  std::span<const double> value;  // (nodes, value_width), row by row
  int64_t value_rows = 0;
  int64_t value_width = 1;
  std::span<const int32_t> tree_output;
  int64_t n_outputs = 1;
  int64_t n_features = 0;
  bool float32_input = false;
};

// Throws std::invalid_argument, naming tree and node, unless every index may be followed blindly.
void check_arrays(const TreeArraysView& arrays);

enum Missing : uint8_t { kMissingNever = 0, kMissingNan = 1, kMissingNanOrZero = 2 };

inline constexpr double kZero =
    1e-35F;  // |x| up to this counts as zero where zero means missing; a float, as in LightGBM
inline constexpr int32_t kMaxCategory = 1 << 24;

// A node as the arrays give it; children are numbered within the forest.
struct PlainNode {
  double threshold;
  int32_t feature;  // -1: a leaf
  int32_t left, right;
  int32_t category_set;  // -1: numeric
  uint8_t default_left;
  uint8_t missing;
  uint8_t members_left;

  bool is_leaf() const noexcept { return feature < 0; }
  bool is_categorical() const noexcept { return category_set >= 0; }
};

struct Layout;

class Forest {
 public:
  // `shift` fixes the unit of the sums at 2^-shift; without it, the finest that cannot overflow is chosen.
  explicit Forest(const TreeArraysView& arrays, std::optional<int> shift = std::nullopt);
  ~Forest();
  Forest(Forest&&) noexcept;
  Forest(const Forest&) = delete;
  Forest& operator=(const Forest&) = delete;

  int32_t n_trees() const noexcept { return static_cast<int32_t>(tree_start_.size()) - 1; }
  int32_t n_stages() const noexcept { return static_cast<int32_t>(stage_start_.size()) - 1; }
  int32_t n_outputs() const noexcept { return n_outputs_; }
  int32_t n_features() const noexcept { return n_features_; }
  int32_t value_width() const noexcept { return value_width_; }
  bool float32_input() const noexcept { return float32_input_; }
  int shift() const noexcept { return shift_; }
  double unit() const noexcept { return std::ldexp(1.0, -shift_); }

  std::span<const PlainNode> nodes() const noexcept { return nodes_; }
  std::span<const double> values() const noexcept { return values_; }
  std::span<const int64_t> tree_start() const noexcept { return tree_start_; }
  std::span<const int64_t> stage_start() const noexcept { return stage_start_; }
  std::span<const int32_t> tree_output() const noexcept { return tree_output_; }
  std::span<const int64_t> category_start() const noexcept { return category_start_; }
  std::span<const int32_t> categories() const noexcept { return categories_; }
  std::span<const int32_t> members(int32_t set) const noexcept {
    const auto begin = static_cast<size_t>(category_start_[static_cast<size_t>(set)]);
    const auto end = static_cast<size_t>(category_start_[static_cast<size_t>(set) + 1]);
    return categories().subspan(begin, end - begin);
  }
  // First tree of stage s; s may be n_stages.
  int32_t first_tree(int32_t stage) const noexcept {
    return static_cast<int32_t>(stage_start_[static_cast<size_t>(stage)]);
  }

  // A leaf's value as a whole number of units. Whole numbers add up to the same bits in any order.
  int64_t to_units(double value) const noexcept { return std::llrint(value * scale_); }

  // Columns that the trees of a stage may test, ascending.
  std::vector<int32_t> stage_columns(int32_t stage) const;
  // All that there is in one piece of memory, which begins at a cache line; another process of the same build
  // may read it as a forest, as long as it lies there. What is read is trusted but for its size and its first
  // bytes.
  size_t frozen_size() const;
  void freeze(std::span<std::byte> into) const;
  static Forest thawed(std::span<const std::byte> frozen);

  // The same trees, stages picked and ordered by `stages`; keeps the unit, hence the bits of every prefix.
  Forest select(std::span<const int64_t> stages) const;

  void check_stage(int64_t stage) const;
  const Layout& layout() const noexcept { return *layout_; }

 private:
  Forest();
  template <class Self, class Visit>
  static void each(Self& self, Visit&& visit);

  int choose_shift() const;
  void check_shift() const;
  double largest_sum(int* exponent) const;

  Frozen<PlainNode> nodes_;
  Frozen<double> values_;
  Frozen<int64_t> tree_start_;
  Frozen<int64_t> stage_start_;
  Frozen<int32_t> tree_output_;
  Frozen<int64_t> category_start_;
  Frozen<int32_t> categories_;
  int32_t n_outputs_ = 0;
  int32_t n_features_ = 0;
  int32_t value_width_ = 0;
  bool float32_input_ = false;
  int shift_ = 0;
  double scale_ = 0.0;
  std::unique_ptr<const Layout> layout_;
};

}  // namespace anytime
