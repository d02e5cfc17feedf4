// Blur and descriptors of pictures against obvious loops, at the edges and on pictures of one pixel.
#include <cmath>
#include <cstdint>
#include <vector>

#include "scene_blur.hpp"
#include "scene_descriptors.hpp"
#include "scenes.hpp"

using namespace anytime;

namespace {

double blurred(const float* plane, Size size, double sigma, int64_t y, int64_t x) {
  const auto radius = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(3.0 * sigma)));
  double sum = 0.0, weights = 0.0;
  for (int64_t down = -radius; down <= radius; ++down) {
    for (int64_t across = -radius; across <= radius; ++across) {
      const double square = static_cast<double>(down * down + across * across);
      const double weight = std::exp(-0.5 * square / (sigma * sigma));
      // down first, then across: the edge of the blurred plane is that of the plane
      sum += weight * beyond(plane, size, y + down, x + across);
      weights += weight;
    }
  }
  return sum / weights;
}

std::vector<float> blurred_plane(const std::vector<float>& plane, Size size, double sigma) {
  std::vector<float> out(plane.size());
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      out[at(y * size.width + x)] = static_cast<float>(blurred(plane.data(), size, sigma, y, x));
    }
  }
  return out;
}

void test_blur_is_the_plain_convolution() {
  Random random(5);
  for (const Size size : kSizes) {
    const std::vector<float> plane = noise(size.height * size.width, random);
    for (const double sigma : {0.25, 1.0, 2.5}) {
      std::vector<float> out(plane.size()), in_place = plane, flat(plane.size(), 3.5f);
      Pacer pacer(kNobody);
      CHECK(blur(plane.data(), size.height, size.width, sigma, pacer, out.data()));
      CHECK(blur(in_place.data(), size.height, size.width, sigma, pacer, in_place.data()));
      CHECK(in_place == out);
      for (int64_t y = 0; y < size.height; ++y) {
        for (int64_t x = 0; x < size.width; ++x)
          CHECK(close(static_cast<double>(out[at(y * size.width + x)]),
                      blurred(plane.data(), size, sigma, y, x)));
      }
      CHECK(blur(flat.data(), size.height, size.width, sigma, pacer, flat.data()));
      for (const float value : flat) CHECK(close(static_cast<double>(value), 3.5, 1e-6));
    }
  }
}

void test_lab_of_known_colours() {
  const uint8_t rgb[] = {0, 0, 0, 255, 255, 255, 128, 128, 128, 255, 0, 0, 0, 0, 255};
  // CIELAB of sRGB under D65, divided by 100
  const double expected[5][3] = {
      {0, 0, 0}, {1, 0, 0}, {0.53585, 0, 0}, {0.53241, 0.80092, 0.67203}, {0.32297, 0.79188, -1.07860}};
  float planes[15];
  CHECK(lab(rgb, 5, kNobody, planes));
  for (size_t i = 0; i < 5; ++i) {
    for (size_t c = 0; c < 3; ++c) CHECK(close(static_cast<double>(planes[c * 5 + i]), expected[i][c], 2e-3));
  }
}

void test_thinned_planes_are_means_of_four_pixels() {
  Random random(6);
  for (const Size size : kSizes) {
    const int64_t n = size.height * size.width, rows = grid_length(size.height),
                  columns = grid_length(size.width);
    const std::vector<float> planes = noise(2 * n, random);
    std::vector<float> out(at(2 * rows * columns));
    CHECK(thin(planes.data(), 2, size.height, size.width, kNobody, out.data()));
    for (int64_t p = 0; p < 2; ++p) {
      for (int64_t i = 0; i < rows * columns; ++i) {
        double sum = 0.0;
        for (int64_t k = 0; k < 4; ++k)
          sum += beyond(planes.data() + p * n, size, i / columns * 2 + k / 2, i % columns * 2 + k % 2);
        CHECK(close(static_cast<double>(out[at(p * rows * columns + i)]), sum / 4));
      }
    }
  }
}

void test_textures_are_those_of_blurred_planes() {
  Random random(7);
  for (const Size size : {Size{1, 1}, Size{2, 3}, Size{13, 18}}) {
    const int64_t n = size.height * size.width, rows = grid_length(size.height),
                  columns = grid_length(size.width);
    const std::vector<float> planes = noise(3 * n, random);
    std::vector<float> out(at(kTextures * rows * columns)), two(out.size());
    CHECK(textures(planes.data(), size.height, size.width, kNobody, 1, out.data()));
    CHECK(textures(planes.data(), size.height, size.width, kNobody, 2, two.data()));
    CHECK(out == two);
    // in the order of the header: levels, Laplacians, derivatives
    std::vector<std::vector<double>> expected;
    const auto add = [&](int64_t plane, double sigma, auto&& of) {
      const std::vector<float> own(planes.begin() + plane * n, planes.begin() + (plane + 1) * n);
      const std::vector<float> soft = blurred_plane(own, size, sigma);
      std::vector<double> values;
      for (int64_t y = 0; y < size.height; y += 2) {
        for (int64_t x = 0; x < size.width; x += 2) {
          values.push_back(of(
              [&](int64_t down, int64_t across) { return beyond(soft.data(), size, y + down, x + across); }));
        }
      }
      expected.push_back(values);
    };
    for (const double sigma : {1.0, 2.0, 4.0}) {
      for (int64_t p = 0; p < 3; ++p) add(p, sigma, [](auto&& s) { return s(0, 0); });
    }
    for (const double sigma : {1.0, 2.0, 4.0, 8.0}) {
      add(0, sigma,
          [=](auto&& s) { return sigma * sigma * (s(0, -1) + s(0, 1) + s(-1, 0) + s(1, 0) - 4 * s(0, 0)); });
    }
    for (const double sigma : {2.0, 4.0}) {
      add(0, sigma, [=](auto&& s) { return sigma * 0.5 * (s(0, 1) - s(0, -1)); });
      add(0, sigma, [=](auto&& s) { return sigma * 0.5 * (s(1, 0) - s(-1, 0)); });
    }
    CHECK(expected.size() == at(kTextures));
    for (size_t k = 0; k < expected.size(); ++k) {
      for (size_t i = 0; i < expected[k].size(); ++i)
        CHECK(close(static_cast<double>(out[k * expected[k].size() + i]), expected[k][i], 1e-3));
    }
  }
}

void test_binary_patterns_are_counted_in_windows() {
  Random random(8);
  for (const Size size : kSizes) {
    const int64_t rows = grid_length(size.height), columns = grid_length(size.width);
    std::vector<float> light = noise(size.height * size.width, random);
    for (float& value : light) value = std::round(value * 50.0f) / 50.0f;  // some neighbours are alike
    std::vector<float> out(at(2 * kPatterns * rows * columns));
    CHECK(binary_patterns(light.data(), size.height, size.width, kNobody, out.data()));
    const int64_t down[8] = {0, 1, 1, 1, 0, -1, -1, -1}, across[8] = {1, 1, 0, -1, -1, -1, 0, 1};
    for (int64_t i = 0; i < rows * columns; ++i) {
      for (int64_t distance = 1; distance <= 2; ++distance) {
        double counts[kPatterns] = {}, pixels = 0.0;
        // three grid points on each side: pixels of the points that are there
        const int64_t top = std::max<int64_t>(i / columns - 3, 0) * 2,
                      bottom = std::min(i / columns + 3, rows - 1) * 2 + 1;
        const int64_t left = std::max<int64_t>(i % columns - 3, 0) * 2,
                      right = std::min(i % columns + 3, columns - 1) * 2 + 1;
        for (int64_t y = top; y <= std::min(bottom, size.height - 1); ++y) {
          for (int64_t x = left; x <= std::min(right, size.width - 1); ++x) {
            bool lighter[8];
            int set = 0, changes = 0;
            const float centre = light[at(y * size.width + x)];
            for (size_t k = 0; k < 8; ++k) {
              const auto other = static_cast<float>(
                  beyond(light.data(), size, y + distance * down[k], x + distance * across[k]));
              lighter[k] = other > centre + 0.01f;
              set += lighter[k];
            }
            for (size_t k = 0; k < 8; ++k) changes += lighter[k] != lighter[(k + 1) % 8];
            ++counts[changes <= 2 ? set : kPatterns - 1];
            ++pixels;
          }
        }
        for (int64_t p = 0; p < kPatterns; ++p) {
          const int64_t plane = (distance - 1) * kPatterns + p;
          CHECK(
              close(static_cast<double>(out[at(plane * rows * columns + i)]), std::sqrt(counts[p] / pixels)));
        }
      }
    }
  }
}

void test_edges_are_summed_by_direction_in_cells() {
  Random random(9);
  for (const Size size : kSizes) {
    const int64_t n = size.height * size.width, rows = grid_length(size.height),
                  columns = grid_length(size.width);
    const int64_t tall = rows + 2 * kMargin, wide = columns + 2 * kMargin;
    const std::vector<float> planes = noise(2 * n, random);
    std::vector<float> out(at(2 * kDirections * tall * wide)), two(out.size());
    CHECK(edge_cells(planes.data(), 2, size.height, size.width, kNobody, 1, out.data()));
    CHECK(edge_cells(planes.data(), 2, size.height, size.width, kNobody, 2, two.data()));
    CHECK(out == two);
    for (int64_t p = 0; p < 2; ++p) {
      const float* plane = planes.data() + p * n;
      for (int64_t direction = 0; direction < kDirections; ++direction) {
        const double angle = static_cast<double>(direction) * std::acos(-1.0) / 4;
        std::vector<double> strength(at(rows * columns), 0.0);  // of two by two pixels
        for (int64_t y = 0; y < size.height; ++y) {
          for (int64_t x = 0; x < size.width; ++x) {
            const double gx = 0.5 * (beyond(plane, size, y, x + 1) - beyond(plane, size, y, x - 1));
            const double gy = 0.5 * (beyond(plane, size, y + 1, x) - beyond(plane, size, y - 1, x));
            const double length = std::hypot(gx, gy);
            const double along = gx * std::cos(angle) + gy * std::sin(angle);
            if (along > 0) strength[at(y / 2 * columns + x / 2)] += std::pow(along, 4) / std::pow(length, 3);
          }
        }
        const auto cell = [&](int64_t y, int64_t x) {
          return strength[at(std::clamp<int64_t>(y, 0, rows - 1) * columns +
                             std::clamp<int64_t>(x, 0, columns - 1))];
        };
        for (int64_t i = 0; i < tall * wide; ++i) {
          const int64_t y = i / wide - kMargin, x = i % wide - kMargin;
          const double expected = cell(y, x) + cell(y, x + 1) + cell(y + 1, x) + cell(y + 1, x + 1);
          CHECK(close(static_cast<double>(out[at((p * kDirections + direction) * tall * wide + i)]), expected,
                      1e-3));
        }
      }
    }
  }
}

}  // namespace

void test_scene_descriptors() {
  test_blur_is_the_plain_convolution();
  test_lab_of_known_colours();
  test_thinned_planes_are_means_of_four_pixels();
  test_textures_are_those_of_blurred_planes();
  test_binary_patterns_are_counted_in_windows();
  test_edges_are_summed_by_direction_in_cells();
}
