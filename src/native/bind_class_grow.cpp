// What growers of budgeted trees call.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bins.hpp"
#include "class_grow.hpp"
#include "costs.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

// An impurity written in Python: called from any thread, its first error kept for the caller.
class PythonImpurity {
 public:
  explicit PythonImpurity(nb::object function) : function_(std::move(function)) {}

  bool operator()(const double* statistics, int64_t n, int32_t width, double* out) {
    const nb::gil_scoped_acquire locked;
    if (failure_) return false;
    try {
      double* copy;
      const auto rows = static_cast<size_t>(n), columns = static_cast<size_t>(width);
      nb::object sets = new_array<double>({rows, columns}, &copy);
      std::copy_n(statistics, rows * columns, copy);
      const auto found = nb::cast<Vector<const double>>(function_(sets));
      check_length(found.size(), rows, "what the impurity returned");
      std::copy_n(found.data(), rows, out);
      return true;
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
  }
  // To be called with the interpreter's lock.
  void rethrow() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  nb::object function_;
  std::exception_ptr failure_;  // guarded by the interpreter's lock
};

ImpurityRule rule_of(const std::string& name, const nb::object& parameter, PythonImpurity& custom) {
  ImpurityRule rule;
  if (name == "pairs") {
    rule.alpha = nb::cast<double>(parameter);
    return rule;
  }
  if (name == "powers") {
    rule.kind = ImpurityKind::kPowers;
    rule.degree = nb::cast<int32_t>(parameter);
    return rule;
  }
  if (name == "polynomial") {
    rule.kind = ImpurityKind::kPolynomial;
    for (const nb::handle term : nb::cast<nb::sequence>(parameter)) {
      PolynomialTerm& to = rule.terms.emplace_back();
      to.factor = nb::cast<double>(term[0]);
      for (const nb::handle power : nb::cast<nb::sequence>(term[1]))
        to.exponents.push_back(nb::cast<int32_t>(power));
    }
    return rule;
  }
  if (name == "custom") {
    rule.kind = ImpurityKind::kCustom;
    rule.custom = [&custom](const double* statistics, int64_t n, int32_t width, double* out) {
      return custom(statistics, n, width, out);
    };
    return rule;
  }
  const std::pair<const char*, ImpurityKind> plain[] = {{"entropy", ImpurityKind::kEntropy},
                                                        {"gini", ImpurityKind::kGini},
                                                        {"squared_pairs", ImpurityKind::kSquaredPairs},
                                                        {"squared_error", ImpurityKind::kSquaredError}};
  for (const auto& [known, kind] : plain) {
    if (name != known) continue;
    rule.kind = kind;
    return rule;
  }
  throw std::invalid_argument("no impurity is called '" + name + "'");
}

// (arrays of TreeArrays, statistics, risk in ticks, depth)
nb::tuple tree_of(const ClassTree& grown) {
  double* statistics;
  nb::object sums =
      new_array<double>({grown.tree.nodes.size(), static_cast<size_t>(grown.width)}, &statistics);
  std::copy(grown.statistics.begin(), grown.statistics.end(), statistics);
  return nb::make_tuple(tree_arrays(grown.tree), sums, array_of(std::span<const double>(grown.risk)),
                        grown.depth);
}

nb::list grow_trees(const Bins& bins, Vector<const double> y, std::optional<Vector<const double>> weight,
                    int32_t n_classes, std::optional<Vector<const int64_t>> rows,
                    std::optional<Vector<const bool>> columns, const CostTable* table,
                    const std::string& impurity, nb::object parameter, ClassGrowOptions options,
                    uint64_t seed, int64_t first_tree, int64_t n_trees, bool bootstrap) {
  const auto n = static_cast<size_t>(bins.n_rows()), d = static_cast<size_t>(bins.cuts().n_columns());
  check_length(y.size(), n, "y");
  if (weight) check_length(weight->size(), n, "weight");
  if (columns) check_length(columns->size(), d, "columns");
  if (table != nullptr) check_length(static_cast<size_t>(table->n_columns()), d, "costs");
  if (n_classes < 0 || first_tree < 0 || n_trees < 0)
    throw std::invalid_argument("n_classes, first_tree and n_trees must not be negative");
  PythonImpurity custom(parameter);
  options.impurity = rule_of(impurity, parameter, custom);
  ClassTargets targets{.y = span_of(y), .weight = {}, .n_classes = n_classes};
  if (weight) targets.weight = span_of(*weight);
  std::optional<std::span<const int64_t>> some;
  if (rows) some = span_of(*rows);
  std::optional<std::span<const uint8_t>> allowed;
  if (columns) allowed = {reinterpret_cast<const uint8_t*>(columns->data()), columns->size()};
  const ForestDraw draw{.seed = seed, .first_tree = first_tree, .n_trees = n_trees, .bootstrap = bootstrap};
  std::vector<ClassTree> trees;
  {
    const nb::gil_scoped_release unlocked;
    trees = grow_class_trees(bins, targets, some, allowed, table, options, draw);
  }
  custom.rethrow();
  nb::list out;
  for (ClassTree& tree : trees) {
    out.append(tree_of(tree));
    tree = ClassTree();  // its memory is needed for the next
  }
  return out;
}

}  // namespace

void bind_class_grow(nb::module_& m) {
  nb::class_<ClassGrowOptions>(m, "ClassGrowOptions",
                               "How a tree is grown; see anytime.forests.growing.ClassTreeGrower.")
      .def(
          "__init__",
          [](ClassGrowOptions* self, bool expected, bool multiway, bool random, int64_t max_features,
             int64_t max_depth, int64_t min_rows, double min_impurity, bool discount_reused, int threads) {
            new (self) ClassGrowOptions{{},        expected, multiway,     random,          max_features,
                                        max_depth, min_rows, min_impurity, discount_reused, threads};
          },
          nb::kw_only(), "expected"_a, "multiway"_a, "random"_a, "max_features"_a, "max_depth"_a,
          "min_rows"_a, "min_impurity"_a, "discount_reused"_a, "threads"_a);
  m.def("grow_class_trees", &grow_trees, "bins"_a, "y"_a.noconvert(), "weight"_a.noconvert().none(),
        "n_classes"_a, "rows"_a.noconvert().none(), "columns"_a.noconvert().none(), "table"_a.none(),
        "impurity"_a, "parameter"_a.none(), "options"_a, "seed"_a, "first_tree"_a, "n_trees"_a, "bootstrap"_a,
        "Grow trees: (fields of TreeArrays, statistics, risk in ticks, depth) for each of them.");
  m.def(
      "bootstrap_counts",
      [](int64_t n, uint64_t seed, int64_t tree) {
        if (n < 0) throw std::invalid_argument("n must not be negative");
        return array_of(std::span<const int32_t>(bootstrap_counts(n, seed, tree)));
      },
      "n"_a, "seed"_a, "tree"_a, "How often a tree draws each of n rows.");
}

}  // namespace anytime
