// The Python face of pruning.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>

#include "arrays.hpp"
#include "prune.hpp"
#include "prune_cut.hpp"
#include "prune_dual.hpp"
#include "refit.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

void check_splits(const PruneGraph& graph, size_t found, const char* name) {
  check_length(found, static_cast<size_t>(graph.n_splits()), name);
}

void construct_graph(PruneGraph* self, Vector<const int32_t> parent, Vector<const int64_t> tree_start,
                     Vector<const int64_t> group_start, Vector<const int32_t> node_groups,
                     Vector<const double> prices, Matrix<const int32_t> leaf,
                     std::optional<Vector<const double>> weight) {
  check_length(group_start.size(), parent.size() + 1, "group_start");
  if (tree_start.size() < 2) throw std::invalid_argument("there are no trees");
  check_length(leaf.shape(1), tree_start.size() - 1, "a row of leaf");
  if (weight) check_length(weight->size(), leaf.shape(0), "weight");
  const PruneArrays arrays{.parent = span_of(parent),
                           .tree_start = span_of(tree_start),
                           .group_start = span_of(group_start),
                           .node_groups = span_of(node_groups),
                           .prices = span_of(prices),
                           .leaf = {leaf.data(), leaf.size()},
                           .weight = weight ? span_of(*weight) : std::span<const double>()};
  const nb::gil_scoped_release unlocked;
  new (self) PruneGraph(arrays);
}

nb::tuple graph_cut(const PruneGraph& graph, Vector<const int64_t> gain, Vector<const double> rate,
                    Vector<uint8_t> fate) {
  check_splits(graph, gain.size(), "gain");
  check_length(rate.size(), static_cast<size_t>(graph.n_groups()), "rate");
  check_splits(graph, fate.size(), "fate");
  const std::span fates(reinterpret_cast<Fate*>(fate.data()), fate.size());
  CutWork work;
  {
    const nb::gil_scoped_release unlocked;
    work = cut(graph, {span_of(gain), span_of(rate)}, fates);
  }
  return nb::make_tuple(work.open_splits, work.open_links, work.pushes, work.relabels, work.searches);
}

DualStep step_named(const std::string& name) {
  if (name == "shares") return DualStep::kShares;
  if (name == "sqrt") return DualStep::kSqrt;
  if (name == "polyak") return DualStep::kPolyak;
  if (name == "constant") return DualStep::kConstant;
  throw std::invalid_argument("no step '" + name + "'; there are shares, sqrt, polyak and constant");
}

nb::tuple graph_dual(const PruneGraph& graph, Vector<const double> gain, double all_pruned, double lam,
                     const std::string& step, double first, double tolerance, int64_t max_iterations,
                     std::optional<Vector<const double>> start, int threads) {
  check_splits(graph, gain.size(), "gain");
  const DualTask task{.gain = span_of(gain),
                      .all_pruned = all_pruned,
                      .lam = lam,
                      .step = step_named(step),
                      .first = first,
                      .tolerance = tolerance,
                      .max_iterations = max_iterations,
                      .start = start ? span_of(*start) : std::span<const double>(),
                      .threads = threads};
  DualAnswer answer;
  {
    const nb::gil_scoped_release unlocked;
    answer = prune_dual(graph, task);
  }
  return nb::make_tuple(array_of(std::span<const uint8_t>(answer.kept)), answer.bound, answer.iterations,
                        array_of(std::span<const double>(answer.state)));
}

nb::tuple graph_prune_trees(const PruneGraph& graph, Vector<const double> gain, Vector<const double> charge) {
  check_splits(graph, gain.size(), "gain");
  check_splits(graph, charge.size(), "charge");
  uint8_t* kept;
  nb::object array = new_array<uint8_t>({gain.size()}, &kept);
  const double sum = prune_trees(graph, span_of(gain), span_of(charge), {kept, gain.size()});
  return nb::make_tuple(std::move(array), sum);
}

nb::object refitted(Matrix<const int32_t> leaf, Vector<const int32_t> ends, Vector<const int64_t> tree_start,
                    Matrix<const double> value, Matrix<const double> target, Vector<const double> weight,
                    Matrix<const uint8_t> unseen, double caution, int sweeps) {
  if (tree_start.size() < 2) throw std::invalid_argument("there are no trees");
  const size_t trees = tree_start.size() - 1, rows = weight.size(), width = value.shape(1);
  check_length(leaf.shape(0), trees, "leaf");
  check_length(leaf.shape(1), rows, "a row of leaf");
  check_length(unseen.shape(0), trees, "unseen");
  check_length(unseen.shape(1), rows, "a row of unseen");
  check_length(ends.size(), value.shape(0), "ends");
  check_length(target.shape(0), rows, "target");
  check_length(target.shape(1), width, "a row of target");
  const RefitArrays arrays{.leaf = {leaf.data(), leaf.size()},
                           .ends = span_of(ends),
                           .tree_start = span_of(tree_start),
                           .value = {value.data(), value.size()},
                           .target = {target.data(), target.size()},
                           .weight = span_of(weight),
                           .unseen = {unseen.data(), unseen.size()},
                           .n_outputs = width};
  std::vector<double> found;
  {
    const nb::gil_scoped_release unlocked;
    found = refit_leaves(arrays, caution, sweeps);
  }
  double* data;
  nb::object array = new_array<double>({value.shape(0), width}, &data);
  std::copy(found.begin(), found.end(), data);
  return array;
}

}  // namespace

void bind_prune(nb::module_& m) {
  m.def("refit_leaves", &refitted, "leaf"_a.noconvert(), "ends"_a.noconvert(), "tree_start"_a.noconvert(),
        "value"_a.noconvert(), "target"_a.noconvert(), "weight"_a.noconvert(), "unseen"_a.noconvert(),
        "caution"_a, "sweeps"_a,
        "Answers of nodes, corrected so that the forest of a pruning fits its targets.");
  nb::class_<PruneGraph>(m, "PruneGraph",
                         "A PruningProblem as a graph of splits and pairs (group, row). Immutable.")
      .def("__init__", &construct_graph, nb::kw_only(), "parent"_a.noconvert(), "tree_start"_a.noconvert(),
           "group_start"_a.noconvert(), "node_groups"_a.noconvert(), "prices"_a.noconvert(),
           "leaf"_a.noconvert(), "weight"_a.noconvert().none())
      .def_prop_ro(
          "nodes", [](const PruneGraph& graph) { return array_of(graph.nodes()); },
          "(N,) the splits: nodes with children, ascending.")
      .def_prop_ro("n_rows", &PruneGraph::n_rows, "Number of different cost rows.")
      .def_prop_ro("n_links", &PruneGraph::n_links, "Number of links between splits and pairs.")
      .def("cut", &graph_cut, "gain"_a.noconvert(), "rate"_a.noconvert(), "fate"_a.noconvert(),
           "Settle every fate (0 open, 1 pruned, 2 internal) as in the smallest best pruning.")
      .def("dual", &graph_dual, "gain"_a.noconvert(), "all_pruned"_a, "lam"_a, nb::kw_only(), "step"_a,
           "first"_a, "tolerance"_a, "max_iterations"_a, "start"_a.noconvert().none(), "threads"_a,
           "The primal-dual method: splits kept, bound, iterations, state to start from.")
      .def("prune_trees", &graph_prune_trees, "gain"_a.noconvert(), "charge"_a.noconvert(),
           "Prune each tree by itself, every split charged for its pairs: splits kept, gains less charges.")
      .def(
          "charges",
          [](const PruneGraph& graph, Vector<const uint8_t> kept, Vector<const uint8_t> paid, double power,
             int threads) {
            check_splits(graph, kept.size(), "kept");
            check_splits(graph, paid.size(), "paid");
            std::vector<double> owed;
            {
              const nb::gil_scoped_release unlocked;
              owed = charges(graph, span_of(kept), span_of(paid), power, threads);
            }
            return array_of(std::span<const double>(owed));
          },
          "kept"_a.noconvert(), "paid"_a.noconvert(), "power"_a = 1.0, "threads"_a = 1,
          "What each kept split owes where n that need a pair are charged its price by n ** power each.")
      .def(
          "feature_cost",
          [](const PruneGraph& graph, Vector<const uint8_t> kept, int threads) {
            check_splits(graph, kept.size(), "kept");
            const nb::gil_scoped_release unlocked;
            return feature_cost(graph, span_of(kept), threads);
          },
          "kept"_a.noconvert(), "threads"_a = 1, "Mean price of the groups that the cost rows need.");
}

}  // namespace anytime
