// Banks on a stream: rounds of any size on any number of threads, learners that come later, states that go
// on.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "checking.hpp"
#include "stream_nets.hpp"
#include "stream_ridge.hpp"
#include "stream_round.hpp"
#include "stream_trees.hpp"
#include "threads.hpp"

using namespace anytime;

namespace {

constexpr int64_t kColumns = 5, kRows = 2600;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

struct Data {
  std::vector<double> x, y;
};

// Numbers, missing ones among them; a column that moves after half of the rows, one that is nearly constant.
Data data(int64_t outputs) {
  Random random(1);
  Data out{std::vector<double>(kRows * kColumns), std::vector<double>(static_cast<size_t>(kRows * outputs))};
  for (int64_t row = 0; row < kRows; ++row) {
    double* x = out.x.data() + row * kColumns;
    for (int64_t j = 0; j < kColumns; ++j) x[j] = normal(random);
    if (row > kRows / 2) x[1] += 4.0;
    x[2] = x[2] > 2.0 ? 1.0 : 0.0;
    if (row % 7 == 0) x[3] = kMissing;
    for (int64_t k = 0; k < outputs; ++k) {
      out.y[static_cast<size_t>(row * outputs + k)] = std::sin(2.0 * x[0]) + static_cast<double>(k) * x[1];
    }
  }
  return out;
}

std::unique_ptr<StreamBank> make(int kind, int64_t n, int64_t outputs) {
  if (kind == 0 || kind == 1) {
    const StreamTreeSettings settings{.max_leaves = kind == 0 ? 64 : 6,
                                      .grace = 20,
                                      .confidence = 0.5,
                                      .width = kind == 0 ? 5 : 2,
                                      .stagger = 3};
    auto trees = std::make_unique<StreamTrees>(settings, kColumns, outputs);
    trees->append(n);
    return trees;
  }
  if (kind == 2) {
    auto ridge = std::make_unique<StreamRidge>(1.0, kColumns, outputs);
    ridge->append(n);
    return ridge;
  }
  NetView view;  // all columns, or two at a time, the last of them beyond the edge
  if (kind == 4) view = {.columns = {0, 1, 2, 3, 4, -1}, .window = 2};
  auto nets =
      std::make_unique<StreamNets>(Activation::sigmoid, 4, StepMethod::adam, 0.01, kColumns, outputs, view);
  nets->append(n);
  Random random(2);
  for (double& parameter : nets->parameters()) parameter = 0.3 * normal(random);
  return nets;
}

// Rounds over all rows, cut into calls: the answers.
std::vector<double> run(StreamBank& bank, const Data& rows, int64_t batch, int threads, int64_t per_call) {
  const auto n = static_cast<size_t>(bank.n_learners()), m = static_cast<size_t>(bank.n_outputs());
  const std::vector<double> start(m, 0.0), steps(n, 0.3);
  const std::vector<int64_t> seen(n, 0);
  std::vector<double> all(4 * n), recent(4 * n), out(static_cast<size_t>(kRows) * m);
  const RoundRules rules{
      .rho = 1e-3, .residual = true, .start = start, .steps = steps, .radius = 50.0, .batch = batch};
  const EdgeSums edges{.all = all.data(), .recent = recent.data(), .discount = 0.99, .rows = seen};
  Team team(threads);
  for (int64_t at = 0; at < kRows; at += per_call) {
    const StreamRows some{.x = rows.x.data() + at * kColumns, .n = std::min(per_call, kRows - at)};
    const StreamTruth truth{.y = rows.y.data() + at * static_cast<int64_t>(m),
                            .width = static_cast<int64_t>(m)};
    run_rounds(bank, some, truth, rules, edges, {}, team, out.data() + at * static_cast<int64_t>(m), nullptr);
  }
  return out;
}

std::vector<double> said(const StreamBank& bank, const Data& rows, int threads = 1) {
  std::vector<double> out(static_cast<size_t>(bank.n_learners() * kRows * bank.n_outputs()));
  Team team(threads);
  bank.predict({.x = rows.x.data(), .n = kRows}, out.data(), team);
  return out;
}

void test_threads_and_calls_leave_no_trace() {
  for (int kind = 0; kind < 5; ++kind) {
    for (const int64_t outputs : {1, 3}) {
      const Data rows = data(outputs);
      for (const int64_t batch : {1, 40}) {
        const auto one = make(kind, 24, outputs), two = make(kind, 24, outputs);
        CHECK(run(*one, rows, batch, 1, kRows) == run(*two, rows, batch, 3, 80));
        CHECK(said(*one, rows) == said(*two, rows, 3));
      }
    }
  }
}

void test_first_learners_do_not_know_of_later_ones() {
  const Data rows = data(1);
  for (int kind = 0; kind < 3; ++kind) {
    const auto few = make(kind, 3, 1), many = make(kind, 6, 1);
    run(*few, rows, 1, 1, kRows);
    run(*many, rows, 1, 1, kRows);
    const std::vector<double> theirs = said(*many, rows), ours = said(*few, rows);
    CHECK(std::equal(ours.begin(), ours.end(), theirs.begin()));
    few->append(2);
    const std::vector<double> after = said(*few, rows);
    CHECK(std::equal(ours.begin(), ours.end(), after.begin()));
    CHECK(std::all_of(after.begin() + static_cast<int64_t>(ours.size()), after.end(),
                      [](double value) { return value == 0.0; }));
  }
}

void test_learners_learn() {
  const Data rows = data(1);
  for (int kind = 0; kind < 5; kind += kind == 0 ? 3 : 1) {
    const auto bank = make(kind, 20, 1);
    const std::vector<double> out = run(*bank, rows, 1, 1, kRows);
    double early = 0.0, late = 0.0;
    for (int64_t row = 0; row < 500; ++row) {
      const auto i = static_cast<size_t>(row), j = static_cast<size_t>(kRows - 1 - row);
      early += std::pow(out[i] - rows.y[i], 2);
      late += std::pow(out[j] - rows.y[j], 2);
    }
    CHECK(late < 0.6 * early);
  }
}

void test_bins_follow_a_column_that_moves() {
  const Data rows = data(1);
  StreamBins bins(kColumns, 16);
  CHECK(!bins.ready());
  int64_t changes = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    bins.see(rows.x.data() + row * kColumns);
    changes += static_cast<int64_t>(bins.look().size());
  }
  CHECK(bins.ready());
  CHECK(changes > 0);
  CHECK(bins.cut(1, bins.n_cuts(1) - 1) > 3.0);
  CHECK(bins.n_cuts(2) == 1);
  std::vector<uint8_t> codes(kColumns);
  for (int64_t row = 0; row < kRows; ++row) {
    const double* x = rows.x.data() + row * kColumns;
    bins.codes(x, codes.data());
    for (int64_t j = 0; j < kColumns; ++j) {
      int32_t below = 0;
      for (int32_t cut = 0; cut < bins.n_cuts(j); ++cut) below += bins.cut(j, cut) < x[j];
      CHECK(codes[static_cast<size_t>(j)] == (std::isnan(x[j]) ? 16 : below));
    }
  }
}

void test_wrong_states_are_refused() {
  StreamBins bins(2, 8);
  StreamBins::State state = bins.save();
  state.n_cuts[0] = 2;
  state.cuts[0] = 1.0;
  state.cuts[1] = 0.0;
  bool refused = false;
  try {
    bins.load(state);
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
}

}  // namespace

void test_stream() {
  test_threads_and_calls_leave_no_trace();
  test_first_learners_do_not_know_of_later_ones();
  test_learners_learn();
  test_bins_follow_a_column_that_moves();
  test_wrong_states_are_refused();
}
