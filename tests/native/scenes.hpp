// Small pictures that tests of scenes share, and how they go on beyond their edges.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "checking.hpp"
#include "clock.hpp"

struct Size {
  int64_t height, width;
};
inline constexpr Size kSizes[] = {{1, 1}, {1, 7}, {9, 1}, {2, 3}, {13, 18}, {40, 37}};
inline const anytime::Watch kNobody{};

inline size_t at(int64_t i) { return static_cast<size_t>(i); }

// Flat patches with noise.
inline std::vector<uint8_t> picture(Size size, Random& random) {
  std::vector<uint8_t> rgb(at(3 * size.height * size.width));
  std::vector<int> patch(at((size.height / 5 + 1) * (size.width / 6 + 1) * 3));
  for (int& value : patch) value = static_cast<int>(random() % 256);
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        const int flat = patch[at((y / 5 * (size.width / 6 + 1) + x / 6) * 3 + c)];
        const int noisy = flat + static_cast<int>(random() % 17) - 8;
        rgb[at((y * size.width + x) * 3 + c)] = static_cast<uint8_t>(std::clamp(noisy, 0, 255));
      }
    }
  }
  return rgb;
}

inline std::vector<float> noise(int64_t n, Random& random) {
  std::vector<float> values(at(n));
  for (float& value : values) value = static_cast<float>(normal(random));
  return values;
}

// The plane as it goes on beyond its edges.
inline double beyond(const float* plane, Size size, int64_t y, int64_t x) {
  y = std::clamp<int64_t>(y, 0, size.height - 1);
  x = std::clamp<int64_t>(x, 0, size.width - 1);
  return static_cast<double>(plane[y * size.width + x]);
}

inline bool close(double a, double b, double tolerance = 1e-4) {
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}
