// What growers of trees call: bins, one tree, and the rest of a boosting step.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>

#include "arrays.hpp"
#include "bins.hpp"
#include "forest.hpp"
#include "grow.hpp"
#include "grow_steps.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

Numbers numbers_of(const AnyArray& array, const char* name) {
  if (array.dtype() == nb::dtype<double>()) return {.wide = static_cast<const double*>(array.data())};
  if (array.dtype() == nb::dtype<float>()) return {.narrow = static_cast<const float*>(array.data())};
  throw std::invalid_argument(std::string(name) + " must be of float64 or float32");
}

std::shared_ptr<Bins> fit_bins(Matrix<const double> x, Vector<const bool> categorical, int32_t max_bins,
                               bool exact, int64_t sample, int threads) {
  check_length(categorical.size(), x.shape(1), "categorical");
  if (x.shape(0) == 0 || x.shape(1) == 0) throw std::invalid_argument("X has no rows or no columns");
  if (max_bins < 2 || max_bins > 255) throw std::invalid_argument("max_bins must be in [2, 255]");
  if (sample < 1) throw std::invalid_argument("sample must be at least 1");
  const CutOptions options{.max_bins = max_bins, .exact = exact, .sample = sample, .threads = threads};
  const nb::gil_scoped_release unlocked;
  auto cuts = std::make_shared<const Cuts>(
      x.data(), static_cast<int64_t>(x.shape(0)), static_cast<int32_t>(x.shape(1)),
      std::span(reinterpret_cast<const uint8_t*>(categorical.data()), categorical.size()), options);
  return std::make_shared<Bins>(std::move(cuts), x.data(), static_cast<int64_t>(x.shape(0)), threads);
}

// A column's cuts as Python keeps and sends them: (categorical, common, common_share, cuts or categories).
nb::tuple column_state(const BinColumn& column) {
  const nb::object numbers = column.categorical ? array_of(std::span<const int32_t>(column.categories))
                                                : array_of(std::span<const double>(column.cuts));
  return nb::make_tuple(column.categorical, column.common, column.common_share, numbers);
}

BinColumn column_of(const nb::tuple& state) {
  BinColumn column{.categorical = nb::cast<bool>(state[0]),
                   .common = nb::cast<int32_t>(state[1]),
                   .common_share = nb::cast<double>(state[2])};
  if (column.categorical) {
    const auto numbers = nb::cast<Vector<const int32_t>>(state[3]);
    column.categories.assign(numbers.data(), numbers.data() + numbers.size());
  } else {
    const auto numbers = nb::cast<Vector<const double>>(state[3]);
    column.cuts.assign(numbers.data(), numbers.data() + numbers.size());
  }
  column.n_values =
      static_cast<int32_t>(column.categorical ? column.categories.size() : column.cuts.size()) + 1;
  return column;
}

std::shared_ptr<Bins> empty_bins(const nb::list& columns, int64_t n_rows) {
  if (n_rows < 0) throw std::invalid_argument("n_rows must not be negative");
  std::vector<BinColumn> cuts;
  for (const nb::handle column : columns) cuts.push_back(column_of(nb::cast<nb::tuple>(column)));
  return std::make_shared<Bins>(std::make_shared<const Cuts>(std::move(cuts)), n_rows);
}

void bind_bins(nb::module_& m) {
  m.def(
      "sampled_rows",
      [](int64_t n, int64_t size) {
        if (n < 1 || size < 1) throw std::invalid_argument("there are no rows to sample");
        return array_of(std::span<const int64_t>(sampled_rows(n, size)));
      },
      "n"_a, "size"_a, "The rows from which Bins.fit finds the cuts of n rows.");
  nb::class_<Bins>(m, "Bins", "A matrix whose values are bins: what trees are grown on. Immutable.")
      .def_static("fit", &fit_bins, "X"_a.noconvert(), "categorical"_a.noconvert(), "max_bins"_a, "exact"_a,
                  "sample"_a, "threads"_a, "Find the cuts of every column and bin the rows.")
      .def_static("of_cuts", &empty_bins, "columns"_a, "n_rows"_a,
                  "Rows with the cuts of columns() that fill_rows fills in.")
      .def(
          "columns",
          [](const Bins& bins) {
            nb::list out;
            for (int32_t j = 0; j < bins.cuts().n_columns(); ++j) out.append(column_state(bins.cuts()[j]));
            return out;
          },
          "The cuts of every column, to be sent elsewhere.")
      .def(
          "transform",
          [](const Bins& bins, Matrix<const double> x, int threads) {
            check_length(x.shape(1), static_cast<size_t>(bins.cuts().n_columns()), "a row of X");
            const nb::gil_scoped_release unlocked;
            return std::make_shared<Bins>(bins.shared_cuts(), x.data(), static_cast<int64_t>(x.shape(0)),
                                          threads);
          },
          "X"_a.noconvert(), "threads"_a, "Bin other rows by the same cuts.")
      .def(
          "empty",
          [](const Bins& bins, int64_t n_rows) {
            if (n_rows < 0) throw std::invalid_argument("n_rows must not be negative");
            return std::make_shared<Bins>(bins.shared_cuts(), n_rows);
          },
          "n_rows"_a, "Rows with the same cuts that fill_rows fills in.")
      .def(
          "fill_rows",
          [](Bins& bins, int64_t first, Matrix<const double> x, int threads) {
            check_length(x.shape(1), static_cast<size_t>(bins.cuts().n_columns()), "a row of X");
            const auto count = static_cast<int64_t>(x.shape(0));
            if (first < 0 || first > bins.n_rows() - count) throw std::invalid_argument("no such rows");
            const nb::gil_scoped_release unlocked;
            bins.fill_rows(first, x.data(), count, threads);
          },
          "first"_a, "X"_a.noconvert(), "threads"_a, "Put values into the rows from first on.")
      .def(
          "refill",
          [](Bins& bins, int32_t first, Matrix<const double> x, int threads) {
            if (first < 0 || first > bins.cuts().n_columns()) throw std::invalid_argument("no such column");
            check_length(x.shape(0), static_cast<size_t>(bins.n_rows()), "X");
            check_length(x.shape(1), static_cast<size_t>(bins.cuts().n_columns() - first), "a row of X");
            const nb::gil_scoped_release unlocked;
            bins.refill(first, x.data(), threads);
          },
          "first"_a, "X"_a.noconvert(), "threads"_a, "Put other values into the columns from first on.")
      .def_prop_ro("n_rows", &Bins::n_rows, "Number of rows.")
      .def_prop_ro(
          "n_columns", [](const Bins& bins) { return bins.cuts().n_columns(); }, "Number of columns.")
      .def_prop_ro("n_slots", &Bins::n_slots,
                   "Numbers kept per row: columns that exclude each other share one.")
      .def(
          "thresholds",
          [](const Bins& bins, int32_t column) {
            if (column < 0 || column >= bins.cuts().n_columns())
              throw std::invalid_argument("no such column");
            return array_of(std::span<const double>(bins.cuts()[column].cuts));
          },
          "column"_a, "The cuts of a column: bin b holds what is above cut b - 1 and at most cut b.")
      .def(
          "bins",
          [](const Bins& bins) {
            const auto n = static_cast<size_t>(bins.n_rows()),
                       d = static_cast<size_t>(bins.cuts().n_columns());
            int32_t* out;
            nb::object array = new_array<int32_t>({n, d}, &out);
            for (int64_t i = 0; i < bins.n_rows(); ++i) {
              for (int32_t j = 0; j < bins.cuts().n_columns(); ++j)
                *out++ = bins.bin(j, bins.value(i, bins.place(j).slot));
            }
            return array;
          },
          "(n, d) the bins, a copy.");
}

template <class T, class Field>
nb::object of_nodes(const GrownTree& tree, Field&& field) {
  T* out;
  nb::object array = new_array<T>({tree.nodes.size()}, &out);
  for (size_t i = 0; i < tree.nodes.size(); ++i) out[i] = static_cast<T>(field(tree.nodes[i]));
  return array;
}

// The categories of a node's set: those of the side that is listed.
std::vector<int32_t> members(const GrownTree& tree, const GrownNode& node) {
  std::vector<int32_t> out;
  const std::vector<int32_t>& categories = (*tree.cuts)[node.column].categories;
  for (size_t bin = 0; bin < categories.size(); ++bin) {
    if (has(node.split.left, static_cast<int32_t>(bin)) == node.split.members_left)
      out.push_back(categories[bin]);
  }
  return out;
}

}  // namespace

nb::dict tree_arrays(const GrownTree& tree) {
  std::vector<int32_t> categories;
  std::vector<int64_t> category_start{0};
  std::vector<int32_t> sets;
  for (const GrownNode& node : tree.nodes) {
    const bool is_set = node.column >= 0 && node.split.categorical;
    sets.push_back(is_set ? static_cast<int32_t>(category_start.size()) - 1 : -1);
    if (!is_set) continue;
    const auto listed = members(tree, node);
    categories.insert(categories.end(), listed.begin(), listed.end());
    category_start.push_back(static_cast<int64_t>(categories.size()));
  }
  nb::dict out;
  const int64_t starts[2] = {0, static_cast<int64_t>(tree.nodes.size())}, one_stage[2] = {0, 1};
  const int32_t first_output[1] = {0};
  out["tree_start"] = array_of(std::span<const int64_t>(starts));
  out["stage_start"] = array_of(std::span<const int64_t>(one_stage));
  out["feature"] = of_nodes<int32_t>(tree, [](const GrownNode& node) { return node.column; });
  out["threshold"] = of_nodes<double>(tree, [&](const GrownNode& node) { return tree.threshold(node); });
  out["left"] = of_nodes<int32_t>(tree, [](const GrownNode& node) { return node.left; });
  out["right"] = of_nodes<int32_t>(tree, [](const GrownNode& node) { return node.right; });
  out["default_left"] =
      of_nodes<uint8_t>(tree, [](const GrownNode& node) { return node.split.default_left; });
  out["missing"] = of_nodes<uint8_t>(tree, [](const GrownNode&) { return kMissingNan; });
  out["category_set"] = array_of(std::span<const int32_t>(sets));
  out["members_left"] =
      of_nodes<uint8_t>(tree, [](const GrownNode& node) { return node.split.members_left; });
  out["category_start"] = array_of(std::span<const int64_t>(category_start));
  out["categories"] = array_of(std::span<const int32_t>(categories));
  const auto width = static_cast<size_t>(tree.n_outputs);
  double* values;
  out["value"] = new_array<double>({tree.nodes.size(), width}, &values);
  std::fill_n(values, tree.nodes.size() * width, 0.0);
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    if (tree.nodes[i].leaf < 0) continue;
    std::copy_n(tree.values.data() + static_cast<size_t>(tree.nodes[i].leaf) * width, width,
                values + i * width);
  }
  out["tree_output"] = array_of(std::span<const int32_t>(first_output));
  out["n_outputs"] = tree.n_outputs;
  out["n_features"] = tree.cuts->n_columns();
  return out;
}

namespace {

struct Grown {
  GrownTree tree;
  nb::object leaf;
};

GrowTargets targets_of(const Bins& bins, const AnyArray& target, const std::optional<AnyArray>& weight,
                       bool newton) {
  const char *first = newton ? "gradient" : "target", *second = newton ? "hessian" : "weight";
  const auto n = static_cast<size_t>(bins.n_rows());
  if (target.ndim() != 1 && target.ndim() != 2)
    throw std::invalid_argument(std::string(first) + " must be (n,) or (n, K)");
  check_length(target.shape(0), n, first);
  GrowTargets out{.target = numbers_of(target, first), .newton = newton};
  if (target.ndim() == 2) out.n_outputs = static_cast<int32_t>(target.shape(1));
  if (out.n_outputs < 1) throw std::invalid_argument(std::string(first) + " has no outputs");
  if (!weight) return out;
  check_length(weight->shape(0), n, second);
  out.weight = numbers_of(*weight, second);
  out.weight_per_output = weight->ndim() == 2 && weight->shape(1) > 1;
  if (weight->ndim() == 2)
    check_length(weight->shape(1), target.ndim() == 2 ? target.shape(1) : 1, "a row of weights");
  return out;
}

// Peers that a Python object speaks to: it has rank, size and exchange(messages) -> messages.
class PythonPeers : public Peers {
 public:
  explicit PythonPeers(const nb::object& peers)
      : Peers(nb::cast<int32_t>(peers.attr("rank")), nb::cast<int32_t>(peers.attr("size"))), peers_(peers) {
    if (size() < 1 || rank() < 0 || rank() >= size())
      throw std::invalid_argument("no such rank among the peers");
  }

  std::vector<Bytes> exchange(const std::vector<std::span<const std::byte>>& out) override {
    const nb::gil_scoped_acquire locked;
    nb::list messages;
    for (const std::span<const std::byte> message : out)
      messages.append(nb::bytes(message.data(), message.size()));
    const nb::list answers = nb::cast<nb::list>(peers_.attr("exchange")(messages));
    std::vector<Bytes> in;
    for (const nb::handle answer : answers) {
      const auto bytes = nb::cast<nb::bytes>(answer);
      const auto* first = static_cast<const std::byte*>(bytes.data());
      in.emplace_back(first, first + bytes.size());
    }
    if (in.size() != out.size())
      throw std::runtime_error("exchange must answer with a message of every peer");
    return in;
  }

 private:
  const nb::object& peers_;
};

Grown grow_tree(const Bins& bins, AnyArray target, std::optional<AnyArray> weight, bool newton,
                std::optional<Vector<const int64_t>> rows, std::optional<Vector<const bool>> columns,
                const CostTable* table, double tick, std::optional<Vector<const bool>> bought,
                const GrowOptions& options, const nb::object& peers) {
  const GrowTargets targets = targets_of(bins, target, weight, newton);
  const auto flags = [](const Vector<const bool>& mask) {
    return std::span(reinterpret_cast<const uint8_t*>(mask.data()), mask.size());
  };
  std::optional<std::span<const uint8_t>> allowed;
  if (columns) {
    check_length(columns->size(), static_cast<size_t>(bins.cuts().n_columns()), "columns");
    allowed = flags(*columns);
  }
  std::vector<uint8_t> paid;
  if (table != nullptr) {
    check_length(static_cast<size_t>(table->n_columns()), static_cast<size_t>(bins.cuts().n_columns()),
                 "costs");
    paid.assign(static_cast<size_t>(table->n_groups()), 0);
    if (bought) {
      check_length(bought->size(), paid.size(), "bought");
      std::copy_n(bought->data(), paid.size(), paid.begin());
    }
  }
  std::optional<std::span<const int64_t>> some;
  if (rows) some = span_of(*rows);
  int32_t* leaf;
  nb::object leaves = new_array<int32_t>({static_cast<size_t>(bins.n_rows())}, &leaf);
  const GrowPrices prices{.table = table, .tick = tick, .bought = paid};
  std::optional<PythonPeers> others;
  if (!peers.is_none()) others.emplace(peers);
  GrownTree tree;
  {
    const nb::gil_scoped_release unlocked;
    tree = grow(bins, targets, some, allowed, prices, options, {leaf, static_cast<size_t>(bins.n_rows())},
                others ? &*others : nullptr);
  }
  return {std::move(tree), std::move(leaves)};
}

void bind_tree(nb::module_& m) {
  nb::class_<GrowOptions>(m, "GrowOptions", "How a tree is grown; see anytime.trees.growing.TreeGrower.")
      .def(
          "__init__",
          [](GrowOptions* self, int64_t max_leaves, int64_t max_depth, int64_t min_rows, double min_weight,
             double l2, double min_gain, double penalty, bool mean_scale, bool vote, int threads) {
            new (self) GrowOptions{max_leaves, max_depth, min_rows,   min_weight, l2,
                                   min_gain,   penalty,   mean_scale, vote,       threads};
          },
          nb::kw_only(), "max_leaves"_a, "max_depth"_a, "min_rows"_a, "min_weight"_a, "l2"_a, "min_gain"_a,
          "penalty"_a, "mean_scale"_a, "vote"_a, "threads"_a);
  nb::class_<Grown>(m, "GrownTree", "A tree as it was grown, on bins.")
      .def_prop_ro(
          "arrays", [](const Grown& grown) { return tree_arrays(grown.tree); }, "The fields of TreeArrays.")
      .def_prop_ro(
          "leaf", [](const Grown& grown) { return grown.leaf; }, "(n,) the leaf of every row of its data.")
      .def_prop_ro(
          "values",
          [](const Grown& grown) {
            double* out;
            nb::object array = new_array<double>(
                {static_cast<size_t>(grown.tree.n_leaves), static_cast<size_t>(grown.tree.n_outputs)}, &out);
            std::copy(grown.tree.values.begin(), grown.tree.values.end(), out);
            return array;
          },
          "(n_leaves, K) what the leaves answer.")
      .def_prop_ro(
          "gain", [](const Grown& grown) { return grown.tree.gain; },
          "Impurity decrease, prices not counted.")
      .def_prop_ro(
          "ticks", [](const Grown& grown) { return grown.tree.ticks; },
          "What its columns cost beyond what was bought.")
      .def(
          "leaf_of",
          [](const Grown& grown, const Bins& bins, int threads) {
            int32_t* leaf;
            nb::object leaves = new_array<int32_t>({static_cast<size_t>(bins.n_rows())}, &leaf);
            const nb::gil_scoped_release unlocked;
            grown.tree.find_leaves(bins, threads, {leaf, static_cast<size_t>(bins.n_rows())});
            return leaves;
          },
          "bins"_a, "threads"_a, "(m,) the leaf of every row of other data with the same cuts.");
  m.def("grow_tree", &grow_tree, "bins"_a, "target"_a.noconvert(), "weight"_a.noconvert().none(), "newton"_a,
        "rows"_a.noconvert().none(), "columns"_a.noconvert().none(), "table"_a.none(), "tick"_a,
        "bought"_a.noconvert().none(), "options"_a, "peers"_a = nb::none(),
        "Grow one tree; with peers (rank, size, exchange), one of everyone's rows.");
}

template <class T>
using AnyLayout = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;

template <class T>
Scores<T> scores_of(const AnyLayout<T>& array) {
  return {array.data(), static_cast<int64_t>(array.shape(0)), static_cast<int32_t>(array.shape(1)),
          array.stride(0), array.stride(1)};
}

template <class T>
void bind_leaf_sums(nb::module_& m) {
  m.def(
      "largest_parts",
      [](AnyLayout<const T> parts, Vector<const int64_t> rows, int threads) {
        double* largest;
        nb::object array = new_array<double>({parts.shape(1)}, &largest);
        const nb::gil_scoped_release unlocked;
        largest_parts(scores_of(parts), span_of(rows), largest, threads);
        return array;
      },
      "parts"_a.noconvert(), "rows"_a.noconvert(), "threads"_a,
      "Largest absolute values over the rows, (K,).");
  m.def(
      "leaf_sums",
      [](AnyLayout<const T> parts, Vector<const int32_t> leaf, Vector<const int64_t> rows, int64_t n_leaves,
         Vector<const double> scale, int threads) {
        check_length(leaf.size(), parts.shape(0), "leaf");
        check_length(scale.size(), parts.shape(1), "scale");
        if (n_leaves < 1) throw std::invalid_argument("there are no leaves");
        double* sums;
        nb::object array = new_array<double>({static_cast<size_t>(n_leaves), parts.shape(1)}, &sums);
        const nb::gil_scoped_release unlocked;
        leaf_sums(scores_of(parts), leaf.data(), span_of(rows), n_leaves, scale.data(), sums, threads);
        return array;
      },
      "parts"_a.noconvert(), "leaf"_a.noconvert(), "rows"_a.noconvert(), "n_leaves"_a, "scale"_a.noconvert(),
      "threads"_a,
      "Sums of the rows in each leaf, (n_leaves, K), of whole numbers: the parts times `scale`, rounded.");
}

StepLoss loss_named(const std::string& name) {
  if (name == "squared") return StepLoss::kSquared;
  if (name == "logistic") return StepLoss::kLogistic;
  if (name == "softmax") return StepLoss::kSoftmax;
  throw std::invalid_argument("no native derivatives of loss '" + name +
                              "'; there are squared, logistic and softmax");
}

void bind_steps(nb::module_& m) {
  m.def(
      "loss_derivatives",
      [](const std::string& kind, AnyLayout<const double> scores, AnyArray y,
         std::optional<Vector<const double>> weight, Matrix<float> gradient, Matrix<float> hessian,
         int threads) {
        const StepLoss loss = loss_named(kind);
        const size_t n = scores.shape(0), k = scores.shape(1);
        check_length(y.size(), loss == StepLoss::kSoftmax ? n : n * k, "y");
        if (weight) check_length(weight->size(), n, "weight");
        if (y.dtype() != nb::dtype<double>()) throw std::invalid_argument("y must be of float64");
        const auto* labels = static_cast<const double*>(y.data());
        check_length(gradient.size(), n * k, "gradient");
        check_length(hessian.size(), n * k, "hessian");
        const nb::gil_scoped_release unlocked;
        loss_derivatives(loss, scores_of(scores), labels, weight ? weight->data() : nullptr, gradient.data(),
                         hessian.data(), threads);
      },
      "kind"_a, "scores"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert().none(),
      "gradient"_a.noconvert(), "hessian"_a.noconvert(), "threads"_a,
      "First and second derivatives by the scores, written to (K, n) arrays.");
  bind_leaf_sums<float>(m);
  bind_leaf_sums<double>(m);
  m.def(
      "update_scores",
      [](AnyLayout<double> scores, Vector<const int32_t> leaf, Matrix<const double> values, double rate,
         int32_t output, int threads) {
        check_length(leaf.size(), scores.shape(0), "leaf");
        check_length(values.shape(1), output < 0 ? scores.shape(1) : 1, "a row of values");
        if (output >= static_cast<int32_t>(scores.shape(1))) throw std::invalid_argument("no such output");
        const nb::gil_scoped_release unlocked;
        update_scores(scores_of(scores), leaf.data(), static_cast<int64_t>(values.shape(0)), values.data(),
                      rate, output, threads);
      },
      "scores"_a.noconvert(), "leaf"_a.noconvert(), "values"_a.noconvert(), "rate"_a, "output"_a, "threads"_a,
      "scores[:, output] += rate * values[leaf], in place; every output when output is -1.");
}

}  // namespace

void bind_grow(nb::module_& m) {
  bind_bins(m);
  bind_tree(m);
  bind_steps(m);
}

}  // namespace anytime
