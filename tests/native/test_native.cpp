// The native core by itself: every fast path against the plain walk, doors, interrupts, threads, ledger.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "answers.hpp"
#include "checking.hpp"
#include "clock.hpp"
#include "costs.hpp"
#include "evaluate.hpp"
#include "filter.hpp"
#include "forest.hpp"
#include "layout.hpp"
#include "meter.hpp"
#include "planes.hpp"
#include "scan.hpp"
#include "walk.hpp"

using namespace anytime;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Arrays {
  std::vector<int64_t> tree_start{0}, stage_start{0}, category_start{0};
  std::vector<int32_t> feature, left, right, category_set, categories, tree_output;
  std::vector<double> threshold, value;
  std::vector<uint8_t> default_left, missing, members_left;
  int64_t width = 1, n_outputs = 1, n_features = 1;
  bool float32_input = false;

  TreeArraysView view() const {
    return {.tree_start = tree_start,
            .stage_start = stage_start,
            .feature = feature,
            .threshold = threshold,
            .left = left,
            .right = right,
            .default_left = default_left,
            .missing = missing,
            .category_set = category_set,
            .members_left = members_left,
            .category_start = category_start,
            .categories = categories,
            .value = value,
            .value_rows = static_cast<int64_t>(feature.size()),
            .value_width = width,
            .tree_output = tree_output,
            .n_outputs = n_outputs,
            .n_features = n_features,
            .float32_input = float32_input};
  }
};

struct Spec {
  int stages = 8, trees_per_stage = 1, leaves = 12, features = 5, outputs = 1;
  bool shared = false, float32_input = false, lopsided = false, one_reading = false;
  double categorical = 0.0;
  int most_category = 10;
};

int below(Random& random, int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); }

void add_node(Arrays& a, Random& random, const Spec& spec) {
  a.feature.push_back(-1);
  a.threshold.push_back(0.0);
  a.left.push_back(-1);
  a.right.push_back(-1);
  a.category_set.push_back(-1);
  a.default_left.push_back(static_cast<uint8_t>(below(random, 2)));
  a.missing.push_back(static_cast<uint8_t>(spec.one_reading ? 0 : below(random, 3)));
  a.members_left.push_back(static_cast<uint8_t>(below(random, 2)));
  for (int64_t k = 0; k < a.width; ++k) a.value.push_back(normal(random));
}

void add_tree(Arrays& a, Random& random, const Spec& spec) {
  const auto first = a.feature.size();
  struct Open {
    size_t node;
    int leaves;
  };
  std::vector<Open> open{{0, 1 + below(random, spec.leaves)}};
  add_node(a, random, spec);
  while (!open.empty()) {
    const Open at = open.back();
    open.pop_back();
    if (at.leaves == 1) continue;
    const size_t node = first + at.node, child = a.feature.size() - first;
    a.feature[node] = below(random, spec.features);
    a.threshold[node] = below(random, 20) == 0 ? (below(random, 2) ? kInf : -kInf) : 2.0 * normal(random);
    a.left[node] = static_cast<int32_t>(child);
    a.right[node] = static_cast<int32_t>(child + 1);
    if (std::uniform_real_distribution<double>()(random) < spec.categorical) {
      a.category_set[node] = static_cast<int32_t>(a.category_start.size()) - 1;
      for (int c = 0; c <= spec.most_category; ++c) {
        if (below(random, 2)) a.categories.push_back(c);
      }
      a.category_start.push_back(static_cast<int64_t>(a.categories.size()));
    }
    add_node(a, random, spec);
    add_node(a, random, spec);
    const int on_left = spec.lopsided ? 1 : 1 + below(random, at.leaves - 1);
    open.push_back({child, on_left});
    open.push_back({child + 1, at.leaves - on_left});
  }
  a.tree_start.push_back(static_cast<int64_t>(a.feature.size()));
  a.tree_output.push_back(spec.shared ? 0 : below(random, spec.outputs));
}

Arrays random_arrays(Random& random, const Spec& spec) {
  Arrays a;
  a.n_outputs = spec.outputs;
  a.width = spec.shared ? spec.outputs : 1;
  a.n_features = spec.features;
  a.float32_input = spec.float32_input;
  for (int s = 0; s < spec.stages; ++s) {
    for (int t = 0; t < spec.trees_per_stage; ++t) add_tree(a, random, spec);
    a.stage_start.push_back(static_cast<int64_t>(a.tree_output.size()));
  }
  return a;
}

std::vector<double> random_rows(Random& random, const Arrays& a, int64_t n) {
  std::vector<double> x(static_cast<size_t>(n * a.n_features));
  for (double& v : x) {
    switch (below(random, 8)) {
      case 0:
        v = kNan;
        break;
      case 1:
        v = below(random, 14) - 2;
        break;
      case 2:
        v = a.threshold[static_cast<size_t>(below(random, static_cast<int>(a.threshold.size())))];
        break;
      case 3:
        v = std::vector{0.0, -0.0, 1e-36, -0.5, kInf, -kInf, 1e300}[static_cast<size_t>(below(random, 7))];
        break;
      default:
        v = 2.0 * normal(random);
    }
  }
  return x;
}

// Sums of stages [from, to) by the plain walk.
std::vector<int64_t> plain(const Forest& forest, const double* x, int32_t from, int32_t to) {
  std::vector<int64_t> sums(static_cast<size_t>(forest.n_outputs()), 0);
  for (int32_t t = forest.first_tree(from); t < forest.first_tree(std::max(from, to)); ++t) {
    add_leaf(forest, t, find_leaf(forest, forest.tree_start()[static_cast<size_t>(t)], x), sums.data());
  }
  return sums;
}

struct State {
  State(const Forest& forest, int64_t n, int32_t limit)
      : acc(static_cast<size_t>(n * forest.n_outputs())),
        done(static_cast<size_t>(n)),
        until(static_cast<size_t>(n), limit) {}
  Rows rows(const std::vector<double>& x) {
    return {.x = x.data(),
            .n = static_cast<int64_t>(done.size()),
            .acc = acc.data(),
            .done = done.data(),
            .until = until.data()};
  }
  void check(const Forest& forest, const std::vector<double>& x) const {
    const auto k = static_cast<size_t>(forest.n_outputs());
    for (size_t i = 0; i < done.size(); ++i) {
      const auto want = plain(forest, x.data() + i * static_cast<size_t>(forest.n_features()), 0, done[i]);
      CHECK(std::equal(want.begin(), want.end(), acc.begin() + static_cast<int64_t>(i * k)));
    }
  }
  std::vector<int64_t> acc;
  std::vector<int32_t> done, until;
};

const Watch kFar(1e9, nullptr);

void test_every_form_equals_the_plain_walk() {
  struct Case {
    Spec spec;
    Form form;
    bool small_ranks;
  };
  const std::vector<Case> cases = {
      {{.stages = 60}, Form::kSmall, true},
      {{.stages = 60, .leaves = 64, .float32_input = true}, Form::kSmall, true},
      {{.stages = 20, .trees_per_stage = 5, .outputs = 3}, Form::kSmall, true},
      {{.stages = 20, .trees_per_stage = 5, .outputs = 3, .shared = true}, Form::kSmall, true},
      {{.stages = 20, .leaves = 200, .lopsided = true}, Form::kSmall, true},
      {{.stages = 12, .leaves = 1500, .features = 6}, Form::kSmall, true},
      {{.stages = 60, .leaves = 30, .categorical = 0.5}, Form::kLarge, true},
      {{.stages = 60, .leaves = 30, .categorical = 0.5, .most_category = 500}, Form::kLarge, false},
      {{.stages = 300, .leaves = 60, .features = 300, .one_reading = true}, Form::kMedium, false},
      {{.stages = 300, .leaves = 60, .features = 300, .outputs = 2, .shared = true, .one_reading = true},
       Form::kMedium,
       false},
      {{.stages = 60, .leaves = 9000, .features = 2, .one_reading = true}, Form::kMedium, false},
      {{.stages = 6000, .leaves = 40, .features = 9000, .one_reading = true}, Form::kLarge, false},
      {{.stages = 4, .leaves = 6, .categorical = 1.0, .most_category = 140'000}, Form::kPlain, true},
  };
  for (const Case& c : cases) {
    Random random(7);
    const Arrays arrays = random_arrays(random, c.spec);
    const Forest forest(arrays.view());
    const Layout& layout = forest.layout();
    CHECK(layout.small_ranks == c.small_ranks);
    CHECK(std::any_of(layout.trees.begin(), layout.trees.end(),
                      [&](const Tree& t) { return t.form == c.form; }));
    const int32_t last = forest.n_stages();
    CHECK(c.form == Form::kPlain ||
          !layout.is_short(0, last, kSearchAlone));  // else the form would not be tried
    const int64_t n = 35;
    const auto x = random_rows(random, arrays, n);
    {
      LineVector<std::byte> memory(forest.frozen_size());
      forest.freeze(memory);
      const Forest thawed = Forest::thawed(memory);
      CHECK(thawed.layout().trees.data() != layout.trees.data());
      State before(forest, n, last), after(thawed, n, last);
      CHECK(run(forest, before.rows(x), Watch(), 1) && run(thawed, after.rows(x), Watch(), 1));
      after.check(forest, x);
      const Forest moved = thawed.select(std::vector<int64_t>{last - 1, 0});
      CHECK(moved.n_stages() == 2 && moved.shift() == forest.shift());
    }
    for (const int32_t until : {0, 1, last / 2, last}) {
      for (const Watch& watch : {Watch(), kFar}) {
        State state(forest, n, until);
        CHECK(run(forest, state.rows(x), watch, 1));
        CHECK(state.done == state.until);
        state.check(forest, x);
        std::vector<int64_t> one(static_cast<size_t>(forest.n_outputs()), 99);
        for (int64_t i = 0; i < n; ++i) {
          CHECK(run_one(forest, x.data() + i * forest.n_features(), until, watch, one.data()) == until);
          CHECK(one == plain(forest, x.data() + i * forest.n_features(), 0, until));
        }
      }
    }
    const std::vector<int64_t> stages{0, last - 1, last / 2, 0};
    for (const size_t count : {size_t{1}, stages.size()}) {
      std::vector<double> out(count * static_cast<size_t>(n * forest.n_outputs()));
      stage_outputs(forest, x.data(), n, std::span(stages).first(count), out.data());
      for (size_t i = 0; i < out.size(); ++i) {
        const auto k = static_cast<int64_t>(i) % forest.n_outputs();
        const auto row = static_cast<int64_t>(i) / forest.n_outputs() % n;
        const auto stage = static_cast<int32_t>(
            stages[static_cast<size_t>(static_cast<int64_t>(i) / (n * forest.n_outputs()))]);
        const auto want = plain(forest, x.data() + row * forest.n_features(), stage, stage + 1);
        CHECK(out[i] == static_cast<double>(want[static_cast<size_t>(k)]) * forest.unit());
      }
    }
  }
}

// Every instruction set that the machine has, with rows that fill vectors and rows that do not.
void test_scans_equal_the_plain_walk() {
  const std::vector<Spec> specs = {
      {.stages = 60, .leaves = 1},
      {.stages = 60, .leaves = 64},
      {.stages = 20, .trees_per_stage = 5, .leaves = 20, .outputs = 3},
      {.stages = 20, .trees_per_stage = 5, .leaves = 20, .outputs = 3, .shared = true},
      {.stages = 20, .leaves = 256, .lopsided = true},
      {.stages = 60, .leaves = 30, .categorical = 0.02},
      {.stages = 300, .leaves = 60, .features = 300, .one_reading = true},
      {.stages = 300, .leaves = 60, .features = 300, .outputs = 2, .shared = true, .one_reading = true},
  };
  const Vectors before = vectors_in_use();
  CHECK(is_supported(before) && is_supported(Vectors::kPortable));
  for (const Spec& spec : specs) {
    Random random(11);
    const Arrays arrays = random_arrays(random, spec);
    const Forest forest(arrays.view());
    const auto& trees = forest.layout().trees;
    CHECK(std::any_of(trees.begin(), trees.end(), [](const Tree& t) { return t.scanned; }));
    const auto x = random_rows(random, arrays, 300);
    for (const Vectors vectors : kAllVectors) {
      if (!is_supported(vectors)) continue;
      use_vectors(vectors);
      for (const int64_t n : {33, 64, 100, 257, 300}) {
        for (const Watch& watch : {Watch(), kFar}) {
          State state(forest, n, forest.n_stages());
          CHECK(run(forest, state.rows(x), watch, 2));
          state.check(forest, x);
        }
      }
    }
    use_vectors(before);
  }
}

void test_rows_start_and_end_anywhere_on_any_number_of_threads() {
  Random random(1);
  const Arrays arrays =
      random_arrays(random, {.stages = 120, .trees_per_stage = 2, .leaves = 30, .categorical = 0.1});
  const Forest forest(arrays.view());
  const int64_t n = 1200;
  const auto x = random_rows(random, arrays, n);
  State state(forest, n, 0), whole(forest, n, forest.n_stages());
  for (size_t i = 0; i < state.done.size(); ++i) {
    state.done[i] = below(random, forest.n_stages() + 1);
    state.until[i] = below(random, forest.n_stages() + 1);
    const auto begun = plain(forest, x.data() + i * 5, 0, state.done[i]);
    state.acc[i] = begun[0];
  }
  CHECK(run(forest, state.rows(x), kFar, 4));
  state.check(forest, x);
  state.until = whole.until;
  CHECK(run(forest, state.rows(x), Watch(), 3));
  CHECK(run(forest, whole.rows(x), Watch(), 1));
  CHECK(state.acc == whole.acc && state.done == whole.done);
}

void test_interrupts_leave_prefixes_and_resume() {
  Random random(2);
  for (const int trees_per_stage : {1, 7, 150}) {
    const Arrays arrays = random_arrays(
        random, {.stages = 300 / trees_per_stage, .trees_per_stage = trees_per_stage, .leaves = 40});
    const Forest forest(arrays.view());
    const int64_t n = 300;
    const auto x = random_rows(random, arrays, n);
    State state(forest, n, forest.n_stages());
    const Rows rows = state.rows(x);
    CHECK(!run(forest, rows, Watch(0.0, nullptr), 2));
    CHECK(std::all_of(state.done.begin(), state.done.end(), [](int32_t d) { return d == 0; }));
    int64_t one = 1;
    CHECK(run_one(forest, x.data(), forest.n_stages(), Watch(0.0, nullptr), &one) == 0 && one == 0);
    double patience = 1e-6;
    for (;;) {
      const auto now = static_cast<double>(monotonic_ns()) * 1e-9;
      const bool finished = run(forest, rows, Watch(now + patience, nullptr), 2);
      state.check(forest, x);
      const int32_t done =
          run_one(forest, x.data(), forest.n_stages(),
                  Watch(static_cast<double>(monotonic_ns()) * 1e-9 + patience * 0.01, nullptr), &one);
      CHECK(one == plain(forest, x.data(), 0, done)[0]);
      CHECK(finished == (state.done == state.until));
      if (finished) break;
      patience *= 1.3;
    }
  }
}

void test_stop_flag_set_by_another_thread() {
  Random random(3);
  const Arrays arrays = random_arrays(random, {.stages = 200, .leaves = 40});
  const Forest forest(arrays.view());
  const auto x = random_rows(random, arrays, 4000);
  State state(forest, 4000, forest.n_stages());
  StopFlag flag;
  std::thread other([&] { flag.set(); });
  while (run(forest, state.rows(x), Watch(kInf, &flag), 2)) state = State(forest, 4000, forest.n_stages());
  other.join();
  state.check(forest, x);
  flag.clear();
  CHECK(run(forest, state.rows(x), Watch(kInf, &flag), 2));
}

void test_select_keeps_bits_and_unit() {
  Random random(4);
  const Arrays arrays = random_arrays(random, {.stages = 9, .trees_per_stage = 3, .categorical = 0.3});
  const Forest forest(arrays.view());
  const std::vector<int64_t> order{8, 2, 5};
  const Forest some = forest.select(order);
  CHECK(some.n_stages() == 3 && some.unit() == forest.unit());
  const auto x = random_rows(random, arrays, 20);
  for (int64_t i = 0; i < 20; ++i) {
    int64_t want = 0;
    for (const int64_t s : order) {
      want += plain(forest, x.data() + i * 5, static_cast<int32_t>(s), static_cast<int32_t>(s) + 1)[0];
    }
    CHECK(plain(some, x.data() + i * 5, 0, 3)[0] == want);
  }
  CHECK(forest.select({}).n_stages() == 0);
}

template <class Action>
void refuses(Action&& action, const std::string& part) {
  try {
    action();
  } catch (const std::invalid_argument& error) {
    if (std::string(error.what()).find(part) != std::string::npos) return;
    std::fprintf(stderr, "says '%s', not '%s'\n", error.what(), part.c_str());
  }
  CHECK(!"refused");
}

void test_doors() {
  Random random(5);
  const Arrays good = random_arrays(random, {.stages = 3, .leaves = 6, .categorical = 0.4});
  const auto broken = [&](const std::function<void(Arrays&)>& damage, const char* part) {
    Arrays arrays = good;
    damage(arrays);
    refuses([&] { Forest forest(arrays.view()); }, part);
  };
  const auto inner = static_cast<size_t>(
      std::find_if(good.feature.begin(), good.feature.end(), [](int32_t f) { return f >= 0; }) -
      good.feature.begin());
  broken([](Arrays& a) { a.tree_start.clear(); }, "tree_start is empty");
  broken([](Arrays& a) { a.tree_start.back() += 1; }, "tree_start ends at");
  broken([](Arrays& a) { a.stage_start.pop_back(); }, "stage_start ends at");
  broken([](Arrays& a) { a.threshold.pop_back(); }, "threshold has");
  broken([](Arrays& a) { a.value[0] = kNan; }, "not finite");
  broken([](Arrays& a) { a.threshold[0] = kNan; }, "NaN");
  broken([&](Arrays& a) { a.feature[inner] = 5; }, "tests column 5");
  broken([&](Arrays& a) { a.left[inner] = -1; }, "has child -1");
  broken([&](Arrays& a) { a.right[inner] = a.left[inner]; }, "exactly one parent");
  broken([&](Arrays& a) { a.right[inner] = 1 << 30; }, "has child");
  broken([](Arrays& a) { a.missing[0] = 3; }, "missing 3");
  broken([](Arrays& a) { a.category_set[0] = 1000; }, "names category set");
  broken([](Arrays& a) { a.categories[0] = -1; }, "not in [0, 2**24]");
  broken([](Arrays& a) { a.tree_output[0] = 1; }, "adds to output 1");
  broken([](Arrays& a) { a.n_outputs = 0; }, "n_outputs");
  broken([](Arrays& a) { a.width = 2; }, "value has 2 columns");
  refuses([&] { Forest forest(good.view(), 5000); }, "shift");
  refuses([&] { Forest forest(good.view(), 62); }, "too large");

  const Forest forest(good.view());
  State state(forest, 2, forest.n_stages() + 1);
  const std::vector<double> x(10, 0.0);
  refuses([&] { run(forest, state.rows(x), Watch(), 1); }, "must lie in");
  refuses([&] { Watch watch(kNan, nullptr); }, "NaN");
  refuses([&] { forest.stage_columns(3); }, "stage 3");
  int64_t one = 0;
  refuses([&] { run_one(forest, x.data(), 4, Watch(), &one); }, "until is 4");
}

std::shared_ptr<const CostTable> make_table(std::vector<int64_t> prices, std::vector<int64_t> start,
                                            std::vector<int32_t> require, std::vector<int32_t> columns) {
  return std::make_shared<const CostTable>(prices, start, require, columns);
}

void test_ledger() {
  const auto table = make_table({2, 5, 3, 1}, {0, 0, 1, 2, 4}, {0, 0, 1, 2}, {0, 1, 2, 3, 3});
  const auto all = table->closure(3);
  CHECK(std::vector<int32_t>(all.begin(), all.end()) == (std::vector<int32_t>{0, 1, 2, 3}));
  Ledger ledger(table, 2);
  const std::vector<int32_t> chol{1}, last{3};
  const std::vector<int64_t> both{0, 1}, second{1};
  ledger.buy(chol, second);
  std::vector<int64_t> quoted(2);
  ledger.quote(last, both, quoted);
  CHECK(quoted == (std::vector<int64_t>{11, 4}));
  CHECK(!ledger.try_buy(1, 3, 10) && ledger.paid()[1] == 7 && !ledger.has(1, 3));
  CHECK(ledger.try_buy(1, 3, 11) && ledger.paid()[1] == 11 && ledger.has(1, 2));
  CHECK(!ledger.try_charge(1, 1, 11) && ledger.try_charge(1, 0, 11) && !ledger.try_charge(0, 0, -1));
  refuses([&] { make_table({1, 1}, {0, 1, 2}, {1, 0}, {}); }, "cycle");
  refuses([&] { make_table({-1}, {0, 0}, {}, {}); }, "negative");
  refuses([&] { make_table({1}, {0, 1}, {1}, {}); }, "not in");
  refuses([&] { make_table({1}, {0, 0}, {}, {1}); }, "names group");
  refuses([&] { ledger.charge(-1, both); }, "not negative");
}

void test_metered_run() {
  Random random(6);
  const Arrays arrays = random_arrays(random, {.stages = 12, .trees_per_stage = 2, .categorical = 0.2});
  const Forest forest(arrays.view());
  const int64_t n = 100;
  const auto x = random_rows(random, arrays, n);
  const auto table = make_table({4, 3, 2, 1, 5}, {0, 0, 1, 1, 1, 2}, {0, 2}, {0, 1, 2, 3, 4});
  const std::vector<int64_t> evaluation(12, 1);
  for (const int64_t most : {int64_t{0}, int64_t{9}, int64_t{20}, std::numeric_limits<int64_t>::max()}) {
    const std::vector<int64_t> budget(static_cast<size_t>(n), most);
    State state(forest, n, 12);
    Ledger ledger(table, n);
    const Meter meter{.ledger = &ledger, .evaluation = evaluation, .budget = budget.data()};
    CHECK(!run_metered(forest, state.rows(x), meter, Watch(0.0, nullptr)));
    CHECK(run_metered(forest, state.rows(x), meter, kFar));
    state.check(forest, x);
    State scanned(forest, n, 12);  // without a watch trees are scanned where they can be
    Ledger same(table, n);
    const Meter unwatched{.ledger = &same, .evaluation = evaluation, .budget = budget.data()};
    CHECK(run_metered(forest, scanned.rows(x), unwatched, Watch()));
    CHECK(scanned.acc == state.acc && scanned.done == state.done);
    CHECK(std::ranges::equal(same.paid(), ledger.paid()) && std::ranges::equal(same.bits(), ledger.bits()));
    for (size_t i = 0; i < state.done.size(); ++i) {
      CHECK(ledger.paid()[i] <= most);
      if (most < 27) continue;
      std::vector<uint8_t> available(5, 0);
      std::set<int32_t> closed;
      for (int32_t stage = 0; stage < 12; ++stage) {
        for (int32_t g; (g = need(forest, x.data() + i * 5, stage, available, *table)) >= 0;) {
          available[static_cast<size_t>(g)] = 1;
          for (const int32_t c : table->closure(g)) closed.insert(c);
        }
      }
      for (int32_t g = 0; g < 5; ++g) CHECK(ledger.has(static_cast<int64_t>(i), g) == closed.contains(g));
    }
  }
}

// Sums and unions by tables of bytes, against those by numbers.
void test_planes() {
  const PlaneKernels* kernels = plane_kernels(vectors_in_use());
  if (kernels == nullptr) return;  // this machine has none
  Random random(9);
  std::uniform_int_distribution<uint64_t> bits;
  for (const size_t count : {size_t{1}, size_t{5}, kPlaneTrees}) {
    std::vector<Planes> planes(count);
    std::vector<std::array<uint64_t, kPlaneLeaves>> numbers(count);
    std::vector<uint8_t> leaves(count * kScanRows);
    std::vector<uint64_t> sums(kScanRows, 7), unions(kScanRows, 7);
    for (size_t t = 0; t < count; ++t) {
      const auto n = static_cast<size_t>(below(random, kPlaneLeaves)) + 1;
      for (uint64_t& number : numbers[t]) number = count == kPlaneTrees ? ~uint64_t{0} : bits(random);
      for (size_t i = 0; i < kScanRows; ++i) {
        leaves[t * kScanRows + i] = static_cast<uint8_t>(below(random, static_cast<int>(n)));
      }
      kernels->fill(numbers[t].data(), n, planes[t]);
    }
    for (const size_t rows : {size_t{16}, size_t{192}, kScanRows}) {
      kernels->add(planes.data(), count, leaves.data(), rows, sums.data());
      kernels->join(planes.data(), count, leaves.data(), rows, unions.data());
      for (size_t i = 0; i < rows; ++i) {
        uint64_t sum = 0, all = 0;
        for (size_t t = 0; t < count; ++t) {
          const uint64_t number = numbers[t][leaves[t * kScanRows + i]];
          sum += number;
          all |= number;
        }
        CHECK(sums[i] == sum && unions[i] == all);
      }
    }
  }
}

// Scores in one call, against those of a run.
void test_scores() {
  Random random(10);
  const Arrays arrays = random_arrays(random, {.stages = 12, .trees_per_stage = 2});
  const Forest forest(arrays.view());
  const int64_t n = 70;
  const auto x = random_rows(random, arrays, n);
  const auto table = make_table({4, 3, 2, 1, 5}, {0, 0, 1, 1, 1, 2}, {0, 2}, {0, 1, 2, 3, 4});
  const std::vector<int64_t> evaluation(12, 1), budget(static_cast<size_t>(n), 9);
  const std::vector<double> base(static_cast<size_t>(forest.n_outputs()), 0.25);
  for (const bool pays : {false, true}) {
    State state(forest, n, 12);
    Ledger ledger(table, n);
    const Meter meter{.ledger = &ledger, .evaluation = evaluation, .budget = budget.data(), .absent = {}};
    CHECK(pays ? run_metered(forest, state.rows(x), meter, kFar) : run(forest, state.rows(x), kFar, 1));
    const Payment payment{.table = table, .evaluation = evaluation, .budget = 9};
    for (const bool mean : {false, true}) {
      std::vector<double> scores(state.acc.size());
      scores_of(forest, x.data(), n, 12, pays ? &payment : nullptr, 1, {.base = base, .mean = mean},
                scores.data());
      for (size_t i = 0; i < scores.size(); ++i) {
        const double total = static_cast<double>(state.acc[i]) * forest.unit();
        const int32_t done = state.done[i / base.size()];
        const double average = done > 0 ? total / done : 0.25;
        CHECK(scores[i] == (mean ? average : 0.25 + total));
      }
    }
  }
  std::vector<double> scores(static_cast<size_t>(n) * base.size());
  refuses([&] { scores_of(forest, x.data(), n, 13, nullptr, 1, {.base = base}, scores.data()); },
          "must lie in");
  refuses([&] { scores_of(forest, x.data(), n, 1, nullptr, 1, {}, scores.data()); }, "base");
  const std::vector<double> odds{-800.0, -1.0, 0.0, 1.0, 800.0};
  std::vector<double> probabilities(10);
  logistic(odds, probabilities.data());
  CHECK(probabilities[0] == 1.0 && probabilities[1] == 0.0 && probabilities[5] == 0.5 &&
        probabilities[9] == 1.0);
  CHECK(probabilities[3] == 1.0 / (1.0 + std::exp(1.0)) && probabilities[2] == 1.0 - probabilities[3]);
}

// Row by row without a watch, stage by stage under one, and cut short in between: all as the plain walk of
// the stages whose filter the row passes.
void test_filtered_run() {
  Random random(8);
  for (const int outputs : {1, 3}) {
    const Arrays arrays = random_arrays(random, {.stages = 12, .trees_per_stage = 2, .outputs = outputs});
    const Forest forest(arrays.view());
    const int64_t n = 60;
    const auto x = random_rows(random, arrays, n);
    const auto k = static_cast<size_t>(outputs), entries = static_cast<size_t>(n) * k;
    std::vector<double> threshold(12), start(entries, 0.25), rest(entries);
    std::vector<uint8_t> is_below(12);
    for (double& v : threshold) v = below(random, 4) == 0 ? kNan : std::abs(normal(random)) * 3;
    for (uint8_t& v : is_below) v = below(random, 4) != 0;
    for (double& v : rest) v = normal(random);
    for (const bool watched : {false, true}) {
      State state(forest, n, 12);
      std::vector<int32_t> worked(static_cast<size_t>(n)), left_out(worked), last(worked);
      std::vector<int64_t> updates(12);
      const Filter filter{.threshold = threshold,
                          .below = is_below,
                          .start = start.data(),
                          .rest = rest.data(),
                          .worked = worked.data(),
                          .updates = updates.data(),
                          .left_out = left_out.data(),
                          .last = last.data()};
      CHECK(!run_filtered(forest, state.rows(x), filter, {}, Watch(0.0, nullptr)));
      CHECK(run_filtered(forest, state.rows(x), filter, {}, watched ? kFar : Watch()));
      for (size_t i = 0; i < state.done.size(); ++i) {
        CHECK(state.done[i] == 12);
        std::vector<int64_t> sums(k);
        int32_t stages = 0;
        for (int32_t s = 0; s < 12; ++s) {
          std::vector<double> scores(k);
          for (size_t j = 0; j < k; ++j) {
            const double own = static_cast<double>(sums[j]) * forest.unit();
            scores[j] = start[i * k + j] + (rest[i * k + j] + own);
          }
          std::sort(scores.begin(), scores.end());
          const double margin = outputs == 1 ? std::abs(scores[0]) : scores[k - 1] - scores[k - 2];
          const double theta = threshold[static_cast<size_t>(s)];
          if (!std::isnan(theta) && (margin < theta) != (is_below[static_cast<size_t>(s)] != 0)) continue;
          const auto more = plain(forest, x.data() + i * static_cast<size_t>(forest.n_features()), s, s + 1);
          for (size_t j = 0; j < k; ++j) sums[j] += more[j];
          --updates[static_cast<size_t>(s)];
          ++stages;
        }
        CHECK(std::equal(sums.begin(), sums.end(), state.acc.begin() + static_cast<int64_t>(i * k)));
        CHECK(worked[i] == stages);
      }
      CHECK(updates == std::vector<int64_t>(12));
    }
  }
}

}  // namespace

int main() {
  test_every_form_equals_the_plain_walk();
  test_scans_equal_the_plain_walk();
  test_rows_start_and_end_anywhere_on_any_number_of_threads();
  test_interrupts_leave_prefixes_and_resume();
  test_stop_flag_set_by_another_thread();
  test_select_keeps_bits_and_unit();
  test_doors();
  test_ledger();
  test_metered_run();
  test_planes();
  test_scores();
  test_filtered_run();
  test_class_grow();
  test_grow();
  test_bandit();
  test_linear();
  test_margins();
  test_neighbours();
  test_prune();
  test_scene();
  test_scene_descriptors();
  test_stream();
  std::puts("native tests passed");
}
