// The Python face of banks on a stream, whatever their learners, and of their rounds.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "arrays.hpp"
#include "stream_round.hpp"
#include "threads.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

template <class T>
using Cube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Numbers = std::optional<Vector<const double>>;

constexpr int64_t kRead = 256;  // rows that are read at a time

template <class T, size_t N>
T named(const std::string& name, const std::pair<const char*, T> (&names)[N], const char* what) {
  for (const auto& [known, value] : names) {
    if (name == known) return value;
  }
  throw std::invalid_argument("there is no " + std::string(what) + " '" + name + "'");
}

constexpr std::pair<const char*, StreamLoss> kLosses[] = {{"squared", StreamLoss::squared},
                                                          {"logistic", StreamLoss::logistic},
                                                          {"hinge", StreamLoss::hinge},
                                                          {"absolute", StreamLoss::absolute},
                                                          {"softmax", StreamLoss::softmax}};
constexpr std::pair<const char*, Averaging> kAveragings[] = {{"last", Averaging::last},
                                                             {"theory", Averaging::theory},
                                                             {"post", Averaging::post},
                                                             {"all", Averaging::all}};
constexpr std::pair<const char*, Gate> kGates[] = {
    {"", Gate::none}, {"skip", Gate::skip}, {"shrink", Gate::shrink}};

StreamRows rows_of(const StreamBank& bank, const Matrix<const double>& x, const Numbers& weight) {
  check_length(x.shape(1), static_cast<size_t>(bank.n_features()), "a row of X");
  if (weight) {
    check_length(weight->size(), x.shape(0), "weight");
    for (const double w : span_of(*weight)) {
      if (!(w >= 0.0) || std::isinf(w)) throw std::invalid_argument("a weight is negative or not a number");
    }
  }
  return {.x = x.data(), .weight = weight ? weight->data() : nullptr, .n = static_cast<int64_t>(x.shape(0))};
}

nb::object predict(const StreamBank& bank, Matrix<const double> x, int threads) {
  const StreamRows rows = rows_of(bank, x, {});
  double* out;
  nb::object answers = new_array<double>(
      {static_cast<size_t>(bank.n_learners()), x.shape(0), static_cast<size_t>(bank.n_outputs())}, &out);
  const nb::gil_scoped_release unlocked;
  Team team(threads);
  const std::shared_lock<std::shared_mutex> reading(bank.door());
  bank.predict(rows, out, team);
  return answers;
}

void update(StreamBank& bank, Matrix<const double> x, Cube<const double> targets, Numbers weight,
            int threads) {
  const StreamRows rows = rows_of(bank, x, weight);
  check_length(targets.shape(0), static_cast<size_t>(bank.n_learners()), "targets");
  check_length(targets.shape(1), x.shape(0), "the targets of a learner");
  check_length(targets.shape(2), static_cast<size_t>(bank.n_outputs()), "the target of a row");
  const nb::gil_scoped_release unlocked;
  Team team(threads);
  const std::unique_lock<std::shared_mutex> writing(bank.door());
  if (rows.n > 0) bank.update(rows, targets.data(), team);
}

void check_truth(const StreamBank& bank, StreamLoss loss, const StreamTruth& truth, int64_t n) {
  const auto m = bank.n_outputs();
  const bool classes =
      loss == StreamLoss::logistic || loss == StreamLoss::hinge || loss == StreamLoss::softmax;
  if (truth.width != 1 && (classes || truth.width != m)) {
    throw std::invalid_argument("y has " + std::to_string(truth.width) +
                                " columns; it has one, or one per output for numbers");
  }
  if (classes && loss != StreamLoss::softmax && m != 1) {
    throw std::invalid_argument("a loss of two classes is one of one output");
  }
  if (loss != StreamLoss::softmax) return;
  for (int64_t row = 0; row < n; ++row) {
    if (!(truth.y[row] >= 0.0 && truth.y[row] < static_cast<double>(m))) {
      throw std::invalid_argument("row " + std::to_string(row) + " of y is of no class below " +
                                  std::to_string(m));
    }
  }
}

// Rules as they come from Python: the arrays they look at, and they themselves, lengths checked.
struct Rules {
  Vector<const double> start, steps;
  Numbers low, high, open;
  RoundRules rules;

  Rules(const StreamBank& bank, const nb::kwargs& given)
      : start(nb::cast<Vector<const double>>(given["start"])),
        steps(nb::cast<Vector<const double>>(given["steps"])),
        low(nb::cast<Numbers>(given["low"])),
        high(nb::cast<Numbers>(given["high"])),
        open(nb::cast<Numbers>(given["open"])) {
    const auto n = static_cast<size_t>(bank.n_learners()), m = static_cast<size_t>(bank.n_outputs());
    check_length(start.size(), m, "start");
    check_length(steps.size(), n, "steps");
    if (low.has_value() != high.has_value()) throw std::invalid_argument("a box has low and high");
    if (low) check_length(low->size(), m, "low");
    if (high) check_length(high->size(), m, "high");
    if (open) check_length(open->size(), n, "open");
    const auto span_or_none = [](const Numbers& numbers) {
      return numbers ? span_of(*numbers) : std::span<const double>();
    };
    const auto gate = nb::cast<std::optional<std::string>>(given["gate"]);
    rules = {.loss = named(nb::cast<std::string>(given["loss"]), kLosses, "loss"),
             .rho = nb::cast<double>(given["rho"]),
             .residual = nb::cast<bool>(given["residual"]),
             .averaging = named(nb::cast<std::string>(given["averaging"]), kAveragings, "averaging"),
             .start = span_of(start),
             .steps = span_of(steps),
             .low = span_or_none(low),
             .high = span_or_none(high),
             .radius = nb::cast<double>(given["radius"]),
             .gate = named(gate.value_or(""), kGates, "gate"),
             .warm_up = nb::cast<int64_t>(given["warm_up"]),
             .open = span_or_none(open),
             .batch = 1};
  }
};

void check_sums(const StreamBank& bank, const Matrix<double>& table) {
  check_length(table.shape(0), 4, "sums");
  check_length(table.shape(1), static_cast<size_t>(bank.n_learners()), "a row of sums");
}

// Answers (n, m), or those of all prefixes (n, N + 1, m), that `fill` finds without the interpreter's lock.
template <class Fill>
nb::object answers(const StreamBank& bank, size_t n, bool prefixes, Fill&& fill) {
  const auto learners = static_cast<size_t>(bank.n_learners()), m = static_cast<size_t>(bank.n_outputs());
  double *out, *every = nullptr;
  nb::object last = new_array<double>({n, m}, &out), all;
  if (prefixes) all = new_array<double>({n, learners + 1, m}, &every);
  {
    const nb::gil_scoped_release unlocked;
    fill(out, every);
  }
  return prefixes ? all : last;
}

nb::object rounds(StreamBank& bank, Matrix<const double> x, Matrix<const double> y, Numbers weight,
                  int64_t batch, Matrix<double> sums, Matrix<double> recent, double discount,
                  Vector<const int64_t> seen, std::optional<Matrix<double>> losses, bool prefixes,
                  int threads, const nb::kwargs& given) {
  const StreamRows rows = rows_of(bank, x, weight);
  Rules asked(bank, given);
  check_length(y.shape(0), x.shape(0), "y");
  check_sums(bank, sums);
  check_sums(bank, recent);
  check_length(seen.size(), static_cast<size_t>(bank.n_learners()), "rows");
  if (batch < 1) throw std::invalid_argument("a round has at least one row");
  const StreamTruth truth{.y = y.data(), .width = static_cast<int64_t>(y.shape(1))};
  check_truth(bank, asked.rules.loss, truth, rows.n);
  asked.rules.batch = std::min(batch, std::max<int64_t>(rows.n, 1));
  PrefixSums paid;
  if (losses) {
    check_length(losses->shape(0), 2, "losses");
    check_length(losses->shape(1), static_cast<size_t>(bank.n_learners() + 1), "a row of losses");
    paid = {.losses = losses->data(), .weights = losses->data() + losses->shape(1)};
  }
  const EdgeSums edges{
      .all = sums.data(), .recent = recent.data(), .discount = discount, .rows = span_of(seen)};
  return answers(bank, x.shape(0), prefixes, [&](double* out, double* every) {
    Team team(threads);
    const std::unique_lock<std::shared_mutex> writing(bank.door());
    run_rounds(bank, rows, truth, asked.rules, edges, paid, team, out, every);
  });
}

nb::object read(StreamBank& bank, Matrix<const double> x, Matrix<double> recent, Vector<const int64_t> seen,
                bool prefixes, int threads, const nb::kwargs& given) {
  const StreamRows rows = rows_of(bank, x, {});
  Rules asked(bank, given);
  check_sums(bank, recent);
  check_length(seen.size(), static_cast<size_t>(bank.n_learners()), "rows");
  asked.rules.batch = std::clamp<int64_t>(rows.n, 1, kRead);
  const EdgeSums edges{.recent = recent.data(), .rows = span_of(seen)};
  return answers(bank, x.shape(0), prefixes, [&](double* out, double* every) {
    Team team(threads);
    const std::shared_lock<std::shared_mutex> reading(bank.door());
    read_rounds(bank, rows, asked.rules, edges, team, out, every);
  });
}

}  // namespace

void bind_stream(nb::module_& m) {
  nb::class_<StreamBank>(m, "StreamBank", "Learners on a stream, side by side.")
      .def_prop_ro("n_learners", &StreamBank::n_learners)
      .def_prop_ro("n_features", &StreamBank::n_features)
      .def_prop_ro("n_outputs", &StreamBank::n_outputs)
      .def("predict", &predict, "X"_a.noconvert(), "threads"_a = 1, "What every learner says of every row.")
      .def("update", &update, "X"_a.noconvert(), "targets"_a.noconvert(),
           "weight"_a.noconvert().none() = nb::none(), "threads"_a = 1,
           "One round: a step of every learner towards its targets.")
      .def("rounds", &rounds, "X"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert().none(),
           nb::kw_only(), "batch"_a, "sums"_a.noconvert(), "recent"_a.noconvert(), "discount"_a,
           "rows"_a.noconvert(), "losses"_a.noconvert().none() = nb::none(), "prefixes"_a = false,
           "threads"_a = 1, "rules"_a,
           "Rounds of boosting: what was answered before learning; sums, recent and losses follow.")
      .def("read", &read, "X"_a.noconvert(), nb::kw_only(), "recent"_a.noconvert(), "rows"_a.noconvert(),
           "prefixes"_a = false, "threads"_a = 1, "rules"_a,
           "What a round would answer; nothing is learned.");
}

}  // namespace anytime
