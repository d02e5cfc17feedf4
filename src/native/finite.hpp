// The one look at all numbers of a table before a model reads them.
#pragma once

#include <span>

namespace anytime {

// Whether no number is greater than `largest` or less than -largest, and none is NaN unless `missing`.
bool is_within(std::span<const double> numbers, double largest, bool missing) noexcept;

}  // namespace anytime
