// Linear scores over coded columns, and their training.
#include "arrays.hpp"
#include "coded.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

nb::object scores(Matrix<const double> x, Vector<const int32_t> sizes, Vector<const int64_t> starts,
                  Matrix<const float> weights, Vector<const float> bias, int threads) {
  check_length(sizes.size(), x.shape(1), "sizes");
  check_length(bias.size(), weights.shape(1), "bias");
  const CodedColumns columns{span_of(sizes), span_of(starts)};
  check_coded(columns, static_cast<int64_t>(weights.shape(0)));
  double* out;
  nb::object array = new_array<double>({x.shape(0), weights.shape(1)}, &out);
  const nb::gil_scoped_release unlocked;
  coded_scores(x.data(), static_cast<int64_t>(x.shape(0)), columns, weights.data(), bias.data(),
               static_cast<int64_t>(weights.shape(1)), threads, out);
  return array;
}

void fit(Matrix<const double> x, Vector<const int32_t> sizes, Vector<const int64_t> starts,
         Vector<const double> scales, Matrix<const double> offset, Vector<const int32_t> y,
         Vector<const double> weight, Matrix<float> weights, Vector<float> bias, int64_t epochs, double rate,
         double l2, uint64_t seed) {
  const size_t n = x.shape(0), k = weights.shape(1);
  check_length(sizes.size(), x.shape(1), "sizes");
  check_length(scales.size(), x.shape(1), "scales");
  check_length(offset.shape(0), n, "offset");
  check_length(offset.shape(1), k, "a row of offset");
  check_length(y.size(), n, "y");
  check_length(weight.size(), n, "weight");
  check_length(bias.size(), k, "bias");
  const CodedColumns columns{span_of(sizes), span_of(starts), span_of(scales)};
  check_coded(columns, static_cast<int64_t>(weights.shape(0)));
  for (size_t i = 0; i < n; ++i) {
    if (weight.data()[i] != 0.0 && (y.data()[i] < 0 || static_cast<size_t>(y.data()[i]) >= k))
      throw std::invalid_argument("y holds a class that has no score");
  }
  const CodedOptions options{.epochs = epochs, .rate = rate, .l2 = l2, .seed = seed};
  const nb::gil_scoped_release unlocked;
  coded_softmax_fit(x.data(), static_cast<int64_t>(n), columns, offset.data(), y.data(), weight.data(),
                    static_cast<int64_t>(k), options, static_cast<int64_t>(weights.shape(0)), weights.data(),
                    bias.data());
}

}  // namespace

void bind_coded(nb::module_& m) {
  m.def("coded_scores", &scores, "X"_a.noconvert(), "sizes"_a.noconvert(), "starts"_a.noconvert(),
        "weights"_a.noconvert(), "bias"_a.noconvert(), "threads"_a,
        "Linear scores of rows whose columns hold numbers or codes of categories.");
  m.def(
      "coded_softmax_fit", &fit, "X"_a.noconvert(), "sizes"_a.noconvert(), "starts"_a.noconvert(),
      "scales"_a.noconvert(), "offset"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert(),
      "weights"_a.noconvert(), "bias"_a.noconvert(), "epochs"_a, "rate"_a, "l2"_a, "seed"_a,
      "Multinomial logistic regression beside scores that are there already; weights and bias are changed.");
}

}  // namespace anytime
