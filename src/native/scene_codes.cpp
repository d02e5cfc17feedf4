#include "scene_codes.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "scan.hpp"
#include "scene_descriptors.hpp"
#include "threads.hpp"

namespace anytime {
namespace {

constexpr int64_t kPoints = 32;  // the most grid points side by side that are worked on together
constexpr int64_t kFewest = 8;   // and the fewest: what is not wanted between them is computed in vain
constexpr int64_t kCentres = 3;  // centres, too: their sums stay in registers
constexpr int64_t kBands = 8;    // rows of the grid that are one task

// Numbers of kBeside points from `point` on, for kTogether centres: sums[c][p] = <weights_c, v_p>, added up
// in the order of the numbers whatever is computed beside it.
template <int kBytes, int64_t kTogether, int64_t kBeside>
[[gnu::always_inline]] inline void products(const float* point, std::span<const int64_t> shifts,
                                            const float* weights, float* sums) noexcept {
  typedef float Vector __attribute__((vector_size(kBytes)));
  constexpr int64_t kVectors = kBeside * 4 / kBytes, kLength = kBytes / 4;
  const auto n = static_cast<int64_t>(shifts.size());
  // where a register is too short for all points, one stretch after the other
  constexpr int64_t kAtOnce = std::min<int64_t>(kVectors, kBytes == 16 ? 3 : 4);
  for (int64_t first = 0; first < kVectors; first += kAtOnce) {
    Vector sum[kTogether][kAtOnce] = {};
    for (int64_t k = 0; k < n; ++k) {
      const float* from = point + shifts[static_cast<size_t>(k)];
      Vector value[kAtOnce];
#pragma GCC unroll 4
      for (int64_t v = 0; v < kAtOnce; ++v) {
        std::memcpy(&value[v], from + std::min(first + v, kVectors - 1) * kLength, kBytes);
      }
#pragma GCC unroll 4
      for (int64_t c = 0; c < kTogether; ++c) {
        const Vector weight = Vector{} + weights[c * n + k];
#pragma GCC unroll 4
        for (int64_t v = 0; v < kAtOnce; ++v) sum[c][v] += weight * value[v];
      }
    }
    for (int64_t c = 0; c < kTogether; ++c) {
      for (int64_t v = 0; v < kAtOnce && first + v < kVectors; ++v) {
        std::memcpy(sums + c * kBeside + (first + v) * kLength, &sum[c][v], kBytes);
      }
    }
  }
}

template <int kBytes, int64_t kBeside>
[[gnu::always_inline]] inline void products_beside(const float* point, std::span<const int64_t> shifts,
                                                   const float* weights, int64_t n_centres,
                                                   float* sums) noexcept {
  if (n_centres == 3) {
    products<kBytes, 3, kBeside>(point, shifts, weights, sums);
  } else if (n_centres == 2) {
    products<kBytes, 2, kBeside>(point, shifts, weights, sums);
  } else {
    products<kBytes, 1, kBeside>(point, shifts, weights, sums);
  }
}

template <int kBytes>
[[gnu::always_inline]] inline void any_products(const float* point, std::span<const int64_t> shifts,
                                                const float* weights, int64_t n_centres, int64_t beside,
                                                float* sums) noexcept {
  if (beside == 4 * kFewest) {
    products_beside<kBytes, 4 * kFewest>(point, shifts, weights, n_centres, sums);
  } else if (beside == 2 * kFewest) {
    products_beside<kBytes, 2 * kFewest>(point, shifts, weights, n_centres, sums);
  } else {
    products_beside<kBytes, kFewest>(point, shifts, weights, n_centres, sums);
  }
}

using Products = void (*)(const float*, std::span<const int64_t>, const float*, int64_t, int64_t,
                          float*) noexcept;

void products_portable(const float* point, std::span<const int64_t> shifts, const float* weights,
                       int64_t n_centres, int64_t beside, float* sums) noexcept {
  any_products<16>(point, shifts, weights, n_centres, beside, sums);
}
#if defined(__x86_64__)
[[gnu::target("avx2")]] void products_avx2(const float* point, std::span<const int64_t> shifts,
                                           const float* weights, int64_t n_centres, int64_t beside,
                                           float* sums) noexcept {
  any_products<32>(point, shifts, weights, n_centres, beside, sums);
}
#endif

Products products_in_use() noexcept {
#if defined(__x86_64__)
  if (vectors_in_use() != Vectors::kPortable) return products_avx2;
#endif
  return products_portable;
}

// How many of `run` stretches of kFewest points are taken at once.
int64_t at_once(int64_t run) noexcept { return run >= 4 ? 4 : run >= 2 ? 2 : 1; }

}  // namespace

std::optional<PointLists> points_of_atoms(std::span<const int32_t> atom, int64_t n_atoms, int64_t width,
                                          const Watch& watch) {
  const int64_t height = static_cast<int64_t>(atom.size()) / width;
  Pacer pacer(watch);
  PointLists out;
  out.start.assign(static_cast<size_t>(n_atoms) + 1, 0);
  const auto each = [&](auto&& use) {
    int32_t point = 0;
    for (int64_t y = 0; y < height; y += kGridStep) {
      if (pacer.expired_after(width)) return false;
      for (int64_t x = 0; x < width; x += kGridStep) use(atom[static_cast<size_t>(y * width + x)], point++);
    }
    return true;
  };
  if (!each([&](int32_t a, int32_t) { ++out.start[static_cast<size_t>(a) + 1]; })) return std::nullopt;
  std::vector<int32_t> only(static_cast<size_t>(n_atoms), -1);  // the point of an atom between the points
  const bool all_met = std::find(out.start.begin() + 1, out.start.end(), 0) == out.start.end();
  for (int64_t y = 0; y < height && !all_met; ++y) {
    if (pacer.expired_after(width)) return std::nullopt;
    for (int64_t x = 0; x < width; ++x) {
      const auto a = static_cast<size_t>(atom[static_cast<size_t>(y * width + x)]);
      if (out.start[a + 1] != 0) continue;
      out.start[a + 1] = 1;
      only[a] = static_cast<int32_t>(y / kGridStep * grid_length(width) + x / kGridStep);
    }
  }
  for (size_t a = 0; a < only.size(); ++a) out.start[a + 1] += out.start[a];
  out.point.resize(static_cast<size_t>(out.start.back()));
  std::vector<int64_t> next(out.start.begin(), out.start.end() - 1);
  if (!each([&](int32_t a, int32_t point) {
        out.point[static_cast<size_t>(next[static_cast<size_t>(a)]++)] = point;
      }))
    return std::nullopt;
  for (size_t a = 0; a < only.size(); ++a) {
    if (only[a] >= 0) out.point[static_cast<size_t>(out.start[a])] = only[a];
  }
  return out;
}

bool point_means(const float* planes, int64_t n_planes, int64_t size, const AtomPoints& atoms,
                 const Watch& watch, double* means) {
  Pacer pacer(watch);
  for (size_t a = 0; a + 1 < atoms.start.size(); ++a) {
    const int64_t first = atoms.start[a], last = atoms.start[a + 1];
    for (int64_t p = 0; p < n_planes; ++p) {
      if (pacer.expired_after(last - first)) return false;
      double sum = 0.0, squares = 0.0;
      for (int64_t i = first; i < last; ++i) {
        const auto value = static_cast<double>(planes[p * size + atoms.point[static_cast<size_t>(i)]]);
        sum += value;
        squares += value * value;
      }
      double* to = means + static_cast<int64_t>(a) * 2 * n_planes + p;
      to[0] = sum / static_cast<double>(last - first);
      to[n_planes] = squares / static_cast<double>(last - first);
    }
  }
  return true;
}

bool code_means(const DescriptorGrid& grid, const float* weights, const float* bias, int64_t n_centres,
                const AtomPoints& atoms, const Watch& watch, int threads, float* means) {
  const int64_t size = grid.height * grid.width, n_numbers = static_cast<int64_t>(grid.shifts.size());
  const int64_t stretches = (grid.width + kFewest - 1) / kFewest, bands = (grid.height + kBands - 1) / kBands;
  const int64_t n_atoms = static_cast<int64_t>(atoms.start.size()) - 1;
  std::vector<float> roomy;  // a narrow grid: a stretch of points reads beyond the end of the planes
  const float* planes = grid.planes.data();
  if (grid.width < kPoints) {
    roomy.assign(grid.planes.begin(), grid.planes.end());
    roomy.resize(roomy.size() + kPoints, 0.0f);
    planes = roomy.data();
  }
  const auto width = static_cast<uint32_t>(grid.width);
  std::vector<uint8_t> needed(static_cast<size_t>(grid.height * stretches), atoms.wanted == nullptr);
  for (int64_t a = 0; atoms.wanted != nullptr && a < n_atoms; ++a) {
    if (atoms.wanted[a] == 0) continue;
    for (int64_t i = atoms.start[static_cast<size_t>(a)]; i < atoms.start[static_cast<size_t>(a) + 1]; ++i) {
      const auto point = static_cast<uint32_t>(atoms.point[static_cast<size_t>(i)]);
      const uint32_t y = point / width, x = point - y * width;  // of 32 bits: a third of the time
      needed[y * static_cast<size_t>(stretches) + x / kFewest] = 1;
    }
  }
  const auto codes = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(n_centres * size));
  const Products product = products_in_use();
  std::atomic<bool> stopped{false};
  Team team(size < 8192 ? 1 : threads);
  team.each(bands, true, [&](int64_t band, size_t) noexcept {
    float sums[kCentres * kPoints];
    for (int64_t y = band * kBands; y < std::min(grid.height, (band + 1) * kBands); ++y) {
      if (stopped.load(std::memory_order_relaxed) || (watch.armed() && watch.expired())) {
        stopped.store(true, std::memory_order_relaxed);
        return;
      }
      const uint8_t* wanted = needed.data() + y * stretches;
      for (int64_t s = 0, taken; s < stretches; s += taken) {
        taken = 1;
        if (wanted[s] == 0) continue;
        while (taken < 4 && s + taken < stretches && wanted[s + taken] != 0) ++taken;
        taken = at_once(taken);
        const int64_t beside = taken * kFewest;
        const int64_t x = std::max<int64_t>(0, std::min(s * kFewest, grid.width - beside));
        const int64_t count = std::min(beside, grid.width - x);
        const float* point = planes + y * grid.padded + x;
        const float* scale = grid.scale == nullptr ? nullptr : grid.scale + y * grid.width + x;
        for (int64_t c = 0; c < n_centres; c += kCentres) {
          const int64_t together = std::min(kCentres, n_centres - c);
          product(point, grid.shifts, weights + c * n_numbers, together, beside, sums);
          for (int64_t k = 0; k < together; ++k) {
            const float start = bias[c + k];
            const float* from = sums + k * beside;
            float* to = codes.get() + (c + k) * size + y * grid.width + x;
            if (scale == nullptr) {
              for (int64_t p = 0; p < count; ++p) to[p] = std::max(0.0f, start + from[p]);
            } else {
              for (int64_t p = 0; p < count; ++p) to[p] = std::max(0.0f, start + from[p] * scale[p]);
            }
          }
        }
      }
    }
  });
  if (stopped.load(std::memory_order_relaxed)) return false;
  team.each(n_centres, true, [&](int64_t c, size_t) noexcept {
    const float* code = codes.get() + c * size;
    Pacer pacer(watch);
    for (int64_t a = 0; a < n_atoms; ++a) {
      const int64_t first = atoms.start[static_cast<size_t>(a)],
                    last = atoms.start[static_cast<size_t>(a) + 1];
      if (pacer.expired_after(last - first)) {
        stopped.store(true, std::memory_order_relaxed);
        return;
      }
      double sum = 0.0;
      if (atoms.wanted == nullptr || atoms.wanted[a] != 0) {
        for (int64_t i = first; i < last; ++i)
          sum += static_cast<double>(code[atoms.point[static_cast<size_t>(i)]]);
      }
      means[c * n_atoms + a] =
          static_cast<float>(sum / static_cast<double>(std::max<int64_t>(last - first, 1)));
    }
  });
  return !stopped.load(std::memory_order_relaxed);
}

void descriptors_at(const DescriptorGrid& grid, std::span<const int32_t> points, float* out) {
  for (const int32_t point : points) {
    const int64_t y = point / grid.width, x = point % grid.width;
    const float* from = grid.planes.data() + y * grid.padded + x;
    const float scale = grid.scale == nullptr ? 1.0f : grid.scale[point];
    for (const int64_t shift : grid.shifts) *out++ = from[shift] * scale;
  }
}

}  // namespace anytime
