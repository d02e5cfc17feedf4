// The Python face of purchases by neighbours: many rows at once, what each owns beside them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "neighbours.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

template <class T>
using Cube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Flags = Matrix<const bool>;

template <class Array>
std::vector<float> copied(const Array& array) {
  return {array.data(), array.data() + array.size()};
}

MaskedNets nets_of(const Cube<const float>& w1, const Matrix<const float>& b1, const Cube<const float>& w2,
                   const Matrix<const float>& b2, const Cube<const float>& w3, const Matrix<const float>& b3,
                   int64_t n_groups) {
  const auto at = [](size_t size) { return static_cast<int64_t>(size); };
  for (const size_t folds : {b1.shape(0), w2.shape(0), b2.shape(0), w3.shape(0), b3.shape(0)})
    check_length(folds, w1.shape(0), "a layer");
  check_length(w2.shape(1), w1.shape(2), "the second layer");
  check_length(w3.shape(1), w2.shape(2), "the last layer");
  if (at(w1.shape(1)) < n_groups)
    throw std::invalid_argument("the first layer does not read which groups are owned");
  return {at(w1.shape(0)), at(w1.shape(1)) - n_groups,
          n_groups,        at(w1.shape(2)),
          at(w2.shape(2)), at(w3.shape(2)),
          copied(w1),      copied(b1),
          copied(w2),      copied(b2),
          copied(w3),      copied(b3)};
}

// Rows that own the groups of `owned`. It is copied: the caller could change it meanwhile.
class GivenRows {
 public:
  GivenRows(const Neighbours& of, const Matrix<const float>& inputs, const Flags& owned)
      : owned_(owned.data(), owned.data() + owned.size()), barred_(of.table().n_groups(), uint8_t{0}) {
    const size_t n = inputs.shape(0), groups = barred_.size();
    check_length(inputs.shape(1), static_cast<size_t>(of.nets().n_inputs), "a row of inputs");
    check_length(owned.shape(0), n, "owned");
    check_length(owned.shape(1), groups, "a row of owned");
    for (size_t i = 0; i < n; ++i)
      rows_.push_back(
          {inputs.data() + i * inputs.shape(1), owned_.data() + i * groups, barred_.data(), 0, -1});
  }

  void bound(const Flags& barred, const Vector<const int64_t>& left,
             const std::optional<Vector<const int64_t>>& own, int64_t n_points) {
    const size_t groups = barred_.size();
    check_length(barred.shape(0), rows_.size(), "barred");
    check_length(barred.shape(1), groups, "a row of barred");
    check_length(left.size(), rows_.size(), "left");
    if (own) check_length(own->size(), rows_.size(), "own");
    barred_.assign(barred.data(), barred.data() + barred.size());
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].barred = barred_.data() + i * groups;
      rows_[i].left = left.data()[i];
      rows_[i].own = own ? own->data()[i] : -1;
      if (rows_[i].own < -1 || rows_[i].own >= n_points)
        throw std::invalid_argument("there is no such point");
    }
  }

  std::span<const NeighbourRow> all() const noexcept { return rows_; }

 private:
  std::vector<uint8_t> owned_, barred_;
  std::vector<NeighbourRow> rows_;
};

nb::object choose(const Neighbours& self, const Matrix<const float>& inputs, const Flags& owned,
                  const Flags& barred, const Vector<const int64_t>& left,
                  const std::optional<Vector<const int64_t>>& own, bool all_gains, int threads) {
  GivenRows rows(self, inputs, owned);
  rows.bound(barred, left, own, self.n_points());
  const size_t n = rows.all().size();
  int32_t* group;
  int64_t* price;
  double *gain, *gains = nullptr;
  nb::object groups = new_array<int32_t>({n}, &group), prices = new_array<int64_t>({n}, &price);
  nb::object best = new_array<double>({n}, &gain), every = nb::none();
  if (all_gains) every = new_array<double>({n, static_cast<size_t>(self.table().n_groups())}, &gains);
  {
    const nb::gil_scoped_release unlocked;
    std::vector<Purchase> found(n);
    self.choose(rows.all(), found, gains, threads);
    for (size_t i = 0; i < n; ++i) {
      group[i] = found[i].group;
      price[i] = found[i].price;
      gain[i] = found[i].gain;
    }
  }
  return nb::make_tuple(groups, prices, best, every);
}

nb::object nearest(const Neighbours& self, const Matrix<const float>& inputs, const Flags& owned,
                   int threads) {
  const GivenRows rows(self, inputs, owned);
  int32_t* near;
  nb::object out = new_array<int32_t>({rows.all().size(), static_cast<size_t>(self.n_near())}, &near);
  const nb::gil_scoped_release unlocked;
  self.nearest(rows.all(), near, threads);
  return out;
}

nb::object scores(const Neighbours& self, const Matrix<const float>& inputs, const Flags& owned,
                  int threads) {
  const GivenRows rows(self, inputs, owned);
  double* values;
  nb::object out =
      new_array<double>({rows.all().size(), static_cast<size_t>(self.nets().n_outputs)}, &values);
  const nb::gil_scoped_release unlocked;
  self.scores(rows.all(), values, threads);
  return out;
}

}  // namespace

void bind_neighbours(nb::module_& m) {
  nb::class_<Neighbours>(m, "Neighbours", "Reference points, and networks that were trained without them.")
      .def(
          "__init__",
          [](Neighbours* self, std::shared_ptr<const CostTable> table, Matrix<const float> inputs,
             Vector<const int32_t> input_group, int64_t n_measured, Vector<const int32_t> fold,
             std::optional<Vector<const int32_t>> labels, std::optional<Matrix<const float>> values,
             Cube<const float> w1, Matrix<const float> b1, Cube<const float> w2, Matrix<const float> b2,
             Cube<const float> w3, Matrix<const float> b3, int64_t n_neighbours, double floor,
             double price_power, int64_t look_ahead) {
            const int64_t n_groups = table->n_groups();
            check_length(inputs.shape(0), fold.size(), "inputs");
            if (labels.has_value() == values.has_value())
              throw std::invalid_argument("give labels or values");
            new (self)
                Neighbours(std::move(table), nets_of(w1, b1, w2, b2, w3, b3, n_groups),
                           {inputs.data(), inputs.size()}, span_of(input_group), n_measured, span_of(fold),
                           labels ? span_of(*labels) : std::span<const int32_t>{},
                           values ? std::span(values->data(), values->size()) : std::span<const float>{},
                           {n_neighbours, floor, price_power, look_ahead});
          },
          "table"_a, "inputs"_a.noconvert(), "input_group"_a.noconvert(), "n_measured"_a,
          "fold"_a.noconvert(), "labels"_a.noconvert().none(), "values"_a.noconvert().none(),
          "w1"_a.noconvert(), "b1"_a.noconvert(), "w2"_a.noconvert(), "b2"_a.noconvert(), "w3"_a.noconvert(),
          "b3"_a.noconvert(), nb::kw_only(), "n_neighbours"_a, "floor"_a, "price_power"_a, "look_ahead"_a)
      .def("choose", &choose, "inputs"_a.noconvert(), "owned"_a.noconvert(), "barred"_a.noconvert(),
           "left"_a.noconvert(), "own"_a.noconvert().none() = nb::none(), nb::kw_only(),
           "all_gains"_a = false, "threads"_a = 1,
           "The next group of each row, -1: none, its price with what goes with it, and the gain.")
      .def("nearest", &nearest, "inputs"_a.noconvert(), "owned"_a.noconvert(), nb::kw_only(), "threads"_a = 1,
           "The neighbours of each row.")
      .def("scores", &scores, "inputs"_a.noconvert(), "owned"_a.noconvert(), nb::kw_only(), "threads"_a = 1,
           "The mean of what the networks say of each row.");
}

}  // namespace anytime
