// Runs in which a row pays for what its path tests, and stops when its budget is spent.
#pragma once

#include <cstdint>
#include <span>

#include "clock.hpp"
#include "costs.hpp"
#include "evaluate.hpp"
#include "forest.hpp"

namespace anytime {

struct Meter {
  Ledger* ledger = nullptr;
  std::span<const int64_t> evaluation;  // (n_stages): ticks charged when a row starts the stage
  const int64_t* budget = nullptr;      // (n): ticks a row may have paid in all
};

// True unless the watch cut it short; a row whose budget is spent stays at its last complete stage.
bool run_metered(const Forest& forest, const Rows& rows, const Meter& meter, const Watch& watch);

// First group on the row's path through a stage that is not available, else -1; reads no column of such.
int32_t need(const Forest& forest, const double* x, int32_t stage, std::span<const uint8_t> available,
             const CostTable& table);

}  // namespace anytime
