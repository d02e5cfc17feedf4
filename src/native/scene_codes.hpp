// Soft codes of descriptors, centre by centre, averaged over the atoms of an image.
//
// The code of centre i is max(0, mean_j d_j - d_i) with squared distances d. The squares of the descriptor v
// cancel, so that it is max(0, bias_i + <weights_i, v>): one inner product, whatever other codes are
// computed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "clock.hpp"

namespace anytime {

// Descriptors on a grid: number k of the point (y, x) is planes[y * padded + x + shifts[k]], times scale[y *
// width + x] where there is a scale.
struct DescriptorGrid {
  std::span<const float> planes;
  std::span<const int64_t> shifts;  // none is negative
  const float* scale = nullptr;
  int64_t padded = 0, height = 0, width = 0;
};

// Grid points of every atom, one list after the other.
struct AtomPoints {
  std::span<const int64_t> start;  // n_atoms + 1
  std::span<const int32_t> point;
  const uint8_t* wanted = nullptr;  // by atom; none: all
};

// The grid points of every atom of an image, in the order of points; an atom between the points has the one
// before its first pixel. Every atom has a pixel. Nothing: stopped before the end.
struct PointLists {
  std::vector<int64_t> start;
  std::vector<int32_t> point;
};
std::optional<PointLists> points_of_atoms(std::span<const int32_t> atom, int64_t n_atoms, int64_t width,
                                          const Watch& watch);

// (n_atoms, 2 n_planes): means over the points of each atom of planes, (n_planes, size), and of their
// squares. Every atom has a point. False: stopped before the end.
bool point_means(const float* planes, int64_t n_planes, int64_t size, const AtomPoints& atoms,
                 const Watch& watch, double* means);

// means: (n_centres, n_atoms); of atoms that are not wanted, or have no point, 0. False: stopped before the
// end, and the means are worth nothing.
bool code_means(const DescriptorGrid& grid, const float* weights, const float* bias, int64_t n_centres,
                const AtomPoints& atoms, const Watch& watch, int threads, float* means);

// The descriptors of some points themselves, (n_points, n_numbers).
void descriptors_at(const DescriptorGrid& grid, std::span<const int32_t> points, float* out);

}  // namespace anytime
