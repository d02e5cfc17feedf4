// Answers of rows from the start: runs that nothing watches, and what their sums come to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "costs.hpp"
#include "evaluate.hpp"
#include "forest.hpp"

namespace anytime {

// How the sums of a row become scores: added to the base, or divided by its stages.
struct Combination {
  std::span<const double> base;  // (n_outputs)
  bool mean = false;             // then the base is the answer of no stages
};

// What each row may pay, by its own path.
struct Payment {
  std::shared_ptr<const CostTable> table;
  std::span<const int64_t> evaluation;  // (n_stages)
  int64_t budget = 0;
};

// The scores (n, n_outputs) of rows x (n, n_features) after `until` stages, or as many as they can pay for.
void scores_of(const Forest& forest, const double* x, int64_t n, int32_t until, const Payment* payment,
               int threads, const Combination& combination, double* scores);

// The probabilities (n, 2) of two classes with the log odds (n) of the second.
void logistic(std::span<const double> log_odds, double* probabilities) noexcept;

}  // namespace anytime
