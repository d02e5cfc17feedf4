#include "scene_blur.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "scene_memory.hpp"
#include "wide.hpp"

namespace anytime {
namespace {

// out[x] = sum over taps of kernel[k] * (row[x - k] + row[x + k]); `row` is padded on both sides.
ANYTIME_WIDE void blur_across(const float* row, int64_t width, const float* kernel, int64_t radius,
                              float* out) {
  for (int64_t x = 0; x < width; ++x) out[x] = kernel[0] * row[x];
  for (int64_t k = 1; k <= radius; ++k) {
    const float weight = kernel[k];
    for (int64_t x = 0; x < width; ++x) out[x] += weight * (row[x - k] + row[x + k]);
  }
}

ANYTIME_WIDE void add_rows(const float* above, const float* below, int64_t width, float weight, float* out) {
  for (int64_t x = 0; x < width; ++x) out[x] += weight * (above[x] + below[x]);
}

}  // namespace

bool blur(const float* plane, int64_t height, int64_t width, double sigma, Pacer& pacer, float* out) {
  const auto radius = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(3.0 * sigma)));
  std::vector<float> kernel(static_cast<size_t>(radius) + 1);
  double sum = 0.0;
  for (int64_t k = 0; k <= radius; ++k) {
    const double t = static_cast<double>(k) / sigma, value = std::exp(-0.5 * t * t);
    kernel[static_cast<size_t>(k)] = static_cast<float>(value);
    sum += k == 0 ? value : 2.0 * value;
  }
  for (float& value : kernel) value = static_cast<float>(value / sum);
  const auto across = unfilled<float>(static_cast<size_t>(height * width));
  std::vector<float> padded(static_cast<size_t>(width + 2 * radius));
  const int64_t work = width * (radius + 1);
  for (int64_t y = 0; y < height; ++y) {
    if (pacer.expired_after(work)) return false;
    const float* row = plane + y * width;
    std::fill_n(padded.begin(), radius, row[0]);
    std::copy_n(row, width, padded.begin() + radius);
    std::fill_n(padded.end() - radius, radius, row[width - 1]);
    blur_across(padded.data() + radius, width, kernel.data(), radius, across.get() + y * width);
  }
  for (int64_t y = 0; y < height; ++y) {
    if (pacer.expired_after(work)) return false;
    float* to = out + y * width;
    const float* row = across.get() + y * width;
    for (int64_t x = 0; x < width; ++x) to[x] = kernel[0] * row[x];
    for (int64_t k = 1; k <= radius; ++k) {
      add_rows(across.get() + std::max<int64_t>(y - k, 0) * width,
               across.get() + std::min<int64_t>(y + k, height - 1) * width, width,
               kernel[static_cast<size_t>(k)], to);
    }
  }
  return true;
}

}  // namespace anytime
