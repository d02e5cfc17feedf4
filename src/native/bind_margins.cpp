// The Python face of buying by margins: many rows at once, each with a state of its own.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <array>
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

// Rows with all that is known of them. What is used as an index is copied: the caller could change it
// meanwhile.
class Rows {
 public:
  Rows(const Margins& reference, Matrix<const double> coordinates, Matrix<int32_t> order, Ints owned,
       Ints next, Doubles estimate, Doubles promise, Running margins, Running distances)
      : reference_(reference),
        coordinates_(std::move(coordinates)),
        estimate_(std::move(estimate)),
        promise_(std::move(promise)),
        margins_(std::move(margins)),
        distances_(std::move(distances)),
        given_{order.data(), owned.data(), next.data()},
        order_(order.data(), order.data() + order.size()),
        owned_(owned.data(), owned.data() + owned.size()),
        next_(next.data(), next.data() + next.size()) {
    const size_t n = coordinates_.shape(0);
    check_length(coordinates_.shape(1), static_cast<size_t>(reference.table().n_columns()),
                 "a row of coordinates");
    check_length(order.shape(0), n, "order");
    check_length(order.shape(1), static_cast<size_t>(reference.table().n_groups()), "a row of order");
    check_length(owned_.size(), n, "owned");
    check_length(next_.size(), n, "next");
    check_length(estimate_.size(), n, "estimate");
    check_length(promise_.size(), n, "promise");
    for (const Running* running : {&margins_, &distances_}) {
      if (!*running) continue;
      check_length((*running)->shape(0), n, "a running sum");
      check_length((*running)->shape(1), reference.n_points(), "a row of a running sum");
    }
    MarginScratch scratch = reference.scratch();
    for (size_t i = 0; i < n; ++i) reference.check(row(i), scratch);
  }

  // work(row, scratch) for all rows; several threads share them.
  template <class Work>
  void each(int threads, Work&& work) {
    {
      const nb::gil_scoped_release unlocked;
      Team team(threads);
      std::vector<MarginScratch> rooms(team.size(), reference_.scratch());
      team.each(static_cast<int64_t>(owned_.size()), true,
                [&](int64_t i, size_t part) noexcept { work(row(static_cast<size_t>(i)), rooms[part]); });
    }
    std::ranges::copy(order_, given_[0]);
    std::ranges::copy(owned_, given_[1]);
    std::ranges::copy(next_, given_[2]);
  }

 private:
  MarginRow row(size_t i) noexcept {
    const auto running = [i](const Running& sums) {
      return sums ? sums->data() + i * sums->shape(1) : nullptr;
    };
    return {.coordinates = coordinates_.data() + i * coordinates_.shape(1),
            .order = order_.data() + i * static_cast<size_t>(reference_.table().n_groups()),
            .owned = owned_.data() + i,
            .next = next_.data() + i,
            .estimate = estimate_.data() + i,
            .promise = promise_.data() + i,
            .margins = running(margins_),
            .distances = running(distances_)};
  }

  const Margins& reference_;
  Matrix<const double> coordinates_;
  Doubles estimate_, promise_;
  Running margins_, distances_;
  std::array<int32_t*, 3> given_;
  std::vector<int32_t> order_, owned_, next_;
};

void choose(const Margins& reference, Matrix<const double> coordinates, Matrix<int32_t> order, Ints owned,
            Ints next, Doubles estimate, Doubles promise, Running margins, Running distances, int threads) {
  Rows rows(reference, coordinates, order, owned, next, estimate, promise, margins, distances);
  rows.each(threads,
            [&](const MarginRow& row, MarginScratch& room) noexcept { reference.choose(row, room); });
}

void proceed(const Margins& reference, Matrix<const double> coordinates, Matrix<int32_t> order, Ints owned,
             Ints next, Doubles estimate, Doubles promise, Running margins, Running distances,
             int64_t purchases, int threads) {
  Rows rows(reference, coordinates, order, owned, next, estimate, promise, margins, distances);
  rows.each(threads, [&](const MarginRow& row, MarginScratch& room) noexcept {
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
