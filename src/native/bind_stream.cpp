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

// Rules as they came from Python, lengths checked.
struct Asked {
  RoundRules rules;
  EdgeSums edges;
  StreamTruth truth;
};

void check_truth(const StreamBank& bank, const Asked& asked, int64_t n) {
  const auto m = bank.n_outputs();
  const bool classes = asked.rules.loss == StreamLoss::logistic || asked.rules.loss == StreamLoss::hinge ||
                       asked.rules.loss == StreamLoss::softmax;
  if (asked.truth.width != 1 && (classes || asked.truth.width != m)) {
    throw std::invalid_argument("y has " + std::to_string(asked.truth.width) +
                                " columns; it has one, or one per output for numbers");
  }
  if (classes && asked.rules.loss != StreamLoss::softmax && m != 1) {
    throw std::invalid_argument("a loss of two classes is one of one output");
  }
  if (asked.rules.loss != StreamLoss::softmax) return;
  for (int64_t row = 0; row < n; ++row) {
    const double y = asked.truth.y[row];
    if (!(y >= 0.0 && y < static_cast<double>(m))) {
      throw std::invalid_argument("row " + std::to_string(row) + " of y is of no class below " +
                                  std::to_string(m));
    }
  }
}

nb::object rounds(StreamBank& bank, Matrix<const double> x, Matrix<const double> y, Numbers weight,
                  const std::string& loss, double rho, bool residual, const std::string& averaging,
                  Vector<const double> start, Vector<const double> steps, Numbers low, Numbers high,
                  double radius, const std::optional<std::string>& gate, int64_t warm_up, Numbers open,
                  int64_t batch, Matrix<double> sums, Matrix<double> recent, double discount,
                  Vector<const int64_t> seen, bool prefixes, int threads) {
  const auto n = static_cast<size_t>(bank.n_learners()), m = static_cast<size_t>(bank.n_outputs());
  const StreamRows rows = rows_of(bank, x, weight);
  check_length(y.shape(0), x.shape(0), "y");
  check_length(start.size(), m, "start");
  check_length(steps.size(), n, "steps");
  if (low.has_value() != high.has_value()) throw std::invalid_argument("a box has low and high");
  if (low) check_length(low->size(), m, "low");
  if (high) check_length(high->size(), m, "high");
  if (open) check_length(open->size(), n, "open");
  for (const auto& table : {sums, recent}) {
    check_length(table.shape(0), 4, "sums");
    check_length(table.shape(1), n, "a row of sums");
  }
  check_length(seen.size(), n, "rows");
  if (batch < 1) throw std::invalid_argument("a round has at least one row");
  const auto span_or_none = [](const Numbers& numbers) {
    return numbers ? span_of(*numbers) : std::span<const double>();
  };
  Asked asked{
      .rules = {.loss = named(loss, kLosses, "loss"),
                .rho = rho,
                .residual = residual,
                .averaging = named(averaging, kAveragings, "averaging"),
                .start = span_of(start),
                .steps = span_of(steps),
                .low = span_or_none(low),
                .high = span_or_none(high),
                .radius = radius,
                .gate = named(gate.value_or(""), kGates, "gate"),
                .warm_up = warm_up,
                .open = span_or_none(open),
                .batch = std::min(batch, std::max<int64_t>(rows.n, 1))},
      .edges = {.all = sums.data(), .recent = recent.data(), .discount = discount, .rows = span_of(seen)},
      .truth = {.y = y.data(), .width = static_cast<int64_t>(y.shape(1))}};
  check_truth(bank, asked, rows.n);
  double *out, *every = nullptr;
  nb::object answers = new_array<double>({x.shape(0), m}, &out), all;
  if (prefixes) all = new_array<double>({x.shape(0), n + 1, m}, &every);
  {
    const nb::gil_scoped_release unlocked;
    Team team(threads);
    const std::unique_lock<std::shared_mutex> writing(bank.door());
    run_rounds(bank, rows, asked.truth, asked.rules, asked.edges, team, out, every);
  }
  return prefixes ? all : answers;
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
           nb::kw_only(), "loss"_a, "rho"_a, "residual"_a, "averaging"_a, "start"_a.noconvert(),
           "steps"_a.noconvert(), "low"_a.noconvert().none(), "high"_a.noconvert().none(), "radius"_a,
           "gate"_a.none(), "warm_up"_a, "open"_a.noconvert().none(), "batch"_a, "sums"_a.noconvert(),
           "recent"_a.noconvert(), "discount"_a, "rows"_a.noconvert(), "prefixes"_a = false, "threads"_a = 1,
           "Rounds of boosting: what was answered before learning; sums and recent follow.");
}

}  // namespace anytime
