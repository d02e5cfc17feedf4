// Images: their regions, what they look like, and soft codes of it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <limits>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "region_means.hpp"
#include "scene_codes.hpp"
#include "scene_descriptors.hpp"
#include "scene_segments.hpp"
#include "stops.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

template <class T>
using Cube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

constexpr int64_t kMostPixels = int64_t{1} << 28;

int64_t rows_of(size_t n) { return static_cast<int64_t>(n); }

void check_picture(int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > kMostPixels / width)
    throw std::invalid_argument("a picture has at least one pixel and at most 2**28");
}

// The atoms of a picture, each at least once and none beyond `n_atoms`.
void check_atoms(const Matrix<const int32_t>& atom, int64_t n_atoms) {
  check_picture(rows_of(atom.shape(0)), rows_of(atom.shape(1)));
  for (size_t i = 0; i < atom.size(); ++i) {
    if (atom.data()[i] < 0 || atom.data()[i] >= n_atoms) throw std::invalid_argument("no such atom");
  }
}

// What may end a call early, for its list of arguments. All calls give None, or False, where they were
// stopped before the end.
#define ANYTIME_UNTIL \
  nb::kw_only(), "deadline"_a = std::numeric_limits<double>::infinity(), "stop"_a = nb::none()

// A new array, filled by `work` under a watch; None: stopped.
template <class T, class Work>
nb::object made(std::initializer_list<size_t> shape, double deadline, nb::object stop, Work&& work) {
  T* out;
  nb::object array = new_array<T>(shape, &out);
  const bool done = watched(deadline, stop, [&](const Watch& watch) { return work(watch, out); });
  return done ? array : nb::none();
}

// Pairs and how often each occurs, found by `work` under a watch; None: stopped.
template <class Work>
nb::object counted_pairs(double deadline, nb::object stop, Work&& work) {
  std::optional<Borders> found;
  const bool done = watched(deadline, stop, [&](const Watch& watch) {
    found = work(watch);
    return found.has_value();
  });
  if (!done) return nb::none();
  return nb::make_tuple(array_of<int32_t>(found->first), array_of<int32_t>(found->second),
                        array_of<int64_t>(found->length));
}

void bind_segments(nb::module_& m) {
  m.def(
      "segment",
      [](Cube<const uint8_t> rgb, double sigma, Vector<const double> scales, Vector<const int64_t> least,
         double deadline, nb::object stop) -> nb::object {
        const int64_t height = rows_of(rgb.shape(0)), width = rows_of(rgb.shape(1));
        check_picture(height, width);
        check_length(rgb.shape(2), 3, "a pixel");
        check_length(least.size(), scales.size(), "least");
        if (scales.size() == 0) throw std::invalid_argument("there is at least one level");
        if (!(sigma >= 0.0 && sigma <= 100.0)) throw std::invalid_argument("sigma is between 0 and 100");
        std::optional<Segments> segments;
        const bool done = watched(deadline, stop, [&](const Watch& watch) {
          segments = segment(rgb.data(), height, width, sigma, span_of(scales), span_of(least), watch);
          return segments.has_value();
        });
        if (!done) return nb::none();
        const Segments& found = *segments;
        int32_t *atom, *region;
        nb::object atoms = new_array<int32_t>({rgb.shape(0), rgb.shape(1)}, &atom);
        std::copy(found.atom.begin(), found.atom.end(), atom);
        nb::object regions = new_array<int32_t>({scales.size(), static_cast<size_t>(found.n_atoms)}, &region);
        std::copy(found.region.begin(), found.region.end(), region);
        return nb::make_tuple(atoms, regions, array_of<int32_t>(found.count));
      },
      "rgb"_a.noconvert(), "sigma"_a, "scales"_a.noconvert(), "least"_a.noconvert(), ANYTIME_UNTIL,
      "The atom of every pixel, the region of every atom at each level, and how many regions a level has.");
  m.def(
      "atom_moments",
      [](Matrix<const int32_t> atom, int64_t n_atoms, double deadline, nb::object stop) {
        check_atoms(atom, n_atoms);
        const auto n = static_cast<size_t>(n_atoms);
        return made<double>({n, size_t{kMoments}}, deadline, stop, [&](const Watch& watch, double* out) {
          return moments({atom.data(), atom.size()}, rows_of(atom.shape(1)), watch, {out, n * kMoments});
        });
      },
      "atom"_a.noconvert(), "n_atoms"_a, ANYTIME_UNTIL,
      "Of every atom: pixels; sums of x, y, xx, yy, xy; least and greatest x; least and greatest y.");
  m.def(
      "atom_borders",
      [](Matrix<const int32_t> atom, int64_t n_atoms, double deadline, nb::object stop) -> nb::object {
        check_atoms(atom, n_atoms);
        return counted_pairs(deadline, stop, [&](const Watch& watch) {
          return borders({atom.data(), atom.size()}, n_atoms, rows_of(atom.shape(1)), watch);
        });
      },
      "atom"_a.noconvert(), "n_atoms"_a, ANYTIME_UNTIL,
      "Pairs of atoms with pixels side by side, and how many.");
  m.def(
      "atom_cells",
      [](Matrix<const int32_t> atom, int64_t n_atoms, int64_t rows, int64_t columns, double deadline,
         nb::object stop) -> nb::object {
        check_atoms(atom, n_atoms);
        if (rows < 1 || columns < 1 || rows > kMostPixels / columns)
          throw std::invalid_argument("a grid has at least one cell and at most 2**28");
        return counted_pairs(deadline, stop, [&](const Watch& watch) {
          return atoms_of_cells({atom.data(), atom.size()}, rows_of(atom.shape(1)), rows, columns, watch);
        });
      },
      "atom"_a.noconvert(), "n_atoms"_a, "rows"_a, "columns"_a, ANYTIME_UNTIL,
      "Pairs of a cell of a grid over the picture and an atom in it, and how many pixels that has there.");
  m.def(
      "atom_points",
      [](Matrix<const int32_t> atom, int64_t n_atoms, double deadline, nb::object stop) -> nb::object {
        check_atoms(atom, n_atoms);
        std::optional<PointLists> found;
        const bool done = watched(deadline, stop, [&](const Watch& watch) {
          found = points_of_atoms({atom.data(), atom.size()}, n_atoms, rows_of(atom.shape(1)), watch);
          return found.has_value();
        });
        if (!done) return nb::none();
        return nb::make_tuple(array_of<int64_t>(found->start), array_of<int32_t>(found->point));
      },
      "atom"_a.noconvert(), "n_atoms"_a, ANYTIME_UNTIL,
      "Grid points of every atom: where each list starts, and the lists.");
}

void bind_descriptors(nb::module_& m) {
  const auto grid = [](size_t n) { return static_cast<size_t>(grid_length(rows_of(n))); };
  m.def(
      "lab_planes",
      [](Cube<const uint8_t> rgb, double deadline, nb::object stop) {
        check_picture(rows_of(rgb.shape(0)), rows_of(rgb.shape(1)));
        check_length(rgb.shape(2), 3, "a pixel");
        return made<float>({size_t{3}, rgb.shape(0), rgb.shape(1)}, deadline, stop,
                           [&](const Watch& watch, float* out) {
                             return lab(rgb.data(), rows_of(rgb.shape(0) * rgb.shape(1)), watch, out);
                           });
      },
      "rgb"_a.noconvert(), ANYTIME_UNTIL, "CIELAB, divided by 100, (3, height, width).");
  m.def(
      "thin_planes",
      [grid](Cube<const float> planes, double deadline, nb::object stop) {
        const int64_t height = rows_of(planes.shape(1)), width = rows_of(planes.shape(2));
        check_picture(height, width);
        return made<float>({planes.shape(0), grid(planes.shape(1)), grid(planes.shape(2))}, deadline, stop,
                           [&](const Watch& watch, float* out) {
                             return thin(planes.data(), rows_of(planes.shape(0)), height, width, watch, out);
                           });
      },
      "planes"_a.noconvert(), ANYTIME_UNTIL, "Means of two by two pixels.");
  m.def(
      "texture_planes",
      [grid](Cube<const float> planes, double deadline, nb::object stop, int threads) {
        const int64_t height = rows_of(planes.shape(1)), width = rows_of(planes.shape(2));
        check_picture(height, width);
        check_length(planes.shape(0), 3, "planes");
        return made<float>({size_t{kTextures}, grid(planes.shape(1)), grid(planes.shape(2))}, deadline, stop,
                           [&](const Watch& watch, float* out) {
                             return textures(planes.data(), height, width, watch, threads, out);
                           });
      },
      "lab"_a.noconvert(), ANYTIME_UNTIL, "threads"_a = 1,
      "Responses of seventeen filters at every grid point.");
  m.def(
      "pattern_planes",
      [grid](Matrix<const float> lightness, double deadline, nb::object stop) {
        const int64_t height = rows_of(lightness.shape(0)), width = rows_of(lightness.shape(1));
        check_picture(height, width);
        return made<float>({size_t{2 * kPatterns}, grid(lightness.shape(0)), grid(lightness.shape(1))},
                           deadline, stop, [&](const Watch& watch, float* out) {
                             return binary_patterns(lightness.data(), height, width, watch, out);
                           });
      },
      "lightness"_a.noconvert(), ANYTIME_UNTIL,
      "Frequencies of binary patterns around every grid point, as square roots.");
  m.def(
      "edge_planes",
      [grid](Cube<const float> planes, double deadline, nb::object stop, int threads) {
        const int64_t height = rows_of(planes.shape(1)), width = rows_of(planes.shape(2));
        check_picture(height, width);
        return made<float>(
            {planes.shape(0) * size_t{kDirections}, grid(planes.shape(1)) + 2 * size_t{kMargin},
             grid(planes.shape(2)) + 2 * size_t{kMargin}},
            deadline, stop, [&](const Watch& watch, float* out) {
              return edge_cells(planes.data(), rows_of(planes.shape(0)), height, width, watch, threads, out);
            });
      },
      "planes"_a.noconvert(), ANYTIME_UNTIL, "threads"_a = 1,
      "Strength of edges in eight directions in cells of four by four pixels, with a margin of four points.");
}

DescriptorGrid grid_of(const Cube<const float>& planes, const Vector<const int64_t>& shifts,
                       const std::optional<Matrix<const float>>& scale, int64_t height, int64_t width) {
  DescriptorGrid grid{{planes.data(), planes.size()}, span_of(shifts), nullptr,
                      rows_of(planes.shape(2)),       height,          width};
  check_picture(height, width);
  if (height > rows_of(planes.shape(1)) || width > grid.padded)
    throw std::invalid_argument("the grid is larger than its planes");
  for (const int64_t shift : grid.shifts) {
    if (shift < 0 || shift + (height - 1) * grid.padded + width > rows_of(planes.size()))
      throw std::invalid_argument("a shift leads beyond the planes");
  }
  if (scale) {
    check_length(scale->shape(0), static_cast<size_t>(height), "scale");
    check_length(scale->shape(1), static_cast<size_t>(width), "a row of scale");
    grid.scale = scale->data();
  }
  return grid;
}

void check_points(const Vector<const int32_t>& points, const DescriptorGrid& grid) {
  // a sign tells of a point beyond either end; without a branch, several points go at a time
  const auto last = static_cast<int32_t>(grid.height * grid.width - 1);
  int32_t signs = 0;
  for (const int32_t point : span_of(points)) signs |= point | (last - point);
  if (signs < 0) throw std::invalid_argument("no such grid point");
}

// start[i] to start[i + 1] are lists in an array of `length` entries.
void check_lists(const Vector<const int64_t>& start, size_t length) {
  if (start.size() == 0 || start.data()[0] != 0 || start.data()[start.size() - 1] != rows_of(length) ||
      !std::is_sorted(start.data(), start.data() + start.size()))
    throw std::invalid_argument("start does not describe lists");
}

bool means_of_codes(Cube<const float> planes, Vector<const int64_t> shifts,
                    std::optional<Matrix<const float>> scale, int64_t height, int64_t width,
                    Matrix<const float> weights, Vector<const float> bias, Vector<const int64_t> start,
                    Vector<const int32_t> points, std::optional<Vector<const bool>> wanted,
                    Matrix<float> means, double deadline, nb::object stop, int threads) {
  const DescriptorGrid grid = grid_of(planes, shifts, scale, height, width);
  check_length(weights.shape(1), shifts.size(), "a row of weights");
  check_length(bias.size(), weights.shape(0), "bias");
  check_points(points, grid);
  check_lists(start, points.size());
  const size_t n_atoms = start.size() - 1;
  check_length(means.shape(0), weights.shape(0), "means");
  check_length(means.shape(1), n_atoms, "a row of means");
  if (wanted) check_length(wanted->size(), n_atoms, "wanted");
  const AtomPoints atoms{span_of(start), span_of(points),
                         wanted ? reinterpret_cast<const uint8_t*>(wanted->data()) : nullptr};
  return watched(deadline, stop, [&](const Watch& watch) {
    return code_means(grid, weights.data(), bias.data(), rows_of(weights.shape(0)), atoms, watch, threads,
                      means.data());
  });
}

void bind_codes(nb::module_& m) {
  m.def(
      "inverse_lengths",
      [](Cube<const float> planes, Vector<const int64_t> shifts, int64_t height, int64_t width, float floor,
         double deadline, nb::object stop) {
        const DescriptorGrid grid = grid_of(planes, shifts, std::nullopt, height, width);
        return made<float>({static_cast<size_t>(height), static_cast<size_t>(width)}, deadline, stop,
                           [&](const Watch& watch, float* out) {
                             return inverse_lengths(planes.data(), grid.shifts, grid.padded, height, width,
                                                    floor, watch, out);
                           });
      },
      "planes"_a.noconvert(), "shifts"_a.noconvert(), "height"_a, "width"_a, "floor"_a, ANYTIME_UNTIL,
      "1 / (length + floor) of the descriptor of every grid point.");
  m.def(
      "point_means",
      [](Cube<const float> planes, Vector<const int64_t> start, Vector<const int32_t> points, double deadline,
         nb::object stop) {
        const DescriptorGrid grid{{}, {}, nullptr, 0, rows_of(planes.shape(1)), rows_of(planes.shape(2))};
        check_picture(grid.height, grid.width);
        check_points(points, grid);
        check_lists(start, points.size());
        return made<double>(
            {start.size() - 1, 2 * planes.shape(0)}, deadline, stop, [&](const Watch& watch, double* out) {
              return point_means(planes.data(), rows_of(planes.shape(0)), grid.height * grid.width,
                                 {span_of(start), span_of(points)}, watch, out);
            });
      },
      "planes"_a.noconvert(), "start"_a.noconvert(), "points"_a.noconvert(), ANYTIME_UNTIL,
      "Means over atoms of planes and of their squares.");
  m.def(
      "code_means", &means_of_codes, "planes"_a.noconvert(), "shifts"_a.noconvert(),
      "scale"_a.noconvert().none(), "height"_a, "width"_a, "weights"_a.noconvert(), "bias"_a.noconvert(),
      "start"_a.noconvert(), "points"_a.noconvert(), "wanted"_a.noconvert().none(), "means"_a.noconvert(),
      ANYTIME_UNTIL, "threads"_a = 1,
      "Means over atoms of max(0, bias + <weights, descriptor>), one row per centre; False: stopped before the end.");
  m.def(
      "descriptors_at",
      [](Cube<const float> planes, Vector<const int64_t> shifts, std::optional<Matrix<const float>> scale,
         int64_t height, int64_t width, Vector<const int32_t> points) {
        const DescriptorGrid grid = grid_of(planes, shifts, scale, height, width);
        check_points(points, grid);
        float* out;
        nb::object found = new_array<float>({points.size(), shifts.size()}, &out);
        const nb::gil_scoped_release unlocked;
        descriptors_at(grid, span_of(points), out);
        return found;
      },
      "planes"_a.noconvert(), "shifts"_a.noconvert(), "scale"_a.noconvert().none(), "height"_a, "width"_a,
      "points"_a.noconvert(), "The descriptors of some grid points.");
}

void means_of_regions(Vector<const int64_t> start, Vector<const int64_t> element, Vector<const double> share,
                      Matrix<const double> values, std::optional<Vector<const bool>> wanted,
                      Matrix<double> means) {
  check_lists(start, element.size());
  check_length(share.size(), element.size(), "share");
  check_length(means.shape(0), start.size() - 1, "means");
  check_length(means.shape(1), values.shape(1), "a row of means");
  if (wanted) check_length(wanted->size(), start.size() - 1, "wanted");
  for (const int64_t e : span_of(element)) {
    if (e < 0 || e >= rows_of(values.shape(0))) throw std::invalid_argument("no such element");
  }
  const nb::gil_scoped_release unlocked;
  region_means({span_of(start), span_of(element), span_of(share)}, values.data(), rows_of(values.shape(1)),
               wanted ? reinterpret_cast<const uint8_t*>(wanted->data()) : nullptr, means.data());
}

}  // namespace

void bind_scene(nb::module_& m) {
  m.def("region_means", &means_of_regions, "start"_a.noconvert(), "element"_a.noconvert(),
        "share"_a.noconvert(), "values"_a.noconvert(), "wanted"_a.noconvert().none(), "means"_a.noconvert(),
        "Means over regions, of all or of those that are wanted; the others are left as they are.");
  bind_segments(m);
  bind_descriptors(m);
  bind_codes(m);
}

}  // namespace anytime
