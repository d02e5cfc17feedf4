#include "answers.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "meter.hpp"

namespace anytime {

void scores_of(const Forest& forest, const double* x, int64_t n, int32_t until, const Payment* payment,
               int threads, const Combination& combination, double* scores) {
  const auto outputs = static_cast<size_t>(forest.n_outputs()), n_rows = static_cast<size_t>(n);
  if (combination.base.size() != outputs) throw std::invalid_argument("base does not fit the forest");
  std::vector<int64_t> sums(n_rows * outputs);
  std::vector<int32_t> done(n_rows), limit(n_rows, until);
  const Rows rows{.x = x, .n = n, .acc = sums.data(), .done = done.data(), .until = limit.data()};
  if (payment != nullptr) {
    Ledger ledger(payment->table, n);
    const std::vector<int64_t> budget(n_rows, payment->budget);
    const Meter meter{
        .ledger = &ledger, .evaluation = payment->evaluation, .budget = budget.data(), .absent = {}};
    run_metered(forest, rows, meter, Watch());
  } else {
    run(forest, rows, Watch(), threads);
  }
  const double unit = forest.unit();
  const double* base = combination.base.data();
  for (size_t i = 0; i < n_rows; ++i) {
    for (size_t k = 0; k < outputs; ++k) {
      const double total = static_cast<double>(sums[i * outputs + k]) * unit;
      double& score = scores[i * outputs + k];
      if (combination.mean) {
        score = done[i] > 0 ? total / done[i] : base[k];
      } else {
        score = base[k] + total;
      }
    }
  }
}

void logistic(std::span<const double> log_odds, double* probabilities) noexcept {
  for (size_t i = 0; i < log_odds.size(); ++i) {
    const double second = 1.0 / (1.0 + std::exp(-log_odds[i]));
    probabilities[2 * i] = 1.0 - second;
    probabilities[2 * i + 1] = second;
  }
}

}  // namespace anytime
