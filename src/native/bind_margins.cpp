// The Python face of buying by margins: many rows at once, each with a state of its own.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "margins.hpp"
#include "threads.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

using Ints = Vector<int32_t>;
using Doubles = Vector<double>;
using Running = std::optional<Matrix<double>>;

// Rows with all that is known of them.
struct Rows {
  Matrix<const double> coordinates;
  Matrix<int32_t> order;
  Ints owned, next;
  Doubles estimate, promise;
  Running margins, distances;

  void check(const Margins& reference) const {
    const size_t n = coordinates.shape(0);
    check_length(coordinates.shape(1), static_cast<size_t>(reference.table().n_columns()),
                 "a row of coordinates");
    check_length(order.shape(0), n, "order");
    check_length(order.shape(1), static_cast<size_t>(reference.table().n_groups()), "a row of order");
    check_length(owned.size(), n, "owned");
    check_length(next.size(), n, "next");
    check_length(estimate.size(), n, "estimate");
    check_length(promise.size(), n, "promise");
    for (const Running* running : {&margins, &distances}) {
      if (!*running) continue;
      check_length((*running)->shape(0), n, "a running sum");
      check_length((*running)->shape(1), reference.n_points(), "a row of a running sum");
    }
    MarginScratch scratch = reference.scratch();
    for (size_t i = 0; i < n; ++i) reference.check(row(i), scratch);
  }

  MarginRow row(size_t i) const noexcept {
    const auto running = [i](const Running& sums) {
      return sums ? sums->data() + i * sums->shape(1) : nullptr;
    };
    return {.coordinates = coordinates.data() + i * coordinates.shape(1),
            .order = order.data() + i * order.shape(1),
            .owned = owned.data() + i,
            .next = next.data() + i,
            .estimate = estimate.data() + i,
            .promise = promise.data() + i,
            .margins = running(margins),
            .distances = running(distances)};
  }
};

// work(row, scratch) for all rows; several threads share them.
template <class Work>
void each_row(const Margins& reference, const Rows& rows, int threads, Work&& work) {
  rows.check(reference);
  const nb::gil_scoped_release unlocked;
  Team team(threads);
  std::vector<MarginScratch> rooms(team.size(), reference.scratch());
  team.each(static_cast<int64_t>(rows.owned.size()), true,
            [&](int64_t i, size_t part) noexcept { work(rows.row(static_cast<size_t>(i)), rooms[part]); });
}

void choose(const Margins& reference, Matrix<const double> coordinates, Matrix<int32_t> order, Ints owned,
            Ints next, Doubles estimate, Doubles promise, Running margins, Running distances, int threads) {
  const Rows rows{coordinates, order, owned, next, estimate, promise, margins, distances};
  each_row(reference, rows, threads,
           [&](const MarginRow& row, MarginScratch& room) noexcept { reference.choose(row, room); });
}

void proceed(const Margins& reference, Matrix<const double> coordinates, Matrix<int32_t> order, Ints owned,
             Ints next, Doubles estimate, Doubles promise, Running margins, Running distances,
             int64_t purchases, int threads) {
  const Rows rows{coordinates, order, owned, next, estimate, promise, margins, distances};
  each_row(reference, rows, threads, [&](const MarginRow& row, MarginScratch& room) noexcept {
    reference.proceed(row, purchases, room);
  });
}

}  // namespace

void bind_margins(nb::module_& m) {
  nb::class_<Margins>(m, "Margins", "Reference points by whose margins rows decide what to buy next.")
      .def(
          "__init__",
          [](Margins* self, std::shared_ptr<CostTable> table, Vector<const double> start,
             Matrix<const double> contributions, Matrix<const double> coordinates,
             Vector<const bool> candidate, int32_t neighbourhood, int64_t n_neighbours, double radius,
             double tick_weight, double enough, bool refresh, bool random, uint64_t seed) {
            if (neighbourhood < 0 || neighbourhood > 2) throw std::invalid_argument("no such neighbourhood");
            check_length(contributions.shape(0), start.size(), "contributions");
            check_length(coordinates.shape(1), start.size(), "a row of coordinates");
            const auto all = [](const Matrix<const double>& a) { return std::span(a.data(), a.size()); };
            new (self) Margins(std::move(table), span_of(start), all(contributions), all(coordinates),
                               {reinterpret_cast<const uint8_t*>(candidate.data()), candidate.size()},
                               {static_cast<Neighbourhood>(neighbourhood), n_neighbours, radius, tick_weight,
                                enough, refresh, random, seed});
          },
          "table"_a, "start"_a.noconvert(), "contributions"_a.noconvert(), "coordinates"_a.noconvert(),
          "candidate"_a.noconvert(), nb::kw_only(), "neighbourhood"_a, "n_neighbours"_a, "radius"_a,
          "tick_weight"_a, "enough"_a, "refresh"_a, "random"_a, "seed"_a)
      .def("choose", &choose, "coordinates"_a.noconvert(), "order"_a.noconvert(), "owned"_a.noconvert(),
           "next"_a.noconvert(), "estimate"_a.noconvert(), "promise"_a.noconvert(),
           "margins"_a.noconvert().none(), "distances"_a.noconvert().none(), nb::kw_only(), "threads"_a = 1,
           "Decide, for every row that has not, what to buy next.")
      .def("proceed", &proceed, "coordinates"_a.noconvert(), "order"_a.noconvert(), "owned"_a.noconvert(),
           "next"_a.noconvert(), "estimate"_a.noconvert(), "promise"_a.noconvert(),
           "margins"_a.noconvert().none(), "distances"_a.noconvert().none(), nb::kw_only(), "purchases"_a,
           "threads"_a = 1, "Make so many purchases in every row, or as many as are left.");
}

}  // namespace anytime
