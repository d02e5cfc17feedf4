#include "forest.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include "layout.hpp"

namespace anytime {
namespace {

// Beyond these, 2^shift and its inverse would leave the range of normal doubles.
constexpr int kMaxShift = 1000;
constexpr int kMinShift = -1000;
constexpr int kSumBits = 62;

std::vector<PlainNode> plain_nodes(const TreeArraysView& a) {
  std::vector<PlainNode> nodes(a.feature.size());
  for (size_t t = 0; t + 1 < a.tree_start.size(); ++t) {
    const auto first = static_cast<int32_t>(a.tree_start[t]);
    for (auto i = static_cast<size_t>(a.tree_start[t]); i < static_cast<size_t>(a.tree_start[t + 1]); ++i) {
      const bool leaf = a.feature[i] < 0;
      nodes[i] = {.threshold = a.threshold[i],
                  .feature = a.feature[i],
                  .left = leaf ? -1 : first + a.left[i],
                  .right = leaf ? -1 : first + a.right[i],
                  .category_set = a.category_set[i],
                  .default_left = a.default_left[i],
                  .missing = a.missing[i],
                  .members_left = a.members_left[i]};
    }
  }
  return nodes;
}

const TreeArraysView& checked(const TreeArraysView& arrays) {
  check_arrays(arrays);
  return arrays;
}

template <class T>
std::vector<T> copy_of(std::span<const T> array) {
  return {array.begin(), array.end()};
}

}  // namespace

Forest::Forest(const TreeArraysView& arrays, std::optional<int> shift)
    : nodes_(plain_nodes(checked(arrays))),
      values_(copy_of(arrays.value)),
      tree_start_(copy_of(arrays.tree_start)),
      stage_start_(copy_of(arrays.stage_start)),
      tree_output_(copy_of(arrays.tree_output)),
      category_start_(copy_of(arrays.category_start)),
      categories_(copy_of(arrays.categories)),
      n_outputs_(static_cast<int32_t>(arrays.n_outputs)),
      n_features_(static_cast<int32_t>(arrays.n_features)),
      value_width_(static_cast<int32_t>(arrays.value_width)),
      float32_input_(arrays.float32_input),
      shift_(shift ? *shift : choose_shift()),
      scale_(0.0) {
  check_shift();
  scale_ = std::ldexp(1.0, shift_);
  layout_ = std::make_unique<const Layout>(*this);
}

Forest::Forest() = default;
Forest::~Forest() = default;
Forest::Forest(Forest&&) noexcept = default;

// Sum over trees of the largest leaf, as a fraction in [0.5, 1) times 2^exponent: it may exceed the doubles.
double Forest::largest_sum(int* exponent) const {
  std::vector<double> largest(tree_start_.size() - 1, 0.0);
  double overall = 0.0;
  for (size_t t = 0; t < largest.size(); ++t) {
    for (int64_t i = tree_start_[t]; i < tree_start_[t + 1]; ++i) {
      if (!nodes_[static_cast<size_t>(i)].is_leaf()) continue;
      for (int64_t k = 0; k < value_width_; ++k) {
        largest[t] = std::max(largest[t], std::abs(values_[static_cast<size_t>(i * value_width_ + k)]));
      }
    }
    overall = std::max(overall, largest[t]);
  }
  int top = 0;
  std::frexp(overall, &top);
  double sum = 0.0;
  for (const double value : largest) sum += std::ldexp(value, -top);
  int more = 0;
  const double fraction = std::frexp(sum, &more);
  *exponent = top + more;
  return fraction;
}

int Forest::choose_shift() const {
  int exponent = 0;
  if (largest_sum(&exponent) == 0.0) return 0;
  // One bit to spare for the rounding of each leaf and for the base value a caller may add.
  return std::clamp(kSumBits - 1 - exponent, kMinShift, kMaxShift);
}

void Forest::check_shift() const {
  if (shift_ < kMinShift || shift_ > kMaxShift) {
    throw std::invalid_argument("shift is " + std::to_string(shift_) + ", not in [-1000, 1000]");
  }
  int exponent = 0;
  if (largest_sum(&exponent) > 0.0 && exponent + shift_ > kSumBits) {
    throw std::invalid_argument("shift " + std::to_string(shift_) +
                                " is too large for these values: their sum could pass 2**62 units");
  }
}

void Forest::check_stage(int64_t stage) const {
  if (stage < 0 || stage >= n_stages()) {
    throw std::invalid_argument("stage " + std::to_string(stage) + " is not in [0, " +
                                std::to_string(n_stages()) + ")");
  }
}

std::vector<int32_t> Forest::stage_columns(int32_t stage) const {
  check_stage(stage);
  std::vector<int32_t> columns;
  const auto begin = static_cast<size_t>(tree_start_[static_cast<size_t>(first_tree(stage))]);
  const auto end = static_cast<size_t>(tree_start_[static_cast<size_t>(first_tree(stage + 1))]);
  for (size_t i = begin; i < end; ++i) {
    if (!nodes_[i].is_leaf()) columns.push_back(nodes_[i].feature);
  }
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  return columns;
}

Forest Forest::select(std::span<const int64_t> stages) const {
  std::vector<int64_t> tree_start{0}, stage_start{0};
  std::vector<int32_t> feature, left, right, category_set, tree_output;
  std::vector<double> threshold, value;
  std::vector<uint8_t> default_left, missing, members_left;
  for (const int64_t stage : stages) {
    check_stage(stage);
    for (int32_t t = first_tree(static_cast<int32_t>(stage)); t < first_tree(static_cast<int32_t>(stage) + 1);
         ++t) {
      const int64_t first = tree_start_[static_cast<size_t>(t)],
                    end = tree_start_[static_cast<size_t>(t) + 1];
      for (int64_t i = first; i < end; ++i) {
        const PlainNode& node = nodes_[static_cast<size_t>(i)];
        feature.push_back(node.feature);
        threshold.push_back(node.threshold);
        left.push_back(node.is_leaf() ? -1 : node.left - static_cast<int32_t>(first));
        right.push_back(node.is_leaf() ? -1 : node.right - static_cast<int32_t>(first));
        default_left.push_back(node.default_left);
        missing.push_back(node.missing);
        category_set.push_back(node.category_set);
        members_left.push_back(node.members_left);
      }
      value.insert(value.end(), values_.begin() + first * value_width_, values_.begin() + end * value_width_);
      tree_start.push_back(static_cast<int64_t>(feature.size()));
      tree_output.push_back(tree_output_[static_cast<size_t>(t)]);
    }
    stage_start.push_back(static_cast<int64_t>(tree_output.size()));
  }
  return Forest({.tree_start = tree_start,
                 .stage_start = stage_start,
                 .feature = feature,
                 .threshold = threshold,
                 .left = left,
                 .right = right,
                 .default_left = default_left,
                 .missing = missing,
                 .category_set = category_set,
                 .members_left = members_left,
                 .category_start = category_start(),
                 .categories = categories(),
                 .value = value,
                 .value_rows = static_cast<int64_t>(feature.size()),
                 .value_width = value_width_,
                 .tree_output = tree_output,
                 .n_outputs = n_outputs_,
                 .n_features = n_features_,
                 .float32_input = float32_input_},
                shift_);
}

// ---------------------------------------------------------------------- in one piece of memory

namespace {

constexpr uint64_t kFrozenMark = 0x33726f662d796e61;  // "any-for3"
constexpr size_t kFrozenArrays = 28;
constexpr size_t kLine = 64;

struct FrozenHead {
  uint64_t mark = kFrozenMark;
  uint64_t bytes = 0;  // of everything
  std::array<uint64_t, kFrozenArrays> start{};
  std::array<uint64_t, kFrozenArrays> count{};
  int32_t n_outputs = 0, n_features = 0, value_width = 0, shift = 0;
  uint32_t least_columns = 0;
  uint8_t float32_input = 0, small_ranks = 0;
};

constexpr size_t up_to_a_line(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

template <class Self, class Visit>
void Forest::each(Self& self, Visit&& visit) {
  visit(self.nodes_);
  visit(self.values_);
  visit(self.tree_start_);
  visit(self.stage_start_);
  visit(self.tree_output_);
  visit(self.category_start_);
  visit(self.categories_);
}

size_t Forest::frozen_size() const {
  size_t bytes = up_to_a_line(sizeof(FrozenHead));
  const auto add = [&](const auto& array) { bytes += up_to_a_line(array.size() * sizeof(array[0])); };
  each(*this, add);
  Layout::each(*layout_, add);
  return bytes;
}

void Forest::freeze(std::span<std::byte> into) const {
  FrozenHead head{.bytes = frozen_size(),
                  .n_outputs = n_outputs_,
                  .n_features = n_features_,
                  .value_width = value_width_,
                  .shift = shift_,
                  .least_columns = layout_->least_columns,
                  .float32_input = float32_input_,
                  .small_ranks = layout_->small_ranks};
  if (into.size() < head.bytes) throw std::invalid_argument("there is too little memory for this forest");
  size_t at = up_to_a_line(sizeof(FrozenHead)), k = 0;
  const auto write = [&](const auto& array) {
    const size_t bytes = array.size() * sizeof(array[0]);
    head.start.at(k) = at;
    head.count.at(k++) = array.size();
    if (bytes) std::memcpy(into.data() + at, array.data(), bytes);
    at += up_to_a_line(bytes);
  };
  each(*this, write);
  Layout::each(*layout_, write);
  std::memcpy(into.data(), &head, sizeof head);
}

Forest Forest::thawed(std::span<const std::byte> frozen) {
  FrozenHead head;
  const auto wrong = [] { return std::invalid_argument("this is no forest that was frozen by this build"); };
  if (frozen.size() < sizeof head || reinterpret_cast<uintptr_t>(frozen.data()) % kLine) throw wrong();
  std::memcpy(&head, frozen.data(), sizeof head);
  if (head.mark != kFrozenMark || head.bytes > frozen.size()) throw wrong();
  size_t k = 0;
  const auto read = [&]<class T, class Allocator>(Frozen<T, Allocator>& array) {
    const uint64_t start = head.start.at(k), count = head.count.at(k);
    ++k;
    if (start % kLine || start > head.bytes || count > (head.bytes - start) / sizeof(T)) throw wrong();
    array = Frozen<T, Allocator>(std::span(reinterpret_cast<const T*>(frozen.data() + start), count));
  };
  Forest forest;
  auto layout = std::make_unique<Layout>();
  each(forest, read);
  Layout::each(*layout, read);
  layout->small_ranks = head.small_ranks;
  layout->least_columns = head.least_columns;
  forest.n_outputs_ = head.n_outputs;
  forest.n_features_ = head.n_features;
  forest.value_width_ = head.value_width;
  forest.float32_input_ = head.float32_input;
  forest.shift_ = head.shift;
  forest.scale_ = std::ldexp(1.0, head.shift);
  forest.layout_ = std::move(layout);
  return forest;
}

}  // namespace anytime
