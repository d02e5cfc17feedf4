// Products with stable rows, and the blocks of a covariance matrix, against plain elimination.
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "blocks.hpp"
#include "checking.hpp"
#include "lasso.hpp"
#include "products.hpp"

using namespace anytime;

namespace {

using Numbers = std::vector<double>;

Numbers random_numbers(Random& random, int64_t n) {
  Numbers out(static_cast<size_t>(n));
  for (double& v : out) v = normal(random);
  return out;
}

bool close(double left, double right, double tolerance = 1e-10) {
  return std::abs(left - right) <= tolerance * (1.0 + std::abs(right));
}

// X = A^-1 B for A (n, n) and B (n, p), by Gaussian elimination with pivoting.
Numbers solved(Numbers a, Numbers b, int64_t n, int64_t p) {
  for (int64_t j = 0; j < n; ++j) {
    int64_t best = j;
    for (int64_t i = j; i < n; ++i) {
      if (std::abs(a[static_cast<size_t>(i * n + j)]) > std::abs(a[static_cast<size_t>(best * n + j)]))
        best = i;
    }
    for (int64_t c = 0; c < n; ++c)
      std::swap(a[static_cast<size_t>(j * n + c)], a[static_cast<size_t>(best * n + c)]);
    for (int64_t c = 0; c < p; ++c)
      std::swap(b[static_cast<size_t>(j * p + c)], b[static_cast<size_t>(best * p + c)]);
    for (int64_t i = 0; i < n; ++i) {
      const double times =
          i == j ? 0.0 : a[static_cast<size_t>(i * n + j)] / a[static_cast<size_t>(j * n + j)];
      for (int64_t c = 0; c < n; ++c)
        a[static_cast<size_t>(i * n + c)] -= times * a[static_cast<size_t>(j * n + c)];
      for (int64_t c = 0; c < p; ++c)
        b[static_cast<size_t>(i * p + c)] -= times * b[static_cast<size_t>(j * p + c)];
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < p; ++c) b[static_cast<size_t>(i * p + c)] /= a[static_cast<size_t>(i * n + i)];
  }
  return b;
}

// Least squares by moments: C (d, d), v (d, p), groups of columns.
struct Problem {
  std::vector<int64_t> start, place{0};
  int64_t d = 0, p = 0;
  Numbers covariance, v, floor;

  Problem(Random& random, std::vector<int64_t> groups, int64_t outputs)
      : start(std::move(groups)), p(outputs) {
    d = start.back();
    const int64_t n = 3 * d;
    const Numbers x = random_numbers(random, n * d);
    covariance.assign(static_cast<size_t>(d * d), 0.0);
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        double sum = 0.0;
        for (int64_t r = 0; r < n; ++r)
          sum += x[static_cast<size_t>(r * d + i)] * x[static_cast<size_t>(r * d + j)];
        covariance[static_cast<size_t>(i * d + j)] = sum / static_cast<double>(n);
      }
    }
    v = random_numbers(random, d * p);
    finish();
  }

  void finish() {
    floor.resize(static_cast<size_t>(d));
    for (int64_t j = 0; j < d; ++j) floor[static_cast<size_t>(j)] = 1e-10 * at(j, j);
    place.assign(1, 0);
    for (size_t g = 0; g + 1 < start.size(); ++g) {
      const int64_t size = start[g + 1] - start[g];
      place.push_back(place.back() + size * size);
    }
  }

  double at(int64_t i, int64_t j) const { return covariance[static_cast<size_t>(i * d + j)]; }
  Blocks view() const { return {start, place}; }

  Numbers blocks() const {
    Numbers out;
    for (size_t g = 0; g + 1 < start.size(); ++g) {
      for (int64_t i = start[g]; i < start[g + 1]; ++i) {
        for (int64_t j = start[g]; j < start[g + 1]; ++j) out.push_back(at(i, j));
      }
    }
    return out;
  }

  // Half of v' C^-1 v over some columns.
  double value(const std::vector<int64_t>& columns) const {
    const auto m = static_cast<int64_t>(columns.size());
    Numbers a, b;
    for (const int64_t i : columns) {
      for (const int64_t j : columns) a.push_back(at(i, j));
      for (int64_t c = 0; c < p; ++c) b.push_back(v[static_cast<size_t>(i * p + c)]);
    }
    const Numbers w = solved(a, b, m, p);
    double sum = 0.0;
    for (size_t k = 0; k < b.size(); ++k) sum += b[k] * w[k];
    return 0.5 * sum;
  }

  std::vector<int64_t> columns_of(int64_t g) const {
    std::vector<int64_t> out;
    for (int64_t j = start[static_cast<size_t>(g)]; j < start[static_cast<size_t>(g) + 1]; ++j)
      out.push_back(j);
    return out;
  }
};

// A factorisation under way: rows of the factor, what is left of C and of v.
struct Factor {
  explicit Factor(const Problem& of) : problem(of), left(of.covariance), b(of.v), blocks(of.blocks()) {}

  int64_t buy(int64_t g, const std::vector<int64_t>& others) {
    const int64_t d = problem.d, first = problem.start[static_cast<size_t>(g)];
    const int64_t q = problem.start[static_cast<size_t>(g) + 1] - first;
    Numbers panel(left.begin() + first * d, left.begin() + (first + q) * d);
    Numbers z(static_cast<size_t>(q * problem.p));
    const int64_t kept = buy_group(problem.view(), blocks, others, panel.data(), q, first, b.data(),
                                   problem.p, problem.floor.data(), z.data());
    for (const double part : z) value += 0.5 * part * part;
    for (int64_t r = 0; r < q; ++r) {
      const double* row = panel.data() + r * d;
      for (int64_t i = 0; i < d; ++i) {
        for (int64_t j = 0; j < d; ++j) left[static_cast<size_t>(i * d + j)] -= row[i] * row[j];
      }
    }
    for (int64_t i = 0; i < d; ++i) {  // bought columns are gone
      for (int64_t j = first; j < first + q; ++j) {
        left[static_cast<size_t>(i * d + j)] = left[static_cast<size_t>(j * d + i)] = 0.0;
      }
    }
    return kept;
  }

  const Problem& problem;
  Numbers left, b, blocks;
  double value = 0.0;
};

void test_products_have_the_same_rows_in_any_company() {
  Random random(1);
  for (int64_t m = 0; m < 40; ++m) {
    const Numbers left = random_numbers(random, 5 * m), right = random_numbers(random, m * 3);
    double plain = 0.0;
    for (int64_t j = 0; j < m; ++j) plain += left[static_cast<size_t>(j)] * right[static_cast<size_t>(j)];
    CHECK(close(dot(left.data(), right.data(), m), plain));
    Numbers all(15), one(3);
    row_products(left.data(), 5, m, right.data(), 3, all.data());
    for (int64_t i = 0; i < 5; ++i) {
      row_products(left.data() + i * m, 1, m, right.data(), 3, one.data());
      for (int64_t c = 0; c < 3; ++c)
        CHECK(one[static_cast<size_t>(c)] == all[static_cast<size_t>(i * 3 + c)]);
    }
  }
}

void test_linear_outputs_skip_what_is_missing() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Numbers x{1.0, nan, 4.0, 2.0, 7.0, nan}, centres{3.0, 1.0}, weights{10.0, 100.0, -1.0, 2.0};
  const std::vector<int32_t> columns{2, 0};
  const Numbers intercept{0.5, -0.5};
  for (const int64_t k : {int64_t{1}, int64_t{2}}) {
    Numbers out(static_cast<size_t>(2 * k));
    const Numbers table = k == 1 ? Numbers{10.0, -1.0} : weights;
    linear_outputs(x.data(), 2, 3, columns.data(), 2, centres.data(), table.data(), k, intercept.data(),
                   out.data());
    CHECK(out[0] == 0.5 + (4.0 - 3.0) * 10.0 + 0.0 * -1.0);
    CHECK(out[static_cast<size_t>(k)] == 0.5 + 0.0 * 10.0 + (2.0 - 1.0) * -1.0);  // the gap adds nothing
    if (k == 2) CHECK(out[1] == -0.5 + 1.0 * 100.0 + 0.0 * 2.0 && out[3] == -0.5 + 1.0 * 2.0);
    linear_outputs(x.data(), 2, 3, columns.data(), 2, nullptr, table.data(), k, intercept.data(), out.data());
    CHECK(out[0] == 0.5 + 40.0 - 1.0 && std::isnan(out[static_cast<size_t>(k)]));
  }
}

void test_gains_and_purchases_are_those_of_elimination() {
  Random random(2);
  for (int round = 0; round < 20; ++round) {
    const Problem problem(random, {0, 2, 2, 5, 6, 9}, 1 + round % 3);  // the second group has no columns
    const std::vector<int64_t> order{2, 1, 4, 0, 3};
    Factor factor(problem);
    std::vector<int64_t> bought;
    std::vector<int64_t> left{0, 1, 2, 3, 4};
    for (const int64_t g : order) {
      Numbers gains(left.size());
      block_gains(problem.view(), factor.blocks, factor.b, problem.p, problem.floor, left, gains);
      const double before = bought.empty() ? 0.0 : problem.value(bought);
      for (size_t k = 0; k < left.size(); ++k) {
        std::vector<int64_t> with = bought;
        for (const int64_t column : problem.columns_of(left[k])) with.push_back(column);
        CHECK(close(gains[k], with.empty() ? 0.0 : problem.value(with) - before, 1e-8));
      }
      std::erase(left, g);
      const std::vector<int64_t> own = problem.columns_of(g);
      CHECK(factor.buy(g, left) == static_cast<int64_t>(own.size()));
      bought.insert(bought.end(), own.begin(), own.end());
      CHECK(close(factor.value, bought.empty() ? 0.0 : problem.value(bought), 1e-8));
      for (const int64_t column : own) {
        for (int64_t c = 0; c < problem.p; ++c)
          CHECK(factor.b[static_cast<size_t>(column * problem.p + c)] == 0.0);
      }
    }
  }
}

void test_dependent_directions_gain_nothing_and_are_counted() {
  Random random(3);
  Problem problem(random, {0, 3, 5}, 2);
  const auto copy = [&](int64_t to, int64_t from) {
    for (int64_t j = 0; j < problem.d; ++j)
      problem.covariance[static_cast<size_t>(to * problem.d + j)] = problem.at(from, j);
    for (int64_t i = 0; i < problem.d; ++i)
      problem.covariance[static_cast<size_t>(i * problem.d + to)] = problem.at(i, from);
    for (int64_t c = 0; c < problem.p; ++c) {
      problem.v[static_cast<size_t>(to * problem.p + c)] =
          problem.v[static_cast<size_t>(from * problem.p + c)];
    }
  };
  copy(2, 0);  // within its group
  copy(3, 1);  // of another group
  problem.finish();
  const std::vector<int64_t> both{0, 1}, second{1};
  Factor factor(problem);
  Numbers gains(2);
  block_gains(problem.view(), factor.blocks, factor.b, problem.p, problem.floor, both, gains);
  CHECK(close(gains[0], problem.value({0, 1}), 1e-8));
  CHECK(factor.buy(0, second) == 2);
  CHECK(close(factor.value, problem.value({0, 1}), 1e-8));
  block_gains(problem.view(), factor.blocks, factor.b, problem.p, problem.floor, second, {gains.data(), 1});
  CHECK(close(gains[0], problem.value({0, 1, 4}) - problem.value({0, 1}), 1e-8));
  CHECK(factor.buy(1, {}) == 1);
  CHECK(close(factor.value, problem.value({0, 1, 4}), 1e-8));
}

// The conditions of optimality, from scratch: a group in use pulls exactly as hard as its limit, one that is
// not pulls no harder.
void test_descent_ends_at_the_optimum() {
  Random random(4);
  const std::vector<int64_t> start{0, 2, 3, 6, 6};  // the last group has no column
  const int64_t m = 6, p = 2;
  const Numbers x = random_numbers(random, 40 * m), v = random_numbers(random, m * p);
  Numbers gram(static_cast<size_t>(m * m), 0.0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < m; ++j) {
      for (int64_t r = 0; r < 40; ++r)
        gram[static_cast<size_t>(i * m + j)] +=
            x[static_cast<size_t>(r * m + i)] * x[static_cast<size_t>(r * m + j)] / 40.0;
    }
  }
  const Numbers limits{0.1, 0.5, 1.5, 1.0}, curvature{4.0, 4.0, 4.0, 4.0}, tolerance(4, 1e-9);
  Numbers weights(static_cast<size_t>(p * m), 0.0), gradient(v), spare(static_cast<size_t>(3 * p));
  const GroupLasso problem{
      .gram = gram.data(), .start = start, .limits = limits, .curvature = curvature, .n_outputs = p};
  CHECK(descend(problem, weights.data(), gradient.data(), tolerance.data(), 100'000, spare.data()));
  for (size_t g = 0; g < limits.size(); ++g) {
    double pull = 0.0, length = 0.0, agree = 0.0;
    for (int64_t j = start[g]; j < start[g + 1]; ++j) {
      for (int64_t c = 0; c < p; ++c) {
        double left = v[static_cast<size_t>(c * m + j)];
        for (int64_t i = 0; i < m; ++i)
          left -= gram[static_cast<size_t>(j * m + i)] * weights[static_cast<size_t>(c * m + i)];
        const double w = weights[static_cast<size_t>(c * m + j)];
        CHECK(close(gradient[static_cast<size_t>(c * m + j)], left, 1e-8));
        pull += left * left;
        length += w * w;
        agree += left * w;
      }
    }
    if (length > 0.0) {
      CHECK(close(std::sqrt(pull), limits[g], 1e-6));
      CHECK(close(agree, std::sqrt(pull * length), 1e-6));
    } else {
      CHECK(std::sqrt(pull) <= limits[g] + 1e-6);
    }
  }
}

}  // namespace

void test_linear() {
  test_products_have_the_same_rows_in_any_company();
  test_linear_outputs_skip_what_is_missing();
  test_gains_and_purchases_are_those_of_elimination();
  test_dependent_directions_gain_nothing_and_are_counted();
  test_descent_ends_at_the_optimum();
}
