#include "class_grow.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>

#include "class_grow_random.hpp"
#include "class_grow_tree.hpp"
#include "threads.hpp"

namespace anytime {
namespace {

// Products of two sums of weights and two of targets stay within what a number can hold.
constexpr double kMostWeight = 1e30, kMostTarget = 1e100;

std::string shown(double number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

// Rounded to multiples of a power of two of which any draw of the rows adds up exactly.
std::vector<double> rounded(std::span<const double> weight, const std::vector<int32_t>& rows) {
  double most = 0.0;
  bool whole = true;
  for (const int32_t row : rows) {
    const double w = weight[static_cast<size_t>(row)];
    if (!(w >= 0.0) || !std::isfinite(w)) {
      throw std::invalid_argument("weight of row " + std::to_string(row) + " is " + shown(w) +
                                  "; weights are finite and not negative");
    }
    most = std::max(most, w);
    whole = whole && w == std::floor(w);
  }
  if (most == 0.0) throw std::invalid_argument("all rows have weight 0: there is nothing to learn from");
  if (most > kMostWeight || most < 1 / kMostWeight) {
    throw std::invalid_argument("the largest weight is " + shown(most) + ", which must be from " +
                                shown(1 / kMostWeight) + " to " + shown(kMostWeight) +
                                ": scale the weights so that it is near 1");
  }
  std::vector<double> out(weight.begin(), weight.end());
  const double bound = most * static_cast<double>(rows.size());
  if (whole && bound <= 0x1p53) return out;
  const double unit = std::exp2(std::ceil(std::log2(bound)) - 52);
  for (double& w : out) w = w > 0.0 ? std::max(std::nearbyint(w / unit), 1.0) * unit : 0.0;
  return out;
}

void check_numbers(std::span<const double> y, const std::vector<int32_t>& rows) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const int32_t row : rows) {
    const double number = y[static_cast<size_t>(row)];
    if (!std::isfinite(number))
      throw std::invalid_argument("y of row " + std::to_string(row) + " is not finite");
    least = std::min(least, number);
    most = std::max(most, number);
  }
  const bool too_close = most > least && most - least < 1 / kMostTarget;
  if (too_close || std::max(most, -least) > kMostTarget) {
    throw std::invalid_argument("y goes from " + shown(least) + " to " + shown(most) +
                                ", whose squares are beyond what a number can hold: scale y");
  }
}

void check_targets(const ClassTargets& targets, const std::vector<int32_t>& rows) {
  if (targets.n_classes == 0) return check_numbers(targets.y, rows);
  for (const int32_t row : rows) {
    const double y = targets.y[static_cast<size_t>(row)];
    if (y >= 0.0 && y < targets.n_classes && y == std::floor(y)) continue;
    throw std::invalid_argument("y of row " + std::to_string(row) + " is " + shown(y) +
                                "; classes are whole numbers from 0 to " +
                                std::to_string(targets.n_classes - 1));
  }
}

std::vector<int32_t> checked_rows(const Bins& bins, const std::optional<std::span<const int64_t>>& rows) {
  constexpr auto kMost = static_cast<size_t>(std::numeric_limits<int32_t>::max());
  std::vector<int32_t> out(rows ? rows->size() : static_cast<size_t>(bins.n_rows()));
  if (out.empty()) throw std::invalid_argument("there are no rows to grow a tree on");
  if (out.size() > kMost || static_cast<size_t>(bins.n_rows()) > kMost)
    throw std::invalid_argument("a tree is grown on at most 2**31 - 1 rows");
  if (!rows) {
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t row = (*rows)[i];
    if (row < 0 || row >= bins.n_rows()) {
      throw std::invalid_argument("rows names row " + std::to_string(row) + "; the data have " +
                                  std::to_string(bins.n_rows()));
    }
    out[i] = static_cast<int32_t>(row);
  }
  return out;
}

void check_impurity(const ImpurityRule& impurity, const ClassTargets& targets) {
  if (impurity.regression() != (targets.n_classes == 0)) {
    throw std::invalid_argument(targets.n_classes == 0
                                    ? "numbers need an impurity of numbers, such as SquaredPairs"
                                    : "classes need an impurity of classes, such as Pairs");
  }
  for (const PolynomialTerm& term : impurity.terms) {
    if (term.exponents.size() == static_cast<size_t>(targets.n_classes)) continue;
    throw std::invalid_argument("the polynomial has exponents for " + std::to_string(term.exponents.size()) +
                                " classes, there are " + std::to_string(targets.n_classes));
  }
}

}  // namespace

std::vector<int32_t> bootstrap_counts(int64_t n, uint64_t seed, int64_t tree) {
  std::vector<int32_t> counts(static_cast<size_t>(n));
  RandomStream random(seed, static_cast<uint64_t>(tree));
  for (int64_t i = 0; i < n; ++i) ++counts[static_cast<size_t>(random.below(static_cast<uint64_t>(n)))];
  return counts;
}

std::vector<ClassTree> grow_class_trees(const Bins& bins, const ClassTargets& targets,
                                        std::optional<std::span<const int64_t>> rows,
                                        std::optional<std::span<const uint8_t>> columns,
                                        const CostTable* table, const ClassGrowOptions& options,
                                        const ForestDraw& draw) {
  check_impurity(options.impurity, targets);
  ClassJob job{.bins = bins,
               .targets = targets,
               .options = options,
               .table = table,
               .seed = draw.seed,
               .bootstrap = draw.bootstrap,
               .rows = checked_rows(bins, rows),
               .weight = {},
               .columns = {},
               .prices = {}};
  check_targets(targets, job.rows);
  if (!targets.weight.empty()) {
    job.weight = rounded(targets.weight, job.rows);
    std::erase_if(job.rows, [&](int32_t row) { return job.weight[static_cast<size_t>(row)] == 0.0; });
  }
  for (int32_t j = 0; j < bins.cuts().n_columns(); ++j) {
    if (!columns || (*columns)[static_cast<size_t>(j)] != 0) job.columns.push_back(j);
    int64_t ticks = table == nullptr ? 1 : 0;
    if (table != nullptr) {
      for (const int32_t group : table->closure(table->group_of(j))) ticks += table->own_price(group);
    }
    job.prices.push_back(static_cast<double>(ticks));
  }
  std::stable_sort(job.columns.begin(), job.columns.end(),
                   [&](int32_t a, int32_t b) { return bins.place(a).slot < bins.place(b).slot; });

  std::vector<ClassTree> trees(static_cast<size_t>(draw.n_trees));
  Team team(static_cast<int>(std::min<int64_t>(options.threads, draw.n_trees)));
  std::vector<std::unique_ptr<ClassGrower>> growers(team.size());
  std::vector<std::exception_ptr> failures(trees.size());
  std::atomic<bool> stopped{false};
  team.each(draw.n_trees, true, [&](int64_t tree, size_t part) noexcept {
    if (stopped.load(std::memory_order_relaxed)) return;
    try {
      if (!growers[part]) growers[part] = std::make_unique<ClassGrower>(job);
      if (!growers[part]->grow(draw.first_tree + tree, trees[static_cast<size_t>(tree)])) stopped = true;
    } catch (...) {
      failures[static_cast<size_t>(tree)] = std::current_exception();
      stopped = true;
    }
  });
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  if (stopped) trees.clear();
  return trees;
}

}  // namespace anytime
