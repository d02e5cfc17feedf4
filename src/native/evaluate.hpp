// Runs a forest over rows, stage after stage, until a stage limit, a deadline or a stop flag.
#pragma once

#include <cstdint>
#include <span>

#include "clock.hpp"
#include "forest.hpp"

namespace anytime {

// Row i has been through `done[i]` stages, whose sum is in acc; it is to be taken to `until[i]`.
struct Rows {
  const double* x = nullptr;  // (n, forest.n_features())
  int64_t n = 0;
  int64_t* acc = nullptr;  // (n, forest.n_outputs()), in units
  int32_t* done = nullptr;
  const int32_t* until = nullptr;

  const double* row(const Forest& forest, int64_t i) const noexcept { return x + i * forest.n_features(); }
};

// Throws std::invalid_argument unless 0 <= done, until <= n_stages.
void check_rows(const Forest& forest, const Rows& rows);

// True when every row got to its limit. When cut short, acc holds exactly the first done[i] stages.
bool run(const Forest& forest, const Rows& rows, const Watch& watch, int threads);

// One row from the start, acc (n_outputs) overwritten; returns the stages done.
int32_t run_one(const Forest& forest, const double* x, int32_t until, const Watch& watch, int64_t* acc);

// What each of the stages adds by itself: out is (stages, n, n_outputs).
void stage_outputs(const Forest& forest, const double* x, int64_t n, std::span<const int64_t> stages,
                   double* out);

}  // namespace anytime
