// Gaussian blur of a plane of numbers; beyond its edges a plane goes on as it ends.
#pragma once

#include <cstdint>

namespace anytime {

// `out` may be `plane`. The kernel ends at three sigma, or after one pixel where that is more.
void blur(const float* plane, int64_t height, int64_t width, double sigma, float* out);

}  // namespace anytime
