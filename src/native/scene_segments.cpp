#include "scene_segments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "scene_blur.hpp"
#include "scene_memory.hpp"

namespace anytime {
namespace {

constexpr float kSteps = 128.0f;    // weights are whole multiples of 1 / kSteps
constexpr size_t kWeights = 65536;  // more than 255 sqrt(3) kSteps

struct Edge {
  int32_t a, b;
  float weight;
};

// Pairs of regions, lightest first.
struct RegionEdges {
  std::vector<Edge> edge;

  template <class Use>
  bool each(Use&& use) const noexcept {
    for (const Edge& e : edge) {
      if (!use(e.a, e.b, e.weight)) return false;
    }
    return true;
  }
};

// Sums of the colours of regions.
class Colours {
 public:
  explicit Colours(size_t n) : sum_(n), pixels_(n, 0) {}
  void add(int32_t region, const std::array<double, 3>& colour, int64_t pixels) noexcept {
    const auto r = static_cast<size_t>(region);
    for (size_t c = 0; c < 3; ++c) sum_[r][c] += colour[c];
    pixels_[r] += pixels;
  }
  const std::array<double, 3>& sum(size_t region) const noexcept { return sum_[region]; }
  const std::vector<int64_t>& pixels() const noexcept { return pixels_; }
  double distance(size_t a, size_t b) const noexcept {
    double square = 0.0;
    for (size_t c = 0; c < 3; ++c) {
      const double d =
          sum_[a][c] / static_cast<double>(pixels_[a]) - sum_[b][c] / static_cast<double>(pixels_[b]);
      square += d * d;
    }
    return std::sqrt(square);
  }

 private:
  std::vector<std::array<double, 3>> sum_;
  std::vector<int64_t> pixels_;
};

class Components {
 public:
  Components(size_t n, double scale)
      : parent_(unfilled<int32_t>(n)),
        pixels_(unfilled<int32_t>(n)),
        limit_(unfilled<float>(n)),
        n_(n),
        scale_(static_cast<float>(scale)) {}

  // Every node becomes a component, of so many pixels; none given: of one. False: stopped.
  bool start(std::span<const int64_t> pixels, Pacer& pacer) noexcept {
    for (size_t i = 0; i < n_; ++i) {
      if (pacer.expired_after(1)) return false;
      parent_[i] = static_cast<int32_t>(i);
      pixels_[i] = pixels.empty() ? 1 : static_cast<int32_t>(pixels[i]);
      limit_[i] = room(i);
    }
    return true;
  }
  int32_t find(int32_t i) noexcept {
    while (parent_[at(i)] != i) i = parent_[at(i)] = parent_[at(parent_[at(i)])];
    return i;
  }
  // Joins along edges, which come lightest first, that are no heavier than either side allows.
  template <class Edges>
  bool join_alike(const Edges& edges, Pacer& pacer) noexcept {
    return edges.each([&](int32_t first, int32_t second, float weight) noexcept {
      if (pacer.expired_after(1)) return false;
      const int32_t a = find(first), b = find(second);
      if (a == b || weight > limit_[at(a)] || weight > limit_[at(b)]) return true;
      const size_t root = at(join(a, b));
      limit_[root] = weight + room(root);
      return true;
    });
  }
  template <class Edges>
  bool join_small(const Edges& edges, int64_t least, Pacer& pacer) noexcept {
    return edges.each([&](int32_t first, int32_t second, float) noexcept {
      if (pacer.expired_after(1)) return false;
      const int32_t a = find(first), b = find(second);
      if (a != b && std::min(pixels_[at(a)], pixels_[at(b)]) < least) join(a, b);
      return true;
    });
  }

 private:
  static size_t at(int32_t i) noexcept { return static_cast<size_t>(i); }
  float room(size_t i) const noexcept { return scale_ / static_cast<float>(pixels_[i]); }

  int32_t join(int32_t a, int32_t b) noexcept {
    if (pixels_[at(a)] < pixels_[at(b)] || (pixels_[at(a)] == pixels_[at(b)] && b < a)) std::swap(a, b);
    parent_[at(b)] = a;
    pixels_[at(a)] += pixels_[at(b)];
    return a;
  }

  PictureArray<int32_t> parent_, pixels_;
  PictureArray<float> limit_;
  size_t n_;
  float scale_;
};

// Pairs of neighbouring pixels among eight, lightest first; of equal weights, in the order of pixels.
struct PixelEdges {
  static constexpr int64_t kAcross[4] = {1, 0, 1, 1}, kDown[4] = {0, 1, 1, -1};

  PictureArray<uint32_t> edge;  // 4 * pixel + which of its neighbours
  std::vector<uint32_t> end;    // of the edges of each weight
  int64_t width = 0;

  template <class Use>
  bool each(Use&& use) const noexcept {
    int32_t step[4];
    for (int k = 0; k < 4; ++k) step[k] = static_cast<int32_t>(kDown[k] * width + kAcross[k]);
    size_t i = 0;
    for (size_t w = 0; w < end.size(); ++w) {
      const float weight = static_cast<float>(w) / kSteps;
      for (; i < end[w]; ++i) {
        const auto pixel = static_cast<int32_t>(edge[i] >> 2);
        if (!use(pixel, pixel + step[edge[i] & 3], weight)) return false;
      }
    }
    return true;
  }
};

// Worth nothing at the pacer's end.
PixelEdges sorted_edges(const float* colours, int64_t height, int64_t width, Pacer& pacer) {
  const size_t n = static_cast<size_t>(height * width);
  const auto weight = [&](size_t a, size_t b) noexcept {
    float sum = 0.0f;
    for (size_t c = 0; c < 3; ++c) {
      const float d = colours[c * n + a] - colours[c * n + b];
      sum += d * d;
    }
    return static_cast<uint16_t>(std::sqrt(sum) * kSteps);
  };
  const auto weights = unfilled<uint16_t>(4 * n);
  std::vector<uint32_t> start(kWeights + 1, 0);
  const auto each = [&](auto&& use) {
    for (int64_t y = 0; y < height; ++y) {
      if (pacer.expired_after(8 * width)) return;
      for (size_t k = 0; k < 4; ++k) {
        const int64_t across = PixelEdges::kAcross[k], down = PixelEdges::kDown[k];
        if (y + down < 0 || y + down >= height) continue;
        for (int64_t x = 0; x + across < width; ++x) {
          const size_t a = static_cast<size_t>(y * width + x);
          use(a, static_cast<size_t>((y + down) * width + x + across), 4 * a + k);
        }
      }
    }
  };
  each([&](size_t a, size_t b, size_t edge) { ++start[(weights[edge] = weight(a, b)) + size_t{1}]; });
  if (pacer.expired()) return {};
  for (size_t w = 0; w < kWeights; ++w) start[w + 1] += start[w];
  PixelEdges edges{unfilled<uint32_t>(start[kWeights]), {}, width};
  each(
      [&](size_t, size_t, size_t edge) { edges.edge[start[weights[edge]]++] = static_cast<uint32_t>(edge); });
  start.pop_back();  // each number is now the end of its edges
  edges.end = std::move(start);
  return edges;
}

// Pairs of numbers below n, increasing: by the first number, then those of each by the second. False:
// stopped.
using Pairs = std::vector<std::pair<int32_t, int32_t>>;
bool sort_pairs(Pairs& pairs, size_t n, Pacer& pacer) {
  std::vector<size_t> start(n + 1, 0);
  for (const auto& pair : pairs) ++start[static_cast<size_t>(pair.first) + 1];
  for (size_t i = 0; i < n; ++i) start[i + 1] += start[i];
  std::vector<size_t> next(start.begin(), start.end() - 1);
  Pairs sorted(pairs.size());
  for (const auto& pair : pairs) {
    if (pacer.expired_after(1)) return false;
    sorted[next[static_cast<size_t>(pair.first)]++] = pair;
  }
  for (size_t i = 0; i < n; ++i) {
    if (pacer.expired_after(static_cast<int64_t>(8 * (start[i + 1] - start[i])))) return false;
    std::sort(sorted.begin() + static_cast<ptrdiff_t>(start[i]),
              sorted.begin() + static_cast<ptrdiff_t>(start[i + 1]));
  }
  pairs = std::move(sorted);
  return true;
}

// The component of every node, numbered by their first nodes; none: stopped. `pixels`: of each node, none:
// one.
template <class Edges>
std::vector<int32_t> joined(const Edges& edges, size_t n, std::span<const int64_t> pixels, double scale,
                            int64_t least, Pacer& pacer) {
  Components components(n, scale);
  if (pacer.expired() || !components.start(pixels, pacer) || !components.join_alike(edges, pacer) ||
      !components.join_small(edges, least, pacer))
    return {};
  const auto number = unfilled<int32_t>(n);
  for (size_t i = 0; i < n; ++i) {
    if (pacer.expired_after(1)) return {};
    number[i] = -1;
  }
  std::vector<int32_t> name;
  name.reserve(n);
  int32_t next = 0;
  for (size_t i = 0; i < n; ++i) {
    if (pacer.expired_after(1)) return {};
    int32_t& known = number[static_cast<size_t>(components.find(static_cast<int32_t>(i)))];
    if (known < 0) known = next++;
    name.push_back(known);
  }
  return name;
}

// Pairs of regions that touch, by the distance of their mean colours. None, too, at the pacer's end.
RegionEdges edges_between(const Colours& means, const Borders& beside, const std::vector<int32_t>& region,
                          Pacer& pacer) {
  Pairs pairs;
  for (size_t i = 0; i < beside.first.size(); ++i) {
    const int32_t a = region[static_cast<size_t>(beside.first[i])],
                  b = region[static_cast<size_t>(beside.second[i])];
    if (a != b) pairs.emplace_back(std::min(a, b), std::max(a, b));
  }
  if (!sort_pairs(pairs, means.pixels().size(), pacer)) return {};
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  std::vector<Edge> edges;
  for (const auto& [a, b] : pairs) {
    edges.push_back(
        {a, b, static_cast<float>(means.distance(static_cast<size_t>(a), static_cast<size_t>(b)))});
  }
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.weight < b.weight; });
  return {std::move(edges)};
}

// How often each pair occurs, pairs increasing. Nothing: stopped before the end.
std::optional<Borders> counted(Pairs pairs, int64_t n, Pacer& pacer) {
  if (!sort_pairs(pairs, static_cast<size_t>(n), pacer)) return std::nullopt;
  Borders out;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pacer.expired_after(1)) return std::nullopt;
    if (i == 0 || pairs[i] != pairs[i - 1]) {
      out.first.push_back(pairs[i].first);
      out.second.push_back(pairs[i].second);
      out.length.push_back(0);
    }
    ++out.length.back();
  }
  return out;
}

}  // namespace

std::optional<Segments> segment(const uint8_t* rgb, int64_t height, int64_t width, double sigma,
                                std::span<const double> scales, std::span<const int64_t> least,
                                const Watch& watch) {
  Pacer pacer(watch);
  const size_t n = static_cast<size_t>(height * width);
  const auto colours = unfilled<float>(3 * n);
  for (size_t c = 0; c < 3; ++c) {
    float* const plane = colours.get() + c * n;
    for (size_t i = 0; i < n; ++i) {
      if (i % 1024 == 0 && pacer.expired_after(1024)) return std::nullopt;
      plane[i] = rgb[3 * i + c];
    }
    if (sigma > 0.0 && !blur(plane, height, width, sigma, pacer, plane)) return std::nullopt;
  }
  Segments out;
  out.atom = joined(sorted_edges(colours.get(), height, width, pacer), n, {}, scales[0], least[0], pacer);
  if (out.atom.empty()) return std::nullopt;
  out.n_atoms = *std::max_element(out.atom.begin(), out.atom.end()) + 1;
  const auto n_atoms = static_cast<size_t>(out.n_atoms);
  Colours atoms(n_atoms);
  for (size_t i = 0; i < n; ++i) {
    if (pacer.expired_after(1)) return std::nullopt;
    atoms.add(out.atom[i], {colours[i], colours[n + i], colours[2 * n + i]}, 1);
  }
  const std::optional<Borders> beside = borders(out.atom, out.n_atoms, width, watch);
  if (!beside) return std::nullopt;
  std::vector<int32_t> region(n_atoms);
  for (size_t a = 0; a < n_atoms; ++a) region[a] = static_cast<int32_t>(a);
  for (size_t level = 0; level < scales.size(); ++level) {
    if (level > 0) {
      Colours means(static_cast<size_t>(out.count.back()));
      for (size_t a = 0; a < n_atoms; ++a) means.add(region[a], atoms.sum(a), atoms.pixels()[a]);
      const std::vector<int32_t> next =
          joined(edges_between(means, *beside, region, pacer), means.pixels().size(), means.pixels(),
                 scales[level], least[level], pacer);
      if (next.empty()) return std::nullopt;
      for (int32_t& name : region) name = next[static_cast<size_t>(name)];
    }
    out.count.push_back(*std::max_element(region.begin(), region.end()) + 1);
    out.region.insert(out.region.end(), region.begin(), region.end());
  }
  return out;
}

bool moments(std::span<const int32_t> atom, int64_t width, const Watch& watch, std::span<double> sums) {
  Pacer pacer(watch);
  const size_t n_atoms = sums.size() / kMoments;
  for (size_t a = 0; a < n_atoms; ++a) {
    double* s = sums.data() + a * kMoments;
    std::fill(s, s + 6, 0.0);
    s[6] = s[8] = std::numeric_limits<double>::infinity();
    s[7] = s[9] = -1.0;
  }
  for (size_t i = 0; i < atom.size(); ++i) {
    if (pacer.expired_after(1)) return false;
    double* s = sums.data() + static_cast<size_t>(atom[i]) * kMoments;
    const double x = static_cast<double>(static_cast<int64_t>(i) % width);
    const double y = static_cast<double>(static_cast<int64_t>(i) / width);
    const double terms[6] = {1.0, x, y, x * x, y * y, x * y};
    for (int k = 0; k < 6; ++k) s[k] += terms[k];
    s[6] = std::min(s[6], x);
    s[7] = std::max(s[7], x);
    s[8] = std::min(s[8], y);
    s[9] = std::max(s[9], y);
  }
  return true;
}

std::optional<Borders> borders(std::span<const int32_t> atom, int64_t n_atoms, int64_t width,
                               const Watch& watch) {
  const int64_t n = static_cast<int64_t>(atom.size());
  Pacer pacer(watch);
  Pairs pairs;
  const auto look = [&](int64_t i, int64_t j) {
    const int32_t a = atom[static_cast<size_t>(i)], b = atom[static_cast<size_t>(j)];
    if (a != b) pairs.emplace_back(std::min(a, b), std::max(a, b));
  };
  for (int64_t i = 0; i < n; ++i) {
    if (pacer.expired_after(2)) return std::nullopt;
    if ((i + 1) % width != 0) look(i, i + 1);
    if (i + width < n) look(i, i + width);
  }
  return counted(std::move(pairs), n_atoms, pacer);
}

std::optional<Borders> atoms_of_cells(std::span<const int32_t> atom, int64_t width, int64_t rows,
                                      int64_t columns, const Watch& watch) {
  const int64_t height = static_cast<int64_t>(atom.size()) / width;
  Pacer pacer(watch);
  Pairs pairs;
  for (int64_t y = 0; y < height; y += 2) {
    if (pacer.expired_after(width)) return std::nullopt;
    for (int64_t x = 0; x < width; x += 2) {
      pairs.emplace_back(static_cast<int32_t>(y * rows / height * columns + x * columns / width),
                         atom[static_cast<size_t>(y * width + x)]);
    }
  }
  return counted(std::move(pairs), rows * columns, pacer);
}

}  // namespace anytime
