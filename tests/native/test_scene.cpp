// Pictures: nested regions and soft codes against obvious loops, and that all work on pictures can be
// stopped.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "region_means.hpp"
#include "scene_blur.hpp"
#include "scene_codes.hpp"
#include "scene_descriptors.hpp"
#include "scene_segments.hpp"
#include "scenes.hpp"

using namespace anytime;

namespace {

// ---------------------------------------------------------------------- regions

const std::vector<double> kScales{40.0, 150.0, 500.0, 4000.0};
const std::vector<int64_t> kLeast{3, 6, 12, 30};

Segments segments_of(const std::vector<uint8_t>& rgb, Size size, double sigma = 0.25) {
  auto found = segment(rgb.data(), size.height, size.width, sigma, kScales, kLeast, kNobody);
  CHECK(found.has_value());
  return *found;
}

void test_regions_are_nested_and_large_enough() {
  Random random(1);
  for (const Size size : kSizes) {
    const int64_t n = size.height * size.width;
    const Segments found = segments_of(picture(size, random), size);
    CHECK(static_cast<int64_t>(found.atom.size()) == n);
    CHECK(found.region.size() == kScales.size() * at(found.n_atoms));
    std::vector<int64_t> pixels(at(found.n_atoms), 0);
    int32_t next = 0;
    for (const int32_t a : found.atom) {  // numbered by their first pixels
      CHECK(0 <= a && a <= next);
      if (a == next) ++next;
      ++pixels[at(a)];
    }
    CHECK(next == found.n_atoms);
    for (size_t level = 0; level < kScales.size(); ++level) {
      const int32_t* region = found.region.data() + level * at(found.n_atoms);
      std::vector<int64_t> size_of(at(found.count[level]), 0);
      std::map<int32_t, int32_t> parent;
      for (int32_t a = 0; a < found.n_atoms; ++a) {
        CHECK(level > 0 || region[a] == a);
        size_of[at(region[a])] += pixels[at(a)];
        if (level == 0) continue;
        const int32_t child = found.region[(level - 1) * at(found.n_atoms) + at(a)];
        CHECK(parent.emplace(child, region[a]).first->second == region[a]);
      }
      for (const int64_t s : size_of) CHECK(s >= std::min(kLeast[level], n));
      CHECK(std::accumulate(size_of.begin(), size_of.end(), int64_t{0}) == n);
      CHECK(level == 0 || found.count[level] <= found.count[level - 1]);
    }
  }
}

void test_atoms_are_in_one_piece() {
  Random random(2);
  const Size size{40, 37};
  const Segments found = segments_of(picture(size, random), size);
  std::vector<int> seen(found.atom.size(), 0);
  int32_t pieces = 0;
  for (size_t first = 0; first < seen.size(); ++first) {
    if (seen[first] != 0) continue;
    ++pieces;
    std::vector<size_t> open{first};
    seen[first] = 1;
    while (!open.empty()) {
      const auto i = static_cast<int64_t>(open.back());
      open.pop_back();
      for (int64_t y = i / size.width - 1; y <= i / size.width + 1; ++y) {
        for (int64_t x = i % size.width - 1; x <= i % size.width + 1; ++x) {
          if (y < 0 || x < 0 || y >= size.height || x >= size.width) continue;
          const size_t j = at(y * size.width + x);
          if (seen[j] != 0 || found.atom[j] != found.atom[at(i)]) continue;
          seen[j] = 1;
          open.push_back(j);
        }
      }
    }
  }
  CHECK(pieces == found.n_atoms);
}

void test_one_colour_is_one_region_and_two_are_two() {
  const Size size{12, 20};
  std::vector<uint8_t> rgb(at(3 * size.height * size.width), 70);
  CHECK(segments_of(rgb, size).n_atoms == 1);
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 8; x < size.width; ++x) rgb[at(3 * (y * size.width + x))] = 250;
  }
  const Segments found = segments_of(rgb, size, 0.0);
  CHECK(found.n_atoms == 2);
  for (int64_t i = 0; i < size.height * size.width; ++i)
    CHECK(found.atom[at(i)] == (i % size.width >= 8 ? 1 : 0));
}

void test_moments_borders_and_points_of_atoms() {
  Random random(3);
  for (const Size size : kSizes) {
    const std::vector<int32_t> atom = segments_of(picture(size, random), size).atom;
    const int32_t n_atoms = *std::max_element(atom.begin(), atom.end()) + 1;
    std::vector<double> sums(at(n_atoms * kMoments));
    CHECK(moments(atom, size.width, kNobody, sums));
    std::map<std::pair<int32_t, int32_t>, int64_t> beside, in_cells;
    std::vector<std::vector<int32_t>> points(at(n_atoms));
    const auto touch = [&](size_t i, size_t j) {
      if (atom[i] != atom[j]) ++beside[std::minmax(atom[i], atom[j])];
    };
    for (int64_t y = 0; y < size.height; ++y) {
      for (int64_t x = 0; x < size.width; ++x) {
        const size_t i = at(y * size.width + x);
        if (x + 1 < size.width) touch(i, i + 1);
        if (y + 1 < size.height) touch(i, i + at(size.width));
        if (y % 2 != 0 || x % 2 != 0) continue;
        points[at(atom[i])].push_back(static_cast<int32_t>(y / 2 * grid_length(size.width) + x / 2));
        const auto cell = static_cast<int32_t>(y * 3 / size.height * 4 + x * 4 / size.width);
        ++in_cells[{cell, atom[i]}];
      }
    }
    for (int32_t a = 0; a < n_atoms; ++a) {
      double expected[kMoments] = {0, 0, 0, 0, 0, 0, 1e9, -1, 1e9, -1};
      int64_t first = -1;
      for (int64_t i = 0; i < size.height * size.width; ++i) {
        if (atom[at(i)] != a) continue;
        if (first < 0) first = i;
        const auto x = static_cast<double>(i % size.width), y = static_cast<double>(i / size.width);
        const double terms[] = {1, x, y, x * x, y * y, x * y};
        for (size_t k = 0; k < 6; ++k) expected[k] += terms[k];
        expected[6] = std::min(expected[6], x);
        expected[7] = std::max(expected[7], x);
        expected[8] = std::min(expected[8], y);
        expected[9] = std::max(expected[9], y);
      }
      CHECK(std::equal(expected, expected + kMoments, sums.begin() + a * kMoments));
      if (points[at(a)].empty()) {
        points[at(a)].push_back(
            static_cast<int32_t>(first / size.width / 2 * grid_length(size.width) + first % size.width / 2));
      }
    }
    const auto found = borders(atom, n_atoms, size.width, kNobody);
    CHECK(found && found->first.size() == beside.size());
    size_t i = 0;
    for (const auto& [pair, length] : beside) {  // a map is in order, and so are they
      CHECK(found->first[i] == pair.first && found->second[i] == pair.second && found->length[i] == length);
      ++i;
    }
    const auto cells = atoms_of_cells(atom, size.width, 3, 4, kNobody);
    CHECK(cells && cells->first.size() == in_cells.size());
    i = 0;
    for (const auto& [pair, pixels] : in_cells) {
      CHECK(cells->first[i] == pair.first && cells->second[i] == pair.second && cells->length[i] == pixels);
      ++i;
    }
    const auto lists = points_of_atoms(atom, n_atoms, size.width, kNobody);
    CHECK(lists && lists->start.size() == at(n_atoms + 1));
    for (size_t a = 0; a < at(n_atoms); ++a) {
      const std::vector<int32_t> own(lists->point.begin() + lists->start[a],
                                     lists->point.begin() + lists->start[a + 1]);
      CHECK(own == points[a]);
    }
  }
}

// A mean of a region is the mean of its children's means, weighted by their pixels: sums serve all levels.
void test_means_of_regions_are_weighted_means_of_their_children() {
  Random random(4);
  const Size size{40, 37};
  const Segments found = segments_of(picture(size, random), size);
  const auto n = at(found.n_atoms);
  std::vector<double> pixels(n, 0.0), values(n * 2);
  for (const int32_t a : found.atom) ++pixels[at(a)];
  for (double& value : values) value = normal(random);
  const auto means_at = [&](size_t level, const std::vector<uint8_t>& wanted, double before) {
    const int32_t* region = found.region.data() + level * n;
    std::vector<double> total(at(found.count[level]), 0.0);
    for (size_t a = 0; a < n; ++a) total[at(region[a])] += pixels[a];
    std::vector<int64_t> start{0}, element;
    std::vector<double> share;
    for (int32_t r = 0; r < found.count[level]; ++r) {
      for (size_t a = 0; a < n; ++a) {
        if (region[a] != r) continue;
        element.push_back(static_cast<int64_t>(a));
        share.push_back(pixels[a] / total[at(r)]);
      }
      start.push_back(static_cast<int64_t>(element.size()));
    }
    std::vector<double> means(total.size() * 2, before);
    region_means({start, element, share}, values.data(), 2, wanted.empty() ? nullptr : wanted.data(),
                 means.data());
    return std::pair(means, total);
  };
  for (size_t level = 1; level < kScales.size(); ++level) {
    const auto [children, child_pixels] = means_at(level - 1, {}, 0.0);
    const auto [means, total] = means_at(level, {}, 0.0);
    std::vector<double> sums(means.size(), 0.0);
    for (int32_t child = 0; child < found.count[level - 1]; ++child) {
      size_t a = 0;
      while (found.region[(level - 1) * n + a] != child) ++a;
      const size_t parent = at(found.region[level * n + a]);
      for (size_t k = 0; k < 2; ++k)
        sums[parent * 2 + k] += child_pixels[at(child)] * children[at(child) * 2 + k];
    }
    for (size_t r = 0; r < total.size(); ++r) {
      for (size_t k = 0; k < 2; ++k) CHECK(close(means[r * 2 + k], sums[r * 2 + k] / total[r], 1e-12));
    }
    std::vector<uint8_t> wanted(total.size(), 0);
    wanted[total.size() / 2] = 1;
    const auto [some, ignored] = means_at(level, wanted, -7.0);
    for (size_t i = 0; i < some.size(); ++i) CHECK(some[i] == (wanted[i / 2] != 0 ? means[i] : -7.0));
  }
}

// ---------------------------------------------------------------------- soft codes

// P22: sum_i z_i(v) = 0, both forms agree, and each code is one inner product.
void test_soft_codes_are_one_inner_product_each() {
  Random random(10);
  constexpr int64_t kCentres = 7, kNumbers = 5, kAtoms = 4;
  for (const Size size : {Size{1, 1}, Size{3, 5}, Size{9, 33}, Size{20, 77}}) {
    const int64_t n = size.height * size.width;
    const std::vector<float> planes = noise(kNumbers * n, random), scale = noise(n, random);
    std::vector<int64_t> shifts;
    for (int64_t k = 0; k < kNumbers; ++k) shifts.push_back(k * n);
    std::vector<double> centres(at(kCentres * kNumbers)), mean(at(kNumbers), 0.0), square(at(kCentres), 0.0);
    for (double& value : centres) value = normal(random);
    double mean_square = 0.0;
    for (size_t i = 0; i < centres.size(); ++i) {
      mean[i % kNumbers] += centres[i] / kCentres;
      square[i / kNumbers] += centres[i] * centres[i];
      mean_square += centres[i] * centres[i] / kCentres;
    }
    std::vector<float> weights(centres.size()), bias(at(kCentres));
    for (size_t i = 0; i < centres.size(); ++i)
      weights[i] = static_cast<float>(2.0 * (centres[i] - mean[i % kNumbers]));
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(mean_square - square[i]);
    std::vector<double> codes(at(n * kCentres));  // from distances
    for (int64_t p = 0; p < n; ++p) {
      double distance[kCentres] = {}, all = 0.0, sum = 0.0, linear_sum = 0.0;
      for (size_t i = 0; i < centres.size(); ++i) {
        const double v = static_cast<double>(planes[at(p) + i % kNumbers * at(n)] * scale[at(p)]);
        distance[i / kNumbers] += (v - centres[i]) * (v - centres[i]);
      }
      for (const double d : distance) all += d / kCentres;
      for (int64_t c = 0; c < kCentres; ++c) {
        double linear = static_cast<double>(bias[at(c)]);
        for (size_t k = 0; k < kNumbers; ++k) {
          linear +=
              static_cast<double>(weights[at(c) * kNumbers + k] * planes[at(p) + k * at(n)] * scale[at(p)]);
        }
        const double z = all - distance[c];
        CHECK(close(linear, z, 1e-3));
        sum += z;
        linear_sum += linear;
        codes[at(p * kCentres + c)] = std::max(0.0, z);
      }
      CHECK(std::abs(sum) < 1e-9 && std::abs(linear_sum) < 1e-3);
    }
    std::vector<int64_t> start{0};
    std::vector<int32_t> points;
    std::vector<std::vector<double>> expected(at(kCentres), std::vector<double>(at(kAtoms), 0.0));
    for (int64_t a = 0; a < kAtoms; ++a) {  // of a single point, three atoms have none
      const int64_t first = n * a / kAtoms, last = n * (a + 1) / kAtoms;
      for (int64_t p = first; p < last; ++p) {
        points.push_back(static_cast<int32_t>(p));
        for (int64_t c = 0; c < kCentres; ++c)
          expected[at(c)][at(a)] += codes[at(p * kCentres + c)] / static_cast<double>(last - first);
      }
      start.push_back(last);
    }
    const DescriptorGrid grid{planes, shifts, scale.data(), size.width, size.height, size.width};
    std::vector<float> means(at(kCentres * kAtoms)), alone(at(kAtoms)), some(means.size());
    CHECK(code_means(grid, weights.data(), bias.data(), kCentres, {start, points}, kNobody, 2, means.data()));
    for (size_t i = 0; i < means.size(); ++i)
      CHECK(close(static_cast<double>(means[i]), expected[i / kAtoms][i % kAtoms], 1e-3));
    const uint8_t wanted[kAtoms] = {0, 1, 0, 1};
    CHECK(code_means(grid, weights.data(), bias.data(), kCentres, {start, points, wanted}, kNobody, 1,
                     some.data()));
    for (size_t i = 0; i < means.size(); ++i) CHECK(some[i] == (wanted[i % kAtoms] != 0 ? means[i] : 0.0f));
    for (int64_t c = 0; c < kCentres; ++c) {
      CHECK(code_means(grid, weights.data() + c * kNumbers, bias.data() + c, 1, {start, points}, kNobody, 1,
                       alone.data()));
      CHECK(std::equal(alone.begin(), alone.end(), means.begin() + c * kAtoms));
    }
    if (n >= kAtoms) {
      std::vector<double> averages(at(kAtoms * 2 * kNumbers));
      CHECK(point_means(planes.data(), kNumbers, n, {start, points}, kNobody, averages.data()));
      for (int64_t a = 0; a < kAtoms; ++a) {
        for (int64_t k = 0; k < 2 * kNumbers; ++k) {
          double sum = 0.0;
          for (int64_t p = start[at(a)]; p < start[at(a) + 1]; ++p) {
            const auto value = static_cast<double>(planes[at(k % kNumbers * n + p)]);
            sum += k < kNumbers ? value : value * value;
          }
          CHECK(close(averages[at(a * 2 * kNumbers + k)],
                      sum / static_cast<double>(start[at(a) + 1] - start[at(a)]), 1e-9));
        }
      }
    }
    std::vector<float> rows(at(n * kNumbers));
    descriptors_at(grid, points, rows.data());
    for (size_t i = 0; i < rows.size(); ++i)
      CHECK(rows[i] == planes[i / kNumbers + i % kNumbers * at(n)] * scale[i / kNumbers]);
    std::vector<float> lengths(at(n));
    CHECK(inverse_lengths(planes.data(), shifts, size.width, size.height, size.width, 0.5f, kNobody,
                          lengths.data()));
    for (int64_t p = 0; p < n; ++p) {
      double sum = 0.0;
      for (int64_t k = 0; k < kNumbers; ++k) sum += std::pow(static_cast<double>(planes[at(k * n + p)]), 2);
      CHECK(close(static_cast<double>(lengths[at(p)]), 1.0 / (std::sqrt(sum) + 0.5)));
    }
  }
}

// ---------------------------------------------------------------------- stopping

// All that takes long, on one picture; each piece says whether it came to its end.
class Pieces {
 public:
  explicit Pieces(Size size)
      : size_(size),
        n_(size.height * size.width),
        rgb_(picture(size, random_)),
        planes_(noise(3 * n_, random_)),
        atom_(at(n_), 0),
        points_(at(n_)),
        shifts_{0, n_, 2 * n_},
        out_(at(24 * (size.height + 9) * (size.width + 9))) {
    std::iota(points_.begin(), points_.end(), 0);
    const int64_t n_atoms = std::min(kMostAtoms, n_);
    for (int64_t a = 0; a <= n_atoms; ++a) start_.push_back(n_ * a / n_atoms);
  }

  static constexpr int kCount = 14;
  static constexpr int64_t kMostAtoms = 64;

  bool run(int piece, const Watch& watch) {
    const auto [height, width] = size_;
    const float* planes = planes_.data();
    float* out = out_.data();
    Pacer pacer(watch);
    switch (piece) {
      case 0:
        return segment(rgb_.data(), height, width, 0.25, kScales, kLeast, watch).has_value();
      case 1:
        return moments(atom_, width, watch, std::span(sums_).first(kMoments));
      case 2:
        return borders(atom_, 1, width, watch).has_value();
      case 3:
        return points_of_atoms(atom_, 1, width, watch).has_value();
      case 4:
        return blur(planes, height, width, 2.0, pacer, out);
      case 5:
        return lab(rgb_.data(), n_, watch, out);
      case 6:
        return thin(planes, 3, height, width, watch, out);
      case 7:
        return textures(planes, height, width, watch, 2, out);
      case 8:
        return binary_patterns(planes, height, width, watch, out);
      case 9:
        return edge_cells(planes, 3, height, width, watch, 2, out);
      case 10:
        return inverse_lengths(planes, shifts_, width, height, width, 0.5f, watch, out);
      default:
        break;
    }
    if (piece == 13) return atoms_of_cells(atom_, width, 24, 32, watch).has_value();
    if (piece == 11) return point_means(planes, 3, n_, {start_, points_}, watch, sums_.data());
    const DescriptorGrid whole{planes_, shifts_, nullptr, width, height, width};
    return code_means(whole, weights_.data(), bias_.data(), 8, {start_, points_}, watch, 2, means_.data());
  }

 private:
  Random random_{11};
  Size size_;
  int64_t n_;
  std::vector<uint8_t> rgb_;
  std::vector<float> planes_;
  std::vector<int32_t> atom_, points_;
  std::vector<int64_t> start_, shifts_;
  std::vector<float> out_;
  std::vector<double> sums_ = std::vector<double>(kMostAtoms * 6);
  std::vector<float> weights_ = std::vector<float>(24, 1.0f), bias_ = std::vector<float>(8, 0.0f),
                     means_ = std::vector<float>(8 * kMostAtoms);
};

void test_nothing_begins_after_the_end() {
  for (const Size size : {Size{1, 1}, Size{40, 37}}) {
    Pieces pieces(size);
    for (int piece = 0; piece < Pieces::kCount; ++piece) {
      StopFlag flag;
      CHECK(pieces.run(piece, Watch(9e9, &flag)));
      flag.set();
      CHECK(!pieces.run(piece, Watch(9e9, &flag)));
      CHECK(!pieces.run(piece, Watch(1e-9, nullptr)));
    }
  }
}

void test_everything_ends_in_the_middle() {
  Pieces pieces({360, 480});
  for (int piece = 0; piece < Pieces::kCount; ++piece) {
    int64_t fastest = int64_t{1} << 60;
    for (int turn = 0; turn < 4; ++turn) {
      const int64_t began = monotonic_ns();
      CHECK(pieces.run(piece, kNobody));
      fastest = std::min(fastest, monotonic_ns() - began);
    }
    // a busy machine may have held up all four turns: then a shorter time has to do
    int64_t left = fastest / 4;
    while (pieces.run(piece, Watch(1e-9 * static_cast<double>(monotonic_ns() + left), nullptr))) {
      left /= 2;
      CHECK(left > fastest / 128);
    }
  }
}

}  // namespace

void test_scene() {
  test_regions_are_nested_and_large_enough();
  test_atoms_are_in_one_piece();
  test_one_colour_is_one_region_and_two_are_two();
  test_moments_borders_and_points_of_atoms();
  test_means_of_regions_are_weighted_means_of_their_children();
  test_soft_codes_are_one_inner_product_each();
  test_nothing_begins_after_the_end();
  test_everything_ends_in_the_middle();
}
