// Bindings: answers of rows from the start.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <optional>

#include "answers.hpp"
#include "arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace anytime {
namespace {

nb::object forest_scores(const Forest& forest, Matrix<const double> x, int32_t until,
                         Vector<const double> base, bool mean, int threads,
                         std::shared_ptr<const CostTable> table,
                         std::optional<Vector<const int64_t>> evaluation, int64_t budget) {
  check_length(x.shape(1), static_cast<size_t>(forest.n_features()), "a row of X");
  if (table && !evaluation) throw std::invalid_argument("rows that pay need the prices of stages");
  double* out;
  nb::object scores = new_array<double>({x.shape(0), static_cast<size_t>(forest.n_outputs())}, &out);
  Payment payment{.table = std::move(table), .evaluation = {}, .budget = budget};
  if (evaluation) payment.evaluation = span_of(*evaluation);
  const nb::gil_scoped_release unlocked;
  scores_of(forest, x.data(), static_cast<int64_t>(x.shape(0)), until, payment.table ? &payment : nullptr,
            threads, {.base = span_of(base), .mean = mean}, out);
  return scores;
}

}  // namespace

void bind_answers(nb::module_& m) {
  m.def(
      "forest_scores", &forest_scores, "forest"_a, "X"_a.noconvert(), "until"_a, "base"_a.noconvert(),
      "mean"_a, "threads"_a = 1, "table"_a.none() = nb::none(),
      "evaluation"_a.noconvert().none() = nb::none(), "budget"_a = 0,
      "Scores (n, K) of rows after `until` stages: base + sum, or the mean of the stages.\n\n"
      "With a table of prices, of as many stages as each row can pay for out of `budget`, as in run_metered.");
  m.def(
      "logistic",
      [](Matrix<const double> log_odds) {
        check_length(log_odds.shape(1), 1, "a row of log odds");
        double* out;
        nb::object probabilities = new_array<double>({log_odds.shape(0), 2}, &out);
        logistic({log_odds.data(), log_odds.shape(0)}, out);
        return probabilities;
      },
      "log_odds"_a.noconvert(),
      "Probabilities (n, 2) of two classes, from the log odds (n, 1) of the second.");
}

}  // namespace anytime
