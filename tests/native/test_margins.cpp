// Purchases by margins: the example of the paper, and the same purchases however they are cut up.
#include <cmath>
#include <memory>
#include <vector>

#include "checking.hpp"
#include "margins.hpp"
#include "threads.hpp"

using namespace anytime;

namespace {

struct Rows {
  explicit Rows(size_t n_rows, size_t n_groups, size_t n_points)
      : order(n_rows * n_groups, -1),
        owned(n_rows, 0),
        next(n_rows, kUndecided),
        estimate(n_rows),
        promise(n_rows),
        margins(n_rows * n_points),
        distances(n_rows * n_points),
        n_groups_(n_groups),
        n_points_(n_points) {}

  MarginRow at(size_t i, const std::vector<double>& x, bool running) {
    const size_t d = x.size() / owned.size();
    return {.coordinates = x.data() + i * d,
            .order = order.data() + i * n_groups_,
            .owned = owned.data() + i,
            .next = next.data() + i,
            .estimate = estimate.data() + i,
            .promise = promise.data() + i,
            .margins = running ? margins.data() + i * n_points_ : nullptr,
            .distances = running ? distances.data() + i * n_points_ : nullptr};
  }

  std::vector<int32_t> order, owned, next;
  std::vector<double> estimate, promise, margins, distances;

 private:
  size_t n_groups_, n_points_;
};

std::shared_ptr<const CostTable> unit_prices(size_t d) {
  std::vector<int32_t> column_group(d);
  for (size_t j = 0; j < d; ++j) column_group[j] = static_cast<int32_t>(j);
  return std::make_shared<const CostTable>(std::vector<int64_t>(d, 1), std::vector<int64_t>(d + 1, 0),
                                           std::vector<int32_t>{}, column_group);
}

// Eight points, three columns (Nan 2018, figure 2.1).
void test_toy() {
  const double points[8][3] = {{1, -1, -1}, {1, -1, -1}, {-1, 1, 1}, {-1, 1, 1},
                               {-1, 1, -1}, {1, 1, 1},   {1, 1, 1},  {1, 1, 1}};
  const double weights[3] = {0.9995, 1.4998, -0.5002}, offset = -0.9997;
  std::vector<double> start(8), contributions(24), coordinates(24);
  for (size_t l = 0; l < 8; ++l) {
    const double label = l < 4 ? -1.0 : 1.0;
    start[l] = label * offset;
    for (size_t j = 0; j < 3; ++j) {
      contributions[l * 3 + j] = label * weights[j] * points[l][j];
      coordinates[j * 8 + l] = points[l][j];
    }
  }
  const std::vector<uint8_t> all(3, 1);
  const Margins margins(unit_prices(3), start, contributions, coordinates, all,
                        {.neighbourhood = Neighbourhood::kExact, .enough = 0.99});
  const std::vector<double> x{1, -1, -1, 1, 1, 1};
  Rows rows(2, 3, 8);
  MarginScratch scratch = margins.scratch();
  for (size_t i = 0; i < 2; ++i) {
    margins.choose(rows.at(i, x, true), scratch);
    CHECK(rows.next[i] == 1 && rows.promise[i] == 6.0 / 8);
    margins.proceed(rows.at(i, x, true), 1, scratch);
    margins.choose(rows.at(i, x, true), scratch);
  }
  CHECK(rows.next[0] == kFinished && rows.estimate[0] == 1.0);
  CHECK(rows.next[1] == 0 && rows.promise[1] == 5.0 / 6);
}

// One purchase after the other, all at once, with sums carried on or made again, on two threads: the same.
void test_cuts() {
  Random random(7);
  const size_t n = 50, d = 6, m = 20;
  std::vector<double> start(n), contributions(n * d), coordinates(n * d), x(m * d);
  for (auto* numbers : {&start, &contributions, &coordinates, &x})
    for (double& value : *numbers) value = normal(random);
  x[3] = std::nan("");
  const std::vector<uint8_t> all(d, 1);
  for (const Neighbourhood neighbourhood :
       {Neighbourhood::kNearest, Neighbourhood::kRadius, Neighbourhood::kExact}) {
    for (const bool refresh : {true, false}) {
      const Margins margins(
          unit_prices(d), start, contributions, coordinates, all,
          {.neighbourhood = neighbourhood, .n_neighbours = 7, .radius = 1.0, .refresh = refresh});
      Rows slow(m, d, n), quick(m, d, n);
      MarginScratch scratch = margins.scratch();
      for (size_t i = 0; i < m; ++i)
        for (int t = 0; t < 4; ++t) margins.proceed(slow.at(i, x, true), 1, scratch);
      Team team(2);
      std::vector<MarginScratch> rooms(team.size(), margins.scratch());
      team.each(static_cast<int64_t>(m), true, [&](int64_t i, size_t part) noexcept {
        margins.proceed(quick.at(static_cast<size_t>(i), x, false), 4, rooms[part]);
      });
      for (size_t i = 0; i < m; ++i) {
        margins.check(slow.at(i, x, true), scratch);
        CHECK(slow.owned[i] == 4);
        margins.choose(slow.at(i, x, true), scratch);
        margins.choose(quick.at(i, x, false), scratch);
      }
      CHECK(slow.order == quick.order && slow.next == quick.next && slow.estimate == quick.estimate);
    }
  }
}

}  // namespace

void test_margins() {
  test_toy();
  test_cuts();
}
