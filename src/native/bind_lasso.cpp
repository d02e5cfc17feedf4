// The Python face of the group lasso.
#include <algorithm>
#include <vector>

#include "arrays.hpp"
#include "lasso.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

bool group_lasso_descend(Matrix<const double> gram, Vector<const int64_t> start, Vector<const double> limits,
                         Vector<const double> curvature, Matrix<double> weights, Matrix<double> gradient,
                         Vector<const double> tolerance, int64_t max_sweeps) {
  const size_t m = gram.shape(0), n_groups = limits.size(), p = weights.shape(0);
  check_length(gram.shape(1), m, "a row of gram");
  check_length(start.size(), n_groups + 1, "start");
  check_length(curvature.size(), n_groups, "curvature");
  check_length(tolerance.size(), n_groups, "tolerance");
  check_length(weights.shape(1), m, "a row of weights");
  check_length(gradient.shape(0), p, "gradient");
  check_length(gradient.shape(1), m, "a row of gradient");
  const auto first = span_of(start);
  if (first.front() != 0 || first.back() != static_cast<int64_t>(m) || !std::ranges::is_sorted(first)) {
    throw std::invalid_argument("start must rise from 0 to the number of columns");
  }
  int64_t largest = 0;
  for (size_t g = 0; g < n_groups; ++g) largest = std::max(largest, first[g + 1] - first[g]);
  std::vector<double> spare(static_cast<size_t>(largest) * p);
  const GroupLasso problem{.gram = gram.data(),
                           .start = first,
                           .limits = span_of(limits),
                           .curvature = span_of(curvature),
                           .n_outputs = static_cast<int64_t>(p)};
  const nb::gil_scoped_release unlocked;
  return descend(problem, weights.data(), gradient.data(), tolerance.data(), max_sweeps, spare.data());
}

}  // namespace

void bind_lasso(nb::module_& m) {
  m.def("group_lasso_descend", &group_lasso_descend, "gram"_a, "start"_a, "limits"_a, "curvature"_a,
        "weights"_a.noconvert(), "gradient"_a.noconvert(), "tolerance"_a, "max_sweeps"_a,
        "Sweeps of block coordinate descent, in place; True when the last violated no condition.");
}

}  // namespace anytime
