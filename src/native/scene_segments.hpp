// Regions of an image at several scales: graph-based segmentation (Felzenszwalb and Huttenlocher 2004), run
// again and again on its own regions, so that every region of a level lies within one region of the next.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "clock.hpp"

namespace anytime {

struct Segments {
  std::vector<int32_t> atom;  // of every pixel: its region of the first level, numbered by their first pixels
  std::vector<int32_t>
      region;  // (n_levels, n_atoms): the region of every atom; level 0 is the atoms themselves
  std::vector<int32_t> count;  // regions of each level
  int32_t n_atoms = 0;
};

// `rgb`: (height, width, 3). The first level joins pixels: an edge between neighbours weighs as much as their
// colours are apart. Each further level joins regions of the one before that touch: an edge weighs as much as
// their mean colours are apart. Two components are joined along an edge that is no heavier than the heaviest
// one within either, plus scale / pixels of it; components of fewer than `least` pixels then join the
// neighbour across their lightest edge. sigma: of the blur before. Nothing: stopped before the end.
std::optional<Segments> segment(const uint8_t* rgb, int64_t height, int64_t width, double sigma,
                                std::span<const double> scales, std::span<const int64_t> least,
                                const Watch& watch);

// Numbers of an atom's pixels: count, sums of x, y, xx, yy, xy, then least and greatest x and y. False:
// stopped before the end.
inline constexpr int64_t kMoments = 10;
bool moments(std::span<const int32_t> atom, int64_t width, const Watch& watch, std::span<double> sums);

// Pairs of atoms (the smaller number first, increasing) that have pixels side by side, and how many. Nothing:
// stopped before the end.
struct Borders {
  std::vector<int32_t> first, second;
  std::vector<int64_t> length;
};
std::optional<Borders> borders(std::span<const int32_t> atom, int64_t n_atoms, int64_t width,
                               const Watch& watch);

// A grid of rows x columns cells over a picture: pairs of a cell and an atom that has pixels in it,
// increasing, and how many; every second pixel of every second row is counted. Nothing: stopped before the
// end.
std::optional<Borders> atoms_of_cells(std::span<const int32_t> atom, int64_t width, int64_t rows,
                                      int64_t columns, const Watch& watch);

}  // namespace anytime
