// Runs in which a stage works only on the rows whose margin it is open to.
#pragma once

#include <cstdint>
#include <span>

#include "clock.hpp"
#include "evaluate.hpp"
#include "forest.hpp"
#include "meter.hpp"

namespace anytime {

// A row's scores are start + (rest + sums of this forest); its margin is |score|, or the highest score less
// the second. Scores are added up in this order, so that a margin has the same bits here and for whoever
// reads it.
struct Filter {
  std::span<const double> threshold;  // (n_stages): NaN where all rows pass
  std::span<const uint8_t> below;     // (n_stages): margins below the threshold pass, or those that are not
  const double* start = nullptr;      // (n, n_outputs)
  const double* rest = nullptr;       // (n, n_outputs)
  int32_t* worked = nullptr;          // (n): stages that have worked on a row, counted up
  int64_t* updates = nullptr;         // (n_stages): rows that a stage has worked on, counted up
  int32_t* left_out = nullptr;        // (n): stages left out of a row for want of a group, counted up
  int32_t* last = nullptr;            // (n): stages up to the last one that was not left out
};

// Like run, and with a ledger like run_metered; a stage that leaves a row out counts as done for it, and is
// free. A stage for which a row lacks one of the meter's groups is left out: the row goes on with the next.
bool run_filtered(const Forest& forest, const Rows& rows, const Filter& filter, const Meter& meter,
                  const Watch& watch);

}  // namespace anytime
