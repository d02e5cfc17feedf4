#include "scene_descriptors.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <vector>

#include "scene_blur.hpp"
#include "threads.hpp"
#include "wide.hpp"

namespace anytime {
namespace {

constexpr float kLighter = 0.01f;
constexpr int64_t kWindow = 3;  // grid points on each side of a window of binary patterns
constexpr float kNothing = 1e-12f;

size_t at(int64_t i) noexcept { return static_cast<size_t>(i); }

// Edges of one row in the directions at angle and angle + 180 degrees: |gradient| cos^4 of the angle between.
ANYTIME_WIDE void edges_of_row(const float* above, const float* row, const float* below, int64_t width,
                               float cosine, float sine, float* ahead, float* behind) {
  for (int64_t x = 0; x < width; ++x) {
    const float across = 0.5f * (row[x + 1] - row[x - 1]), down = 0.5f * (below[x] - above[x]);
    const float square = across * across + down * down;
    const float along = across * cosine + down * sine;
    const float power = along * along * along * along / (square * std::sqrt(square) + kNothing);
    ahead[x] = along > 0.0f ? power : 0.0f;
    behind[x] = along < 0.0f ? power : 0.0f;
  }
}

// Sums of pairs along a row, of two rows: one number per grid point.
void add_pairs(const float* row, int64_t width, float* out) noexcept {
  for (int64_t x = 0; x < width; ++x) out[x / kGridStep] += row[x];
}

// The sums over four by four pixels, from sums over two by two, on the grid with its margin.
bool cells_of_pairs(const float* pairs, int64_t height, int64_t width, Pacer& pacer, float* out) noexcept {
  const int64_t padded = width + 2 * kMargin;
  for (int64_t y = -kMargin; y < height + kMargin; ++y) {
    if (pacer.expired_after(padded)) return false;
    const float* top = pairs + std::clamp<int64_t>(y, 0, height - 1) * width;
    const float* bottom = pairs + std::clamp<int64_t>(y + 1, 0, height - 1) * width;
    float* to = out + (y + kMargin) * padded;
    for (int64_t x = -kMargin; x < width + kMargin; ++x) {
      const int64_t left = std::clamp<int64_t>(x, 0, width - 1),
                    right = std::clamp<int64_t>(x + 1, 0, width - 1);
      to[x + kMargin] = (top[left] + top[right]) + (bottom[left] + bottom[right]);
    }
  }
  return true;
}

// Bin of each pattern of eight neighbours: how many are lighter, or kPatterns - 1 where they are in several
// runs.
std::array<uint8_t, 256> uniform_patterns() noexcept {
  std::array<uint8_t, 256> bin{};
  for (unsigned pattern = 0; pattern < 256; ++pattern) {
    const auto bits = static_cast<uint8_t>(pattern);
    const int changes = std::popcount(static_cast<uint8_t>(bits ^ std::rotl(bits, 1)));
    bin[pattern] = static_cast<uint8_t>(changes <= 2 ? std::popcount(bits) : kPatterns - 1);
  }
  return bin;
}

// Sums over windows of 2 kWindow + 1 points each way, ending at the edges; in place.
bool window_sums(float* plane, int64_t height, int64_t width, std::vector<float>& room, Pacer& pacer) {
  constexpr int64_t kLength = 2 * kWindow + 1;
  room.assign(at(height * width), 0.0f);
  for (int64_t y = 0; y < height; ++y) {
    if (pacer.expired_after(kLength * width)) return false;
    for (int64_t k = std::max<int64_t>(y - kWindow, 0); k <= std::min(y + kWindow, height - 1); ++k) {
      for (int64_t x = 0; x < width; ++x) room[at(y * width + x)] += plane[k * width + x];
    }
  }
  for (int64_t y = 0; y < height; ++y) {
    if (pacer.expired_after(kLength * width)) return false;
    const float* row = room.data() + y * width;
    float* to = plane + y * width;
    std::fill_n(to, width, 0.0f);
    for (int64_t shift = -kWindow; shift <= kWindow; ++shift) {
      const int64_t last = std::min(width, width - shift);
      for (int64_t x = std::max<int64_t>(0, -shift); x < last; ++x) to[x] += row[x + shift];
    }
  }
  return true;
}

}  // namespace

bool lab(const uint8_t* rgb, int64_t n_pixels, const Watch& watch, float* planes) {
  static const std::array<float, 256> linear = [] {
    std::array<float, 256> table{};
    for (size_t i = 0; i < 256; ++i) {
      const double v = static_cast<double>(i) / 255.0;
      table[i] = static_cast<float>(v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4));
    }
    return table;
  }();
  // cube roots are read off a line between two neighbours in a table; the error is below 1e-5
  constexpr int kSteps = 4096;
  static const std::array<float, kSteps + 2> roots = [] {
    std::array<float, kSteps + 2> table{};
    for (size_t i = 0; i < table.size(); ++i) {
      const double t = static_cast<double>(i) / kSteps;
      table[i] = static_cast<float>(t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116.0);
    }
    return table;
  }();
  const auto root = [](float t) noexcept {
    const float place = std::min(t, 1.0f) * static_cast<float>(kSteps);
    const auto i = static_cast<size_t>(place);
    return roots[i] + (place - static_cast<float>(i)) * (roots[i + 1] - roots[i]);
  };
  constexpr int64_t kTogether = 4096;
  Pacer pacer(watch);
  for (int64_t first = 0; first < n_pixels; first += kTogether) {
    if (pacer.expired_after(kTogether)) return false;
    for (int64_t i = first; i < std::min(first + kTogether, n_pixels); ++i) {
      const float r = linear[rgb[3 * i]], g = linear[rgb[3 * i + 1]], b = linear[rgb[3 * i + 2]];
      const float x = root((0.412453f * r + 0.357580f * g + 0.180423f * b) / 0.950456f);
      const float y = root(0.212671f * r + 0.715160f * g + 0.072169f * b);
      const float z = root((0.019334f * r + 0.119193f * g + 0.950227f * b) / 1.088754f);
      planes[i] = 1.16f * y - 0.16f;
      planes[n_pixels + i] = 5.0f * (x - y);
      planes[2 * n_pixels + i] = 2.0f * (y - z);
    }
  }
  return true;
}

bool thin(const float* planes, int64_t n_planes, int64_t height, int64_t width, const Watch& watch,
          float* out) {
  Pacer pacer(watch);
  const int64_t rows = grid_length(height), columns = grid_length(width);
  for (int64_t p = 0; p < n_planes; ++p) {
    const float* plane = planes + p * height * width;
    for (int64_t y = 0; y < rows; ++y) {
      if (pacer.expired_after(columns)) return false;
      const float* top = plane + 2 * y * width;
      const float* bottom = plane + std::min(2 * y + 1, height - 1) * width;
      for (int64_t x = 0; x < columns; ++x) {
        const int64_t left = 2 * x, right = std::min(2 * x + 1, width - 1);
        *out++ = 0.25f * ((top[left] + top[right]) + (bottom[left] + bottom[right]));
      }
    }
  }
  return true;
}

bool textures(const float* planes, int64_t height, int64_t width, const Watch& watch, int threads,
              float* out) {
  const int64_t n = height * width, rows = grid_length(height), columns = grid_length(width),
                size = rows * columns;
  // (plane, sigma, where the blurred plane goes, where its Laplacian, where its derivatives); -1: nowhere
  struct Blur {
    int64_t plane, sigma, level, laplacian, derivatives;
  };
  constexpr Blur kBlurs[] = {{0, 8, -1, 12, -1}, {0, 4, 6, 11, 15}, {1, 4, 7, -1, -1}, {2, 4, 8, -1, -1},
                             {0, 2, 3, 10, 13},  {1, 2, 4, -1, -1}, {2, 2, 5, -1, -1}, {0, 1, 0, 9, -1},
                             {1, 1, 1, -1, -1},  {2, 1, 2, -1, -1}};
  constexpr int64_t kCount = sizeof kBlurs / sizeof kBlurs[0];
  std::atomic<bool> stopped{false};
  Team team(threads);
  std::vector<std::vector<float>> room(team.size(), std::vector<float>(at(n)));
  team.each(kCount, true, [&](int64_t task, size_t part) noexcept {
    const Blur& to = kBlurs[task];
    float* blurred = room[part].data();
    const auto sigma = static_cast<float>(to.sigma);
    Pacer pacer(watch);
    if (stopped.load(std::memory_order_relaxed) ||
        !blur(planes + to.plane * n, height, width, static_cast<double>(to.sigma), pacer, blurred)) {
      stopped.store(true, std::memory_order_relaxed);
      return;
    }
    for (int64_t y = 0; y < rows; ++y) {
      const float* row = blurred + 2 * y * width;
      const float* above = blurred + std::max<int64_t>(2 * y - 1, 0) * width;
      const float* below = blurred + std::min(2 * y + 1, height - 1) * width;
      for (int64_t i = 0; i < columns; ++i) {
        const int64_t x = 2 * i, left = std::max<int64_t>(x - 1, 0), right = std::min(x + 1, width - 1);
        float* point = out + y * columns + i;
        if (to.level >= 0) point[to.level * size] = row[x];
        if (to.laplacian >= 0) {
          point[to.laplacian * size] =
              sigma * sigma * ((row[left] + row[right]) + (above[x] + below[x]) - 4.0f * row[x]);
        }
        if (to.derivatives >= 0) {
          point[to.derivatives * size] = sigma * 0.5f * (row[right] - row[left]);
          point[(to.derivatives + 1) * size] = sigma * 0.5f * (below[x] - above[x]);
        }
      }
    }
  });
  return !stopped.load(std::memory_order_relaxed);
}

bool binary_patterns(const float* lightness, int64_t height, int64_t width, const Watch& watch, float* out) {
  Pacer pacer(watch);
  static const std::array<uint8_t, 256> bin = uniform_patterns();
  constexpr int64_t kDown[8] = {0, 1, 1, 1, 0, -1, -1, -1}, kAcross[8] = {1, 1, 0, -1, -1, -1, 0, 1};
  const int64_t rows = grid_length(height), columns = grid_length(width), size = rows * columns;
  std::fill_n(out, 2 * kPatterns * size, 0.0f);
  std::vector<float> pixels(at(size), 0.0f), room;
  std::vector<uint8_t> pattern(at(width));
  for (int64_t distance = 1; distance <= 2; ++distance) {
    float* planes = out + (distance - 1) * kPatterns * size;
    for (int64_t y = 0; y < height; ++y) {
      if (pacer.expired_after(8 * width)) return false;
      const float* centre = lightness + y * width;
      std::fill(pattern.begin(), pattern.end(), uint8_t{0});
      for (int k = 0; k < 8; ++k) {
        const float* row = lightness + std::clamp<int64_t>(y + distance * kDown[k], 0, height - 1) * width;
        const int64_t shift = distance * kAcross[k];
        const auto look = [&](int64_t x, int64_t neighbour) noexcept {
          pattern[at(x)] |= static_cast<uint8_t>((row[neighbour] > centre[x] + kLighter) << k);
        };
        const int64_t first = std::clamp<int64_t>(-shift, 0, width),
                      last = std::clamp<int64_t>(width - shift, first, width);
        for (int64_t x = 0; x < first; ++x) look(x, 0);
        for (int64_t x = first; x < last; ++x) look(x, x + shift);
        for (int64_t x = last; x < width; ++x) look(x, width - 1);
      }
      float* line = planes + y / kGridStep * columns;
      for (int64_t x = 0; x < width; ++x) line[bin[pattern[at(x)]] * size + x / kGridStep] += 1.0f;
    }
  }
  for (int64_t p = 0; p < 2 * kPatterns; ++p) {
    if (!window_sums(out + p * size, rows, columns, room, pacer)) return false;
  }
  for (int64_t p = 0; p < kPatterns; ++p) {
    if (pacer.expired_after(size)) return false;
    for (int64_t i = 0; i < size; ++i) pixels[at(i)] += out[p * size + i];
  }
  for (int64_t p = 0; p < 2 * kPatterns; ++p) {
    if (pacer.expired_after(size)) return false;
    for (int64_t i = 0; i < size; ++i) out[p * size + i] = std::sqrt(out[p * size + i] / pixels[at(i)]);
  }
  return true;
}

bool edge_cells(const float* planes, int64_t n_planes, int64_t height, int64_t width, const Watch& watch,
                int threads, float* out) {
  constexpr float kTurn = 0.70710678f;
  constexpr float kCosine[4] = {1.0f, kTurn, 0.0f, -kTurn}, kSine[4] = {0.0f, kTurn, 1.0f, kTurn};
  const int64_t rows = grid_length(height), columns = grid_length(width), size = rows * columns;
  const int64_t padded = (rows + 2 * kMargin) * (columns + 2 * kMargin);
  std::atomic<bool> stopped{false};
  Team team(threads);
  struct Room {
    std::vector<float> line, ahead, behind, pairs;
  };
  std::vector<Room> rooms(team.size());
  for (Room& room : rooms) {
    room.line.resize(at(3 * (width + 2)));
    room.ahead.resize(at(width));
    room.behind.resize(at(width));
    room.pairs.resize(at(2 * size));
  }
  team.each(n_planes * 4, true, [&](int64_t task, size_t part) noexcept {
    if (stopped.load(std::memory_order_relaxed)) return;
    Pacer pacer(watch);
    Room& room = rooms[part];
    const float* plane = planes + task / 4 * height * width;
    const auto turn = at(task % 4);
    std::fill(room.pairs.begin(), room.pairs.end(), 0.0f);
    float* lines[3];
    for (int64_t k = 0; k < 3; ++k) lines[k] = room.line.data() + k * (width + 2) + 1;
    for (int64_t y = 0; y < height && !pacer.expired_after(8 * width); ++y) {
      for (int64_t k = 0; k < 3; ++k) {
        const float* row = plane + std::clamp<int64_t>(y + k - 1, 0, height - 1) * width;
        std::copy_n(row, width, lines[k]);
        lines[k][-1] = row[0];
        lines[k][width] = row[width - 1];
      }
      edges_of_row(lines[0], lines[1], lines[2], width, kCosine[turn], kSine[turn], room.ahead.data(),
                   room.behind.data());
      add_pairs(room.ahead.data(), width, room.pairs.data() + y / kGridStep * columns);
      add_pairs(room.behind.data(), width, room.pairs.data() + size + y / kGridStep * columns);
    }
    for (int64_t side = 0; side < 2; ++side) {
      const int64_t direction = task % 4 + 4 * side;
      if (pacer.expired() || !cells_of_pairs(room.pairs.data() + side * size, rows, columns, pacer,
                                             out + (task / 4 * kDirections + direction) * padded)) {
        stopped.store(true, std::memory_order_relaxed);
      }
    }
  });
  return !stopped.load(std::memory_order_relaxed);
}

bool inverse_lengths(const float* planes, std::span<const int64_t> shifts, int64_t padded, int64_t height,
                     int64_t width, float floor, const Watch& watch, float* out) {
  Pacer pacer(watch);
  for (int64_t y = 0; y < height; ++y) {
    if (pacer.expired_after(width * static_cast<int64_t>(shifts.size()))) return false;
    float* to = out + y * width;
    std::fill_n(to, width, 0.0f);
    for (const int64_t shift : shifts) {
      const float* from = planes + y * padded + shift;
      for (int64_t x = 0; x < width; ++x) to[x] += from[x] * from[x];
    }
    for (int64_t x = 0; x < width; ++x) to[x] = 1.0f / (std::sqrt(to[x]) + floor);
  }
  return true;
}

}  // namespace anytime
