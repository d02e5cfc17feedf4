// Growing trees of classes by itself: the same bits for any number of threads, sums that agree with the rows,
// leaves that nothing can split, doors.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "checking.hpp"
#include "class_grow.hpp"
#include "tables.hpp"

using namespace anytime;

namespace {

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {  // NaN equals NaN
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

bool same(const ClassTree& a, const ClassTree& b) {
  if (!same_bits(a.statistics, b.statistics) || !same_bits(a.risk, b.risk) || a.depth != b.depth)
    return false;
  for (size_t i = 0; i < a.tree.nodes.size(); ++i) {
    const GrownNode &one = a.tree.nodes[i], &other = b.tree.nodes[i];
    if (one.column != other.column || one.left != other.left || one.split.cut != other.split.cut ||
        one.split.left != other.split.left || one.split.default_left != other.split.default_left)
      return false;
  }
  return same_bits(a.tree.values, b.tree.values);
}

struct Task {
  Bins bins;
  std::vector<double> y;
  int32_t n_classes;

  ClassTargets targets() const { return {.y = y, .weight = {}, .n_classes = n_classes}; }
  std::vector<ClassTree> grow(const ClassGrowOptions& options, const ForestDraw& draw) const {
    return grow_class_trees(bins, targets(), std::nullopt, std::nullopt, nullptr, options, draw);
  }
};

Task random_task(Random& random, int64_t n, int32_t d, int32_t n_classes, bool exact) {
  const Table table = random_table(random, n, d);
  Task task{binned(table, exact, 1), std::vector<double>(static_cast<size_t>(n)), n_classes};
  for (int64_t i = 0; i < n; ++i) {
    const double x = table.x[static_cast<size_t>(i * d)];
    task.y[static_cast<size_t>(i)] =
        n_classes == 0
            ? x + normal(random)
            : static_cast<double>(static_cast<int64_t>(std::abs(x) * 2 + static_cast<double>(random() % 2)) %
                                  n_classes);
  }
  return task;
}

// Every row goes where the sums say, and a leaf is pure or has rows that are all alike.
void check_tree(const Task& task, const ClassTree& tree, const std::vector<int32_t>& counts) {
  const auto n = static_cast<size_t>(task.bins.n_rows()), width = static_cast<size_t>(tree.width);
  std::vector<int32_t> node(n);
  tree.tree.find_leaves(task.bins, 1, node);
  std::vector<double> sums(tree.statistics.size());
  std::vector<int64_t> first(tree.tree.nodes.size(), -1);
  std::vector<uint8_t> differ(tree.tree.nodes.size());
  for (size_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(node[i]);
    CHECK(tree.tree.nodes[at].column == -1);
    sums[at * width + static_cast<size_t>(task.y[i])] += counts[i];
    if (counts[i] == 0) continue;
    if (first[at] < 0) first[at] = static_cast<int64_t>(i);
    for (int32_t slot = 0; slot < task.bins.n_slots(); ++slot) {
      if (task.bins.value(static_cast<int64_t>(i), slot) != task.bins.value(first[at], slot)) differ[at] = 1;
    }
  }
  for (size_t at = tree.tree.nodes.size(); at-- > 0;) {
    const GrownNode& here = tree.tree.nodes[at];
    int present = 0;
    for (size_t c = 0; c < width; ++c) {
      double& sum = sums[at * width + c];
      if (here.column >= 0) {
        sum = sums[static_cast<size_t>(here.left) * width + c] +
              sums[static_cast<size_t>(here.right) * width + c];
      }
      CHECK(sum == tree.statistics[at * width + c]);
      present += sum > 0.0;
    }
    if (here.column < 0) CHECK(present == 1 || differ[at] == 0);
  }
}

void test_threads(Random& random, const Task& task, ClassGrowOptions options) {
  const ForestDraw draw{.seed = random(), .first_tree = 3, .n_trees = 5};
  options.threads = 1;
  const auto one = task.grow(options, draw);
  options.threads = 3;
  const auto three = task.grow(options, draw);
  CHECK(one.size() == 5 && three.size() == 5);
  for (size_t t = 0; t < one.size(); ++t) CHECK(same(one[t], three[t]));
  CHECK(!same(one[0], one[1]));
  const auto last = task.grow(options, {.seed = draw.seed, .first_tree = 7, .n_trees = 1});
  CHECK(same(one[4], last[0]));
  if (options.impurity.kind != ImpurityKind::kPairs) return;
  for (int64_t t = 0; t < 5; ++t) {
    check_tree(task, one[static_cast<size_t>(t)],
               bootstrap_counts(task.bins.n_rows(), draw.seed, draw.first_tree + t));
  }
}

void test_all_ways(Random& random) {
  for (const bool exact : {false, true}) {
    const Task classes = random_task(random, 6000, 12, 4, exact),
               numbers = random_task(random, 6000, 12, 0, exact);
    for (const bool multiway : {false, true}) {
      for (const bool expected : {false, true}) {
        for (const bool chance : {false, true}) {
          ClassGrowOptions options{.expected = expected, .multiway = multiway, .random = chance};
          options.max_features = chance ? 3 : 0;
          test_threads(random, classes, options);
          options.impurity.kind = ImpurityKind::kSquaredPairs;
          test_threads(random, numbers, options);
        }
      }
    }
  }
}

void test_custom(Random& random) {
  const Task task = random_task(random, 3000, 8, 3, false);
  const ForestDraw draw{.n_trees = 3};
  const auto plain = task.grow({.max_depth = 6}, draw);
  ClassGrowOptions options{.max_depth = 6, .threads = 2};
  options.impurity.kind = ImpurityKind::kCustom;
  options.impurity.custom = [](const double* statistics, int64_t n, int32_t width, double* out) {
    return ImpurityRule{}.evaluate(statistics, n, width, out);
  };
  const auto own = task.grow(options, draw);
  for (size_t t = 0; t < 3; ++t) CHECK(same(plain[t], own[t]));
  options.impurity.custom = [](const double*, int64_t n, int32_t, double* out) {
    *out = 1.0;
    return n == 1;
  };
  CHECK(task.grow(options, draw).empty());
}

template <class Call>
bool refuses(Call&& call) {
  try {
    call();
    return false;
  } catch (const std::invalid_argument&) {
    return true;
  }
}

void test_doors(Random& random) {
  Task task = random_task(random, 100, 4, 3, false);
  const auto n = task.y.size();
  const auto grow_with = [&](const ClassTargets& targets, std::optional<std::span<const int64_t>> rows) {
    grow_class_trees(task.bins, targets, rows, std::nullopt, nullptr, {}, {});
  };
  std::vector<double> weight(n);
  CHECK(refuses([&] { grow_with({.y = task.y, .weight = weight, .n_classes = 3}, std::nullopt); }));
  weight.assign(n, -1.0);
  CHECK(refuses([&] { grow_with({.y = task.y, .weight = weight, .n_classes = 3}, std::nullopt); }));
  CHECK(refuses([&] { grow_with({.y = task.y, .weight = {}, .n_classes = 2}, std::nullopt); }));
  CHECK(refuses([&] { grow_with({.y = task.y, .weight = {}, .n_classes = 0}, std::nullopt); }));
  const std::vector<int64_t> outside{0, 100}, none;
  CHECK(refuses([&] { grow_with(task.targets(), outside); }));
  CHECK(refuses([&] { grow_with(task.targets(), none); }));
  // Weights far apart, and one row by itself.
  weight.assign(n, 1e-30);
  weight[0] = 1e30;
  grow_with({.y = task.y, .weight = weight, .n_classes = 3}, std::nullopt);
  const std::vector<int64_t> single{5, 5, 5};
  grow_with(task.targets(), single);
}

}  // namespace

void test_class_grow() {
  Random random(9);
  test_all_ways(random);
  test_custom(random);
  test_doors(random);
}
