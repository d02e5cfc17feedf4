// Metered runs over many rows: small trees are scanned, and what a row's path reads is known by its leaf.
#pragma once

#include "meter.hpp"

namespace anytime {

// Whether so many rows are left to do that scanning pays.
bool is_worth_scanning(const Forest& forest, int64_t active_rows) noexcept;

// What run_metered does without a watch; `done` and `until` have been checked.
void run_metered_scans(const Forest& forest, const Rows& rows, const Meter& meter);

}  // namespace anytime
