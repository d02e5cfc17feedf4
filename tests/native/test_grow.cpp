// Growing trees by itself: the same bits for any number of threads, leaves that agree with the bins, bundles,
// doors.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "bins.hpp"
#include "checking.hpp"
#include "costs.hpp"
#include "grow.hpp"
#include "grow_steps.hpp"
#include "tables.hpp"
#include "threads.hpp"

using namespace anytime;

namespace {

struct Result {
  GrownTree tree;
  std::vector<int32_t> leaf;
};

Result grown(const Bins& bins, const GrowTargets& targets, const GrowOptions& options,
             const GrowPrices& prices = {}) {
  std::vector<int32_t> leaf(static_cast<size_t>(bins.n_rows()), -1);
  GrownTree tree = grow(bins, targets, std::nullopt, std::nullopt, prices, options, leaf);
  return {std::move(tree), std::move(leaf)};
}

bool same(const Result& a, const Result& b) {
  if (a.leaf != b.leaf || a.tree.values != b.tree.values || a.tree.gain != b.tree.gain) return false;
  for (size_t i = 0; i < a.tree.nodes.size(); ++i) {
    if (a.tree.nodes[i].column != b.tree.nodes[i].column ||
        a.tree.nodes[i].split.cut != b.tree.nodes[i].split.cut)
      return false;
  }
  return a.tree.nodes.size() == b.tree.nodes.size();
}

void test_threads(Random& random, int32_t n_outputs, bool exact, bool own_weights) {
  const Table table = random_table(random, 20'000, 12);
  const auto n = static_cast<size_t>(table.n), k = static_cast<size_t>(n_outputs);
  std::vector<double> target(n * k), weight(own_weights ? n * k : n);
  for (double& t : target) t = normal(random);
  for (size_t i = 0; i < n; ++i)
    target[i * k] += 2.0 * (table.x[i * 12 + 2] > 0.3) + (table.x[i * 12 + 8] > 1.5);
  for (double& w : weight) w = 0.25 + static_cast<double>(random() % 1000) / 1000.0;
  const GrowTargets targets{.target = {.wide = target.data()},
                            .weight = {.wide = weight.data()},
                            .n_outputs = n_outputs,
                            .weight_per_output = own_weights};
  std::optional<Result> first;
  for (const int threads : {1, 2, 3, 4}) {
    const Bins bins = binned(table, exact, threads);
    CHECK(bins.wide() == exact);
    CHECK(exact || bins.n_slots() == 7);
    Result result = grown(bins, targets, {.max_leaves = 12, .threads = threads});
    CHECK(result.tree.n_leaves == 12);
    std::vector<int32_t> again(n, -1);
    result.tree.find_leaves(bins, threads, again);
    CHECK(again == result.leaf);
    if (first)
      CHECK(same(*first, result));
    else
      first = std::move(result);
  }
}

void test_prices(Random& random) {
  const Table table = random_table(random, 2000, 8);
  std::vector<double> target(2000);
  for (size_t i = 0; i < target.size(); ++i) target[i] = table.x[i * 8] + 0.5 * table.x[i * 8 + 2];
  const GrowTargets targets{.target = {.wide = target.data()}};
  const Bins bins = binned(table, false, 1);
  const std::vector<int64_t> prices{5, 7, 11, 0, 0, 0, 0, 0}, start{0, 0, 0, 1, 1, 1, 1, 1, 1};
  const std::vector<int32_t> require{0}, groups{0, 1, 2, 3, 4, 5, 6, 7};  // 2 requires 0
  const CostTable costs(prices, start, require, groups);
  const std::vector<uint8_t> nothing(8);
  const GrowPrices free{.table = &costs, .bought = nothing};
  const Result all = grown(bins, targets, {}, free);
  CHECK(all.tree.ticks >= 16 && all.tree.bought[0] == 1 && all.tree.bought[2] == 1);
  const Result none = grown(bins, targets, {.penalty = 1e9}, free);
  CHECK(none.tree.ticks == 0);
  for (const GrownNode& node : none.tree.nodes) CHECK(node.column < 0 || node.column >= 3);
}

template <class Call>
void check_refused(Call&& call) {
  bool refused = false;
  try {
    call();
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
}

void test_doors(Random& random) {
  const Table table = random_table(random, 300, 6);
  const Bins bins = binned(table, false, 1), other = binned(table, false, 1);
  std::vector<double> target(300, 1.0), weight(300, 1.0);
  const GrowTargets targets{.target = {.wide = target.data()}, .weight = {.wide = weight.data()}};
  const Result fine = grown(bins, targets, {});
  CHECK(fine.tree.n_leaves == 1 && std::abs(fine.tree.values[0] - 1.0) < 1e-12);
  std::vector<int32_t> leaf(300);
  check_refused([&] { fine.tree.find_leaves(other, 1, leaf); });
  const std::vector<int64_t> empty, outside{300};
  check_refused([&] { grow(bins, targets, std::span(empty), std::nullopt, {}, {}, leaf); });
  check_refused([&] { grow(bins, targets, std::span(outside), std::nullopt, {}, {}, leaf); });
  weight[7] = -1.0;
  check_refused([&] { grown(bins, targets, {}); });
  weight[7] = 1.0;
  target[299] = std::numeric_limits<double>::infinity();
  check_refused([&] { grown(bins, targets, {}); });
}

void test_steps(Random& random) {
  constexpr int64_t kRows = 10'001;
  constexpr int32_t kOutputs = 3;
  std::vector<double> scores(kRows * kOutputs), labels(kRows), values{0.5, -1.0};
  for (double& s : scores) s = 30.0 * normal(random);
  for (double& y : labels) y = static_cast<double>(random() % kOutputs);
  std::vector<float> g(scores.size()), h(scores.size()), g2(scores.size()), h2(scores.size());
  const Scores<const double> by_row{scores.data(), kRows, kOutputs, kOutputs, 1};
  loss_derivatives(StepLoss::kSoftmax, by_row, labels.data(), nullptr, g.data(), h.data(), 1);
  loss_derivatives(StepLoss::kSoftmax, by_row, labels.data(), nullptr, g2.data(), h2.data(), 4);
  CHECK(g == g2 && h == h2);
  for (int64_t i = 0; i < kRows; ++i) {
    double sum = 0.0;
    for (int32_t k = 0; k < kOutputs; ++k) sum += g[static_cast<size_t>(k * kRows + i)];
    CHECK(std::abs(sum) < 1e-6);
  }
  std::vector<int32_t> leaf(kRows, 1);
  const std::vector<double> before = scores;
  const Scores<double> to{scores.data(), kRows, kOutputs, kOutputs, 1};
  update_scores(to, leaf.data(), 2, values.data(), 2.0, 1, 4);
  for (size_t i = 0; i < scores.size(); ++i) CHECK(scores[i] == before[i] - (i % 3 == 1 ? 2.0 : 0.0));
  leaf[5] = 2;
  check_refused([&] { update_scores(to, leaf.data(), 2, values.data(), 1.0, 0, 1); });
}

void test_team() {
  for (const int size : {1, 2, 5}) {
    Team team(size);
    for (int round = 0; round < 300; ++round) {
      std::vector<int> done(static_cast<size_t>(round));
      team.each(round, true, [&](int64_t task, size_t part) noexcept {
        CHECK(part < team.size());
        ++done[static_cast<size_t>(task)];
      });
      for (const int times : done) CHECK(times == 1);
    }
  }
}

}  // namespace

void test_grow() {
  Random random(5);
  test_team();
  for (const bool exact : {false, true}) {
    test_threads(random, 1, exact, false);
    test_threads(random, 4, exact, false);
    test_threads(random, 2, exact, true);
  }
  test_prices(random);
  test_doors(random);
  test_steps(random);
}
