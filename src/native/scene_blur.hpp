// Gaussian blur of a plane of numbers; beyond its edges a plane goes on as it ends.
#pragma once

#include <cstdint>

#include "clock.hpp"

namespace anytime {

// `out` may be `plane`. The kernel ends at three sigma, or after one pixel where that is more.
// False: stopped before the end, and `out` is worth nothing.
bool blur(const float* plane, int64_t height, int64_t width, double sigma, Pacer& pacer, float* out);

}  // namespace anytime
