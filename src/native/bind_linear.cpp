// What linear learners and models call: products with stable rows, and the blocks of a covariance matrix.
#include <nanobind/stl/optional.h>

#include <optional>

#include "arrays.hpp"
#include "blocks.hpp"
#include "products.hpp"
#include "softmax.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

void bind_products(nb::module_& m) {
  m.def(
      "row_products",
      [](Matrix<const double> left, Matrix<const double> right) {
        check_length(right.shape(0), left.shape(1), "right");
        double* out;
        nb::object product = new_array<double>({left.shape(0), right.shape(1)}, &out);
        const nb::gil_scoped_release unlocked;
        row_products(left.data(), static_cast<int64_t>(left.shape(0)), static_cast<int64_t>(left.shape(1)),
                     right.data(), static_cast<int64_t>(right.shape(1)), out);
        return product;
      },
      "left"_a, "right"_a, "left @ right, each row with the same bits whatever rows stand beside it.");
  m.def(
      "linear_outputs",
      [](Matrix<const double> X, Vector<const int32_t> columns, std::optional<Vector<const double>> centres,
         Matrix<const double> coefficients, Vector<const double> intercept) {
        const size_t n = X.shape(0), m_ = columns.size(), k = coefficients.shape(1);
        check_length(coefficients.shape(0), m_, "coefficients");
        check_length(intercept.size(), k, "intercept");
        if (centres) check_length(centres->size(), m_, "centres");
        for (size_t j = 0; j < m_; ++j) {
          if (columns.data()[j] < 0 || static_cast<size_t>(columns.data()[j]) >= X.shape(1)) {
            throw std::invalid_argument("a column is not among those of X");
          }
        }
        double* out;
        nb::object outputs = new_array<double>({n, k}, &out);
        const double* centre = centres ? centres->data() : nullptr;
        const nb::gil_scoped_release unlocked;
        linear_outputs(X.data(), static_cast<int64_t>(n), static_cast<int64_t>(X.shape(1)), columns.data(),
                       static_cast<int64_t>(m_), centre, coefficients.data(), static_cast<int64_t>(k),
                       intercept.data(), out);
        return outputs;
      },
      "X"_a, "columns"_a, "centres"_a.none(), "coefficients"_a, "intercept"_a,
      "intercept + (X[:, columns] - centres) @ coefficients; with centres a missing value adds nothing.");
}

template <class T>
nb::object checked_pull(Matrix<const T> scores, Vector<const int64_t> classes, Vector<const T> weight) {
  const size_t n_classes = scores.shape(0), n = scores.shape(1);
  check_length(classes.size(), n, "classes");
  check_length(weight.size(), n, "weight");
  for (const int64_t c : span_of(classes)) {
    if (c < 0 || static_cast<size_t>(c) >= n_classes) throw std::invalid_argument("no such class");
  }
  T* out;
  nb::object pull = new_array<T>({n_classes, n}, &out);
  const nb::gil_scoped_release unlocked;
  softmax_pull<T>(scores.data(), n_classes, span_of(classes), span_of(weight), out);
  return pull;
}

void bind_softmax(nb::module_& m) {
  constexpr const char* kAbout =
      "Weight times the gradient of the multinomial loss in the scores, (K, n); scores are (K, n).";
  m.def("softmax_pull", &checked_pull<double>, "scores"_a.noconvert(), "classes"_a.noconvert(),
        "weight"_a.noconvert(), kAbout);
  m.def("softmax_pull", &checked_pull<float>, "scores"_a.noconvert(), "classes"_a.noconvert(),
        "weight"_a.noconvert(), kAbout);
}

Blocks checked_blocks(const Vector<const int64_t>& start, const Vector<const int64_t>& place,
                      size_t n_numbers, size_t n_columns) {
  if (start.size() == 0) throw std::invalid_argument("start is empty");
  check_length(place.size(), start.size(), "place");
  const auto s = span_of(start), p = span_of(place);
  bool good = s.front() == 0 && p.front() == 0;
  for (size_t g = 0; good && g + 1 < s.size(); ++g) {
    const int64_t size = s[g + 1] - s[g];
    good = size >= 0 && p[g + 1] - p[g] == size * size;
  }
  if (!good || s.back() != static_cast<int64_t>(n_columns) || p.back() != static_cast<int64_t>(n_numbers)) {
    throw std::invalid_argument("start and place do not describe the blocks");
  }
  return {s, p};
}

void check_groups(const Vector<const int64_t>& groups, const Blocks& at) {
  for (const int64_t g : span_of(groups)) {
    if (g < 0 || static_cast<size_t>(g) + 1 >= at.start.size()) throw std::invalid_argument("no such group");
  }
}

void bind_blocks(nb::module_& m) {
  m.def(
      "block_gains",
      [](Vector<const int64_t> start, Vector<const int64_t> place, Vector<const double> blocks,
         Matrix<const double> b, Vector<const double> floor, Vector<const int64_t> groups) {
        const Blocks at = checked_blocks(start, place, blocks.size(), b.shape(0));
        check_length(floor.size(), b.shape(0), "floor");
        check_groups(groups, at);
        double* out;
        nb::object gains = new_array<double>({groups.size()}, &out);
        const nb::gil_scoped_release unlocked;
        block_gains(at, span_of(blocks), {b.data(), b.size()}, static_cast<int64_t>(b.shape(1)),
                    span_of(floor), span_of(groups), {out, groups.size()});
        return gains;
      },
      "start"_a.noconvert(), "place"_a.noconvert(), "blocks"_a.noconvert(), "b"_a.noconvert(),
      "floor"_a.noconvert(), "groups"_a.noconvert(), "b' A^-1 b / 2 for the blocks of the groups.");
  m.def(
      "buy_group",
      [](Vector<const int64_t> start, Vector<const int64_t> place, std::optional<Vector<double>> blocks,
         Vector<const int64_t> left, Matrix<double> panel, int64_t group, Matrix<double> b,
         Vector<const double> floor, Matrix<double> z) {
        const size_t d = b.shape(0);
        if (place.size() == 0) throw std::invalid_argument("place is empty");
        const size_t n_numbers =
            blocks ? blocks->size() : static_cast<size_t>(place.data()[place.size() - 1]);
        const Blocks at = checked_blocks(start, place, n_numbers, d);
        check_groups(left, at);
        if (group < 0 || static_cast<size_t>(group) + 1 >= at.start.size())
          throw std::invalid_argument("no such group");
        const int64_t first = at.start[static_cast<size_t>(group)];
        const int64_t q = at.start[static_cast<size_t>(group) + 1] - first;
        check_length(panel.shape(0), static_cast<size_t>(q), "panel");
        check_length(panel.shape(1), d, "a row of panel");
        check_length(z.shape(0), static_cast<size_t>(q), "z");
        check_length(z.shape(1), b.shape(1), "a row of z");
        check_length(floor.size(), d, "floor");
        const std::span<double> deflated = blocks ? span_of(*blocks) : std::span<double>{};
        const nb::gil_scoped_release unlocked;
        return buy_group(at, deflated, span_of(left), panel.data(), q, first, b.data(),
                         static_cast<int64_t>(b.shape(1)), floor.data(), z.data());
      },
      // converted arrays would be copies, and what is written to them lost
      "start"_a.noconvert(), "place"_a.noconvert(), "blocks"_a.noconvert().none(), "left"_a.noconvert(),
      "panel"_a.noconvert(), "group"_a, "b"_a.noconvert(), "floor"_a.noconvert(), "z"_a.noconvert(),
      "One step of a block Cholesky factorisation, in place; returns how many directions were not dependent.");
}

}  // namespace

void bind_linear(nb::module_& m) {
  bind_products(m);
  bind_softmax(m);
  bind_blocks(m);
}

}  // namespace anytime
