// Runs in which a row pays for what its path tests, and stops when its budget is spent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clock.hpp"
#include "costs.hpp"
#include "evaluate.hpp"
#include "forest.hpp"

namespace anytime {

struct Meter {
  Ledger* ledger = nullptr;             // null: nothing is paid, and the others are not read
  std::span<const int64_t> evaluation;  // (n_stages): ticks charged when a row starts the stage
  const int64_t* budget = nullptr;      // (n): ticks a row may have paid in all
  std::span<const uint8_t> absent;      // (n_groups): groups that no row has; empty: rows have all
};

// Throws std::invalid_argument unless ledger, prices and rows fit the forest.
void check_meter(const Forest& forest, const Rows& rows, const Meter& meter);

enum class Outcome { kDone, kBroke, kLacking, kCut };

// One stage of one row; what it adds is left in `sums` only, so that an abandoned stage leaves no trace but
// the groups it bought: those stay there for its next try, while its evaluation was never completed and is
// not paid. A stage for which a row lacks a group that it could pay for leaves no trace at all.
Outcome walk_stage(const Forest& forest, const Meter& meter, const double* x, int64_t row, int32_t stage,
                   std::vector<int64_t>& sums, Pacer& pacer) noexcept;

// True unless the watch cut it short; a row whose budget is spent stays at its last complete stage.
bool run_metered(const Forest& forest, const Rows& rows, const Meter& meter, const Watch& watch);

// First group on the row's path through a stage that is not available, else -1; reads no column of such. With
// `lost`, the first of those groups that the part of the path seen so far meets: one tree may show it before
// another tree needs anything else.
int32_t need(const Forest& forest, const double* x, int32_t stage, std::span<const uint8_t> available,
             const CostTable& table, std::span<const uint8_t> lost = {});

}  // namespace anytime
