// What an image looks like around every second pixel of every second row: colour, responses of a filter bank,
// local binary patterns, and directions of edges in cells around the point (as in SIFT).
//
// Planes are float32, one after the other. Grid point (y, x) stands at pixel (2 y, 2 x). What looks at a
// watch gives false where it was stopped before the end: its planes are then worth nothing.
#pragma once

#include <cstdint>
#include <span>

#include "clock.hpp"

namespace anytime {

inline constexpr int64_t kGridStep = 2;
inline int64_t grid_length(int64_t pixels) noexcept { return (pixels + kGridStep - 1) / kGridStep; }

// (3, height * width): L, a and b of CIELAB, divided by 100.
bool lab(const uint8_t* rgb, int64_t n_pixels, const Watch& watch, float* planes);

// (3, grid): means of the four pixels from each point on.
bool thin(const float* planes, int64_t n_planes, int64_t height, int64_t width, const Watch& watch,
          float* out);

// (17, grid): L, a, b blurred by 1, 2 and 4 pixels; Laplacians of L blurred by 1, 2, 4 and 8; derivatives of
// L across and down, blurred by 2 and 4. Derivatives are multiplied by the blur (Laplacians by its square).
inline constexpr int64_t kTextures = 17;
bool textures(const float* lab, int64_t height, int64_t width, const Watch& watch, int threads, float* out);

// (20, grid): roots of the frequencies of uniform binary patterns (rotated ones are the same), at distances 1
// and 2, in a window of 14 pixels. A neighbour counts as lighter from a hundredth of the range on.
inline constexpr int64_t kPatterns = 10;
bool binary_patterns(const float* lightness, int64_t height, int64_t width, const Watch& watch, float* out);

// (8 n_planes, grid with kMargin more on each side): strength of edges in eight directions, summed over the
// four by four pixels from each point on. A descriptor is these numbers at sixteen such places around the
// point.
inline constexpr int64_t kDirections = 8, kMargin = 4;
bool edge_cells(const float* planes, int64_t n_planes, int64_t height, int64_t width, const Watch& watch,
                int threads, float* out);

// (grid): 1 / (length + floor) of the descriptor whose numbers stand `shifts` behind each point in the
// planes. `padded`: width of a row of the planes.
bool inverse_lengths(const float* planes, std::span<const int64_t> shifts, int64_t padded, int64_t height,
                     int64_t width, float floor, const Watch& watch, float* out);

}  // namespace anytime
