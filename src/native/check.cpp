// The door for forests from files and other libraries: after it, no loop checks an index again.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "forest.hpp"

namespace anytime {
namespace {

[[noreturn]] void fail(const std::string& message) { throw std::invalid_argument(message); }

std::string str(int64_t value) { return std::to_string(value); }

void check_offsets(std::span<const int64_t> offsets, int64_t end, bool strictly, const std::string& name) {
  if (offsets.empty()) fail(name + " is empty; it holds at least one 0");
  if (offsets.front() != 0) fail(name + "[0] is " + str(offsets.front()) + ", expected 0");
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1] || (strictly && offsets[i] == offsets[i - 1])) {
      fail(name + "[" + str(static_cast<int64_t>(i)) + "] is " + str(offsets[i]) + " after " +
           str(offsets[i - 1]) +
           (strictly ? "; every tree has at least one node" : "; offsets never decrease"));
    }
  }
  if (offsets.back() != end) fail(name + " ends at " + str(offsets.back()) + ", expected " + str(end));
}

template <class T>
void check_size(std::span<const T> array, size_t size, const char* name) {
  if (array.size() != size) {
    fail(std::string(name) + " has " + str(static_cast<int64_t>(array.size())) + " entries, expected " +
         str(static_cast<int64_t>(size)));
  }
}

void check_sizes(const TreeArraysView& a) {
  const size_t nodes = a.feature.size();
  constexpr auto kMaxNodes = size_t{1} << 30;  // slots of the fast layout are numbered with 32 bits
  if (nodes > kMaxNodes) fail("a forest holds at most 2**30 nodes");
  if (a.tree_start.size() > kMaxNodes || a.stage_start.size() > kMaxNodes) fail("too many trees or stages");
  check_size(a.threshold, nodes, "threshold");
  check_size(a.left, nodes, "left");
  check_size(a.right, nodes, "right");
  check_size(a.default_left, nodes, "default_left");
  check_size(a.missing, nodes, "missing");
  check_size(a.category_set, nodes, "category_set");
  check_size(a.members_left, nodes, "members_left");
  if (a.n_outputs < 1 || a.n_outputs > std::numeric_limits<int32_t>::max()) {
    fail("n_outputs is " + str(a.n_outputs) + ", expected at least 1");
  }
  if (a.n_features < 0 || a.n_features > std::numeric_limits<int32_t>::max()) {
    fail("n_features is " + str(a.n_features) + ", expected at least 0 and below 2**31");
  }
  if (a.value_width != 1 && a.value_width != a.n_outputs) {
    fail("value has " + str(a.value_width) + " columns, expected 1 or n_outputs = " + str(a.n_outputs));
  }
  if (a.value_rows != static_cast<int64_t>(nodes) ||
      static_cast<int64_t>(a.value.size()) != a.value_rows * a.value_width) {
    fail("value has " + str(a.value_rows) +
         " rows, expected one per node: " + str(static_cast<int64_t>(nodes)));
  }
}

void check_categories(const TreeArraysView& a) {
  check_offsets(a.category_start, static_cast<int64_t>(a.categories.size()), false, "category_start");
  if (a.category_start.size() > (size_t{1} << 31)) fail("too many category sets");
  for (size_t c = 0; c + 1 < a.category_start.size(); ++c) {
    for (auto i = a.category_start[c]; i < a.category_start[c + 1]; ++i) {
      const int32_t member = a.categories[static_cast<size_t>(i)];
      const std::string where = "category set " + str(static_cast<int64_t>(c)) + ": member " + str(member);
      if (member < 0 || member > kMaxCategory) fail(where + " is not in [0, 2**24]");
      if (i > a.category_start[c] && member <= a.categories[static_cast<size_t>(i) - 1]) {
        fail(where + " does not follow its predecessor in increasing order");
      }
    }
  }
}

// One tree: `first` is its root's row in the node arrays, `n` its number of nodes.
class TreeCheck {
 public:
  TreeCheck(const TreeArraysView& arrays, int64_t tree)
      : a_(arrays),
        tree_(tree),
        first_(arrays.tree_start[static_cast<size_t>(tree)]),
        n_(arrays.tree_start[static_cast<size_t>(tree) + 1] - first_),
        parents_(static_cast<size_t>(n_), 0) {}

  void run() {
    for (int64_t i = 0; i < n_; ++i) {
      check_flags(i);
      if (a_.feature[at(i)] == -1) {
        if (a_.left[at(i)] != -1 || a_.right[at(i)] != -1) node_fails(i, "is a leaf but has children");
      } else {
        check_inner(i);
      }
    }
    for (int64_t i = 1; i < n_; ++i) {
      if (parents_[static_cast<size_t>(i)] != 1) node_fails(i, "does not have exactly one parent");
    }
  }

 private:
  size_t at(int64_t node) const { return static_cast<size_t>(first_ + node); }

  [[noreturn]] void node_fails(int64_t node, const std::string& what) const {
    fail("tree " + str(tree_) + ", node " + str(node) + " " + what);
  }

  void check_flags(int64_t i) const {
    if (std::isnan(a_.threshold[at(i)])) node_fails(i, "has a threshold that is NaN");
    if (a_.default_left[at(i)] > 1)
      node_fails(i, "has default_left " + str(a_.default_left[at(i)]) + ", not 0 or 1");
    if (a_.members_left[at(i)] > 1)
      node_fails(i, "has members_left " + str(a_.members_left[at(i)]) + ", not 0 or 1");
    if (a_.missing[at(i)] > kMissingNanOrZero)
      node_fails(i, "has missing " + str(a_.missing[at(i)]) + ", not 0, 1 or 2");
    const int64_t sets = static_cast<int64_t>(a_.category_start.size()) - 1;
    if (a_.category_set[at(i)] < -1 || a_.category_set[at(i)] >= sets) {
      node_fails(i, "names category set " + str(a_.category_set[at(i)]) + ", of " + str(sets));
    }
    for (int64_t k = 0; k < a_.value_width; ++k) {
      const auto index = static_cast<size_t>((first_ + i) * a_.value_width + k);
      if (!std::isfinite(a_.value[index])) node_fails(i, "has a value that is not finite");
    }
  }

  void check_inner(int64_t i) {
    if (a_.feature[at(i)] < 0 || a_.feature[at(i)] >= a_.n_features) {
      node_fails(i, "tests column " + str(a_.feature[at(i)]) + ", not in [0, " + str(a_.n_features) + ")");
    }
    for (const int64_t child : {a_.left[at(i)], a_.right[at(i)]}) {
      if (child <= i || child >= n_) {
        node_fails(i, "has child " + str(child) + ", expected one after it and below " + str(n_));
      }
      auto& parents = parents_[static_cast<size_t>(child)];
      if (parents < 2) ++parents;
    }
  }

  const TreeArraysView& a_;
  int64_t tree_, first_, n_;
  std::vector<uint8_t> parents_;
};

}  // namespace

void check_arrays(const TreeArraysView& a) {
  check_sizes(a);
  check_offsets(a.tree_start, static_cast<int64_t>(a.feature.size()), true, "tree_start");
  const auto n_trees = static_cast<int64_t>(a.tree_start.size()) - 1;
  check_offsets(a.stage_start, n_trees, false, "stage_start");
  check_size(a.tree_output, static_cast<size_t>(n_trees), "tree_output");
  check_categories(a);
  const int64_t outputs = a.value_width == 1 ? a.n_outputs : 1;
  for (int64_t t = 0; t < n_trees; ++t) {
    const int32_t output = a.tree_output[static_cast<size_t>(t)];
    if (output < 0 || output >= outputs) {
      fail("tree " + str(t) + " adds to output " + str(output) + ", not in [0, " + str(outputs) + ")");
    }
    TreeCheck(a, t).run();
  }
}

}  // namespace anytime
