// The Python face of the kinds of banks: making them, and what a file keeps of them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "stream_nets.hpp"
#include "stream_ridge.hpp"
#include "stream_trees.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

using Writing = std::unique_lock<std::shared_mutex>;
using Reading = std::shared_lock<std::shared_mutex>;

template <class T>
nb::object array_from(const std::vector<T>& values) {
  return array_of(std::span<const T>(values));
}

template <class T>
std::vector<T> vector_from(const nb::dict& state, const char* name) {
  const auto array = nb::cast<Vector<const T>>(state[name]);
  return std::vector<T>(array.data(), array.data() + array.size());
}

// One of the arrays that a bank has already, of the right length.
template <class T>
void restore(const nb::dict& state, const char* name, std::vector<T>& to) {
  std::vector<T> found = vector_from<T>(state, name);
  check_length(found.size(), to.size(), name);
  to = std::move(found);
}

void check_more(int64_t n) {
  if (n < 0 || n > (int64_t{1} << 24)) throw std::invalid_argument("a bank cannot have so many learners");
}

// ---------------------------------------------------------------------- means of parameters

void save_means(ParameterMeans& means, nb::dict& out) {
  if (!means.on()) return;
  out["means"] = array_from(means.means());
  out["rounds"] = array_from(means.rounds());
}

template <class Bank>
void load_means(const nb::dict& state, Bank& bank) {
  if (!state.contains("means")) return;
  if (!bank.means().on()) bank.means().begin(bank.n_learners(), bank.size());
  restore(state, "means", bank.means().means());
  restore(state, "rounds", bank.means().rounds());
}

// ---------------------------------------------------------------------- trees

// Splits and what leaves say: all that it takes to answer.
nb::dict nodes_of(const StreamTrees& bank) {
  std::vector<int64_t> start{0};
  std::vector<double> threshold, values;
  std::vector<int32_t> column, left;
  std::vector<uint8_t> missing_left;
  for (const StreamTree& tree : bank.trees()) {
    for (const StreamTree::Node& node : tree.nodes()) {
      threshold.push_back(node.threshold);
      column.push_back(node.column);
      left.push_back(node.left);
      missing_left.push_back(node.missing_left != 0);
    }
    values.insert(values.end(), tree.values().begin(), tree.values().end());
    start.push_back(static_cast<int64_t>(threshold.size()));
  }
  nb::dict out;
  out["node_start"] = array_from(start);
  out["threshold"] = array_from(threshold);
  out["column"] = array_from(column);
  out["left"] = array_from(left);
  out["missing_left"] = array_from(missing_left);
  out["values"] = array_from(values);
  return out;
}

nb::dict state_of(const StreamTrees& bank) {
  nb::dict out = nodes_of(bank);
  const StreamBins::State bins = bank.bins().save();
  std::vector<int64_t> early_start{0}, sleep;
  std::vector<double> count, square, early;
  std::vector<int32_t> since, depth;
  std::vector<uint8_t> splittable, wanted;
  std::vector<float> counted;
  for (const StreamTree& tree : bank.trees()) {
    for (const StreamTree::Leaf& leaf : tree.leaves()) {
      count.push_back(leaf.count);
      square.push_back(leaf.square);
      since.push_back(leaf.since);
      depth.push_back(leaf.depth);
      splittable.push_back(leaf.slot >= 0);
      if (leaf.slot < 0) continue;
      const float* own = tree.bins_of(leaf.slot);
      counted.insert(counted.end(), own, own + tree.slot_size());
    }
    early.insert(early.end(), tree.early().begin(), tree.early().end());
    early_start.push_back(static_cast<int64_t>(early.size()));
    sleep.push_back(tree.sleep());
    wanted.push_back(tree.wanted());
  }
  out["cuts"] = array_from(bins.cuts);
  out["n_cuts"] = array_from(bins.n_cuts);
  out["rows"] = array_from(bins.rows);
  out["clock"] = array_from(std::vector<int64_t>{bins.seen, bins.next, bins.found ? 1 : 0});
  out["count"] = array_from(count);
  out["square"] = array_from(square);
  out["since"] = array_from(since);
  out["depth"] = array_from(depth);
  out["splittable"] = array_from(splittable);
  out["counted"] = array_from(counted);
  out["early_start"] = array_from(early_start);
  out["early"] = array_from(early);
  out["sleep"] = array_from(sleep);
  out["wanted"] = array_from(wanted);
  return out;
}

// Starts (n + 1) of stretches that fill `size`.
std::vector<int64_t> starts_from(const nb::dict& state, const char* name, size_t n, size_t size) {
  std::vector<int64_t> start = vector_from<int64_t>(state, name);
  check_length(start.size(), n + 1, name);
  if (start.front() != 0 || start.back() != static_cast<int64_t>(size) ||
      !std::is_sorted(start.begin(), start.end())) {
    throw std::invalid_argument(std::string(name) + " does not fit what it divides");
  }
  return start;
}

void load(StreamTrees& bank, const nb::dict& state) {
  const auto clock = vector_from<int64_t>(state, "clock");
  check_length(clock.size(), 3, "clock");
  bank.bins().load({.cuts = vector_from<double>(state, "cuts"),
                    .rows = vector_from<double>(state, "rows"),
                    .n_cuts = vector_from<int32_t>(state, "n_cuts"),
                    .seen = clock[0],
                    .next = clock[1],
                    .found = clock[2] != 0});
  const auto threshold = vector_from<double>(state, "threshold"), count = vector_from<double>(state, "count"),
             square = vector_from<double>(state, "square"), values = vector_from<double>(state, "values"),
             early = vector_from<double>(state, "early");
  const auto column = vector_from<int32_t>(state, "column"), left = vector_from<int32_t>(state, "left"),
             since = vector_from<int32_t>(state, "since"), depth = vector_from<int32_t>(state, "depth");
  const auto missing_left = vector_from<uint8_t>(state, "missing_left"),
             splittable = vector_from<uint8_t>(state, "splittable");
  const auto counted = vector_from<float>(state, "counted");
  const size_t n_nodes = threshold.size(), n = bank.trees().size();
  const auto m = static_cast<int64_t>(bank.n_outputs());
  for (const size_t size :
       {count.size(), square.size(), column.size(), left.size(), since.size(), depth.size(),
        missing_left.size(), splittable.size(), values.size() / static_cast<size_t>(m)}) {
    check_length(size, n_nodes, "an array of nodes");
  }
  const auto sleep = vector_from<int64_t>(state, "sleep");
  const auto wanted = vector_from<uint8_t>(state, "wanted");
  check_length(sleep.size(), n, "sleep");
  check_length(wanted.size(), n, "wanted");
  const auto start = starts_from(state, "node_start", n, n_nodes);
  const auto early_start = starts_from(state, "early_start", n, early.size());
  std::span<const float> rest(counted);
  for (size_t i = 0; i < n; ++i) {
    std::vector<StreamTree::Node> nodes;
    std::vector<StreamTree::Leaf> leaves;
    for (auto j = static_cast<size_t>(start[i]); j < static_cast<size_t>(start[i + 1]); ++j) {
      nodes.push_back({.threshold = threshold[j],
                       .column = column[j],
                       .left = left[j],
                       .missing_left = missing_left[j] != 0 ? 1u : 0u});
      leaves.push_back({.count = count[j],
                        .square = square[j],
                        .since = since[j],
                        .slot = splittable[j] != 0 ? 0 : -1,
                        .depth = depth[j]});
    }
    bank.trees()[i].load(std::move(nodes), std::move(leaves),
                         {values.begin() + start[i] * m, values.begin() + start[i + 1] * m},
                         {early.begin() + early_start[i], early.begin() + early_start[i + 1]}, sleep[i],
                         wanted[i] != 0, rest);
  }
  if (!rest.empty()) throw std::invalid_argument("more bins than leaves that can be split");
}

void restart(StreamTrees& bank, std::span<const bool> learners) {
  for (size_t i = 0; i < learners.size(); ++i) {
    if (learners[i]) bank.trees()[i].restart();
  }
}

// ---------------------------------------------------------------------- ridge

nb::dict state_of(StreamRidge& bank) {
  nb::dict out;
  out["weights"] = array_from(bank.weights());
  out["inverses"] = array_from(bank.inverses());
  out["starts"] = array_from(bank.starts());
  out["seen"] = array_from(std::vector<int64_t>{bank.seen()});
  save_means(bank.means(), out);
  return out;
}

void load(StreamRidge& bank, const nb::dict& state) {
  const auto starts = vector_from<int64_t>(state, "starts");
  const auto k = static_cast<size_t>(bank.n_features() + 1);
  if (starts.empty() || starts.front() != 0 || !std::is_sorted(starts.begin(), starts.end()) ||
      starts.back() > bank.n_learners()) {
    throw std::invalid_argument("generations of learners do not fit their number");
  }
  bank.inverses().resize(starts.size() * k * k);
  restore(state, "weights", bank.weights());
  restore(state, "inverses", bank.inverses());
  bank.starts() = starts;
  std::vector<int64_t> seen(1);
  restore(state, "seen", seen);
  bank.seen() = seen[0];
  load_means(state, bank);
}

void restart(StreamRidge& bank, std::span<const bool> learners) { bank.restart(learners); }

// ---------------------------------------------------------------------- nets

Activation activation_named(const std::string& name) {
  if (name == "none") return Activation::none;
  if (name == "cosine") return Activation::cosine;
  if (name == "sigmoid") return Activation::sigmoid;
  if (name == "leaky_relu") return Activation::leaky_relu;
  throw std::invalid_argument("there is no activation '" + name + "'");
}

StepMethod method_named(const std::string& name) {
  if (name == "sgd") return StepMethod::sgd;
  if (name == "adagrad") return StepMethod::adagrad;
  if (name == "adam") return StepMethod::adam;
  throw std::invalid_argument("there is no method '" + name + "'");
}

NetView view_from(const std::optional<Matrix<const int32_t>>& places, int64_t n_features) {
  if (!places) return {};
  const std::span<const int32_t> columns(places->data(), places->size());
  const bool known = std::all_of(columns.begin(), columns.end(),
                                 [=](int32_t column) { return column >= -1 && column < n_features; });
  if (columns.empty() || !known) throw std::invalid_argument("places of a window are columns, or -1");
  return {.columns = {columns.begin(), columns.end()}, .window = static_cast<int64_t>(places->shape(1))};
}

nb::dict state_of(StreamNets& bank) {
  nb::dict out;
  out["parameters"] = array_from(bank.parameters());
  out["squares"] = array_from(bank.stepper().squares());
  out["moments"] = array_from(bank.stepper().means());
  out["steps"] = array_from(bank.stepper().steps());
  save_means(bank.means(), out);
  return out;
}

void load(StreamNets& bank, const nb::dict& state) {
  restore(state, "parameters", bank.parameters());
  restore(state, "squares", bank.stepper().squares());
  restore(state, "moments", bank.stepper().means());
  restore(state, "steps", bank.stepper().steps());
  load_means(state, bank);
}

// ---------------------------------------------------------------------- what kinds have in common

// What a file keeps; each kind of bank has a `state_of` and a `load`, which find the door held.
template <class Bank>
void bind_files(nb::class_<Bank, StreamBank>& type) {
  type.def(
          "state",
          [](Bank& bank) {
            const Reading reading(bank.door());
            return state_of(bank);
          },
          "Everything that was learned, as arrays.")
      .def(
          "load",
          [](Bank& bank, const nb::dict& state) {
            const Writing writing(bank.door());
            load(bank, state);
          },
          "state"_a, "What was saved, in a bank of as many learners.");
}

std::span<const bool> marks_from(const StreamBank& bank, const Vector<const bool>& learners) {
  check_length(learners.size(), static_cast<size_t>(bank.n_learners()), "learners");
  return span_of(learners);
}

// Learners that begin with nothing.
template <class Bank>
void bind_beginnings(nb::class_<Bank, StreamBank>& type) {
  type.def(
          "append",
          [](Bank& bank, int64_t n) {
            check_more(n);
            const Writing writing(bank.door());
            bank.append(n);
          },
          "n"_a, "Further learners, which have learned nothing.")
      .def(
          "restart",
          [](Bank& bank, Vector<const bool> learners) {
            const Writing writing(bank.door());
            restart(bank, marks_from(bank, learners));
          },
          "learners"_a.noconvert(), "The marked learners begin anew.");
}

template <class Bank>
void bind_track(nb::class_<Bank, StreamBank>& type) {
  type.def(
      "track",
      [](Bank& bank) {
        const Writing writing(bank.door());
        if (!bank.means().on()) bank.means().begin(bank.n_learners(), bank.size());
      },
      "Keep means of the parameters from now on.");
}

// ---------------------------------------------------------------------- kinds

void bind_trees(nb::module_& m) {
  nb::class_<StreamTrees, StreamBank> type(m, "StreamTrees",
                                           "Trees that grow on a stream, with bins in common.");
  type.def(
          "__init__",
          [](StreamTrees* self, int64_t n_learners, int64_t n_features, int64_t n_outputs, int32_t max_depth,
             int32_t max_leaves, int32_t grace, double confidence, double tie, int32_t n_bins, int32_t width,
             double memory, double fade, int64_t stagger, uint64_t seed) {
            if (n_features < 1 || n_outputs < 1 || width < 1 || width > n_features || n_bins < 2 ||
                n_bins > 255 || max_leaves < 2 || max_depth < 1 || grace < 1) {
              throw std::invalid_argument("settings of trees on a stream are out of range");
            }
            new (self) StreamTrees({.max_depth = max_depth,
                                    .max_leaves = max_leaves,
                                    .grace = grace,
                                    .confidence = confidence,
                                    .tie = tie,
                                    .n_bins = n_bins,
                                    .width = width,
                                    .memory = memory,
                                    .fade = fade,
                                    .stagger = stagger,
                                    .seed = seed},
                                   n_features, n_outputs);
            check_more(n_learners);
            self->append(n_learners);
          },
          nb::kw_only(), "n_learners"_a, "n_features"_a, "n_outputs"_a, "max_depth"_a, "max_leaves"_a,
          "grace"_a, "confidence"_a, "tie"_a, "n_bins"_a, "width"_a, "memory"_a, "fade"_a, "stagger"_a,
          "seed"_a)
      .def(
          "columns",
          [](const StreamTrees& bank, size_t i) {
            if (i >= bank.trees().size()) throw nb::index_error("there is no such tree");
            return array_of(bank.trees()[i].columns());
          },
          "i"_a, "Columns that a tree may split.")
      .def(
          "nodes",
          [](const StreamTrees& bank) {
            const Reading reading(bank.door());
            return nodes_of(bank);
          },
          "Splits and values: all that it takes to answer.");
  bind_beginnings(type);
  bind_files(type);
}

void bind_ridge(nb::module_& m) {
  nb::class_<StreamRidge, StreamBank> type(m, "StreamRidge", "Ridge regressions by recursive least squares.");
  type.def(
      "__init__",
      [](StreamRidge* self, int64_t n_learners, int64_t n_features, int64_t n_outputs, double penalty) {
        if (n_features < 1 || n_outputs < 1 || !(penalty > 0.0)) {
          throw std::invalid_argument("settings of ridge regressions are out of range");
        }
        new (self) StreamRidge(penalty, n_features, n_outputs);
        check_more(n_learners);
        self->append(n_learners);
      },
      nb::kw_only(), "n_learners"_a, "n_features"_a, "n_outputs"_a, "penalty"_a);
  bind_beginnings(type);
  bind_track(type);
  bind_files(type);
}

void bind_nets(nb::module_& m) {
  nb::class_<StreamNets, StreamBank> type(m, "StreamNets",
                                          "Linear functions of columns, random cosines or hidden units.");
  type.def(
          "__init__",
          [](StreamNets* self, int64_t n_features, int64_t n_outputs, const std::string& activation,
             int64_t hidden, const std::string& method, double step,
             const std::optional<Matrix<const int32_t>>& places) {
            if (n_features < 1 || n_outputs < 1 || hidden < 1 || !(step > 0.0)) {
              throw std::invalid_argument("settings of nets are out of range");
            }
            new (self) StreamNets(activation_named(activation), hidden, method_named(method), step,
                                  n_features, n_outputs, view_from(places, n_features));
          },
          nb::kw_only(), "n_features"_a, "n_outputs"_a, "activation"_a, "hidden"_a, "method"_a, "step"_a,
          "places"_a.none() = nb::none())
      .def_prop_ro("size", &StreamNets::size, "Parameters of a learner.")
      .def(
          "append",
          [](StreamNets& bank, Matrix<const double> parameters) {
            check_length(parameters.shape(1), static_cast<size_t>(bank.size()),
                         "the parameters of a learner");
            check_more(static_cast<int64_t>(parameters.shape(0)));
            const Writing writing(bank.door());
            const auto at = static_cast<int64_t>(bank.parameters().size());
            bank.append(static_cast<int64_t>(parameters.shape(0)));
            std::copy_n(parameters.data(), parameters.size(), bank.parameters().begin() + at);
          },
          "parameters"_a.noconvert(), "Further learners, with their first parameters.")
      .def(
          "restart",
          [](StreamNets& bank, Vector<const bool> learners, Matrix<const double> parameters) {
            const Writing writing(bank.door());
            const std::span<const bool> marks = marks_from(bank, learners);
            check_length(parameters.shape(0), marks.size(), "parameters");
            check_length(parameters.shape(1), static_cast<size_t>(bank.size()),
                         "the parameters of a learner");
            for (int64_t i = 0; i < bank.n_learners(); ++i) {
              if (marks[static_cast<size_t>(i)]) bank.restart(i, parameters.data() + i * bank.size());
            }
          },
          "learners"_a.noconvert(), "parameters"_a.noconvert(),
          "The marked learners begin anew, with parameters as learners were appended with.");
  bind_track(type);
  bind_files(type);
}

}  // namespace

void bind_stream_banks(nb::module_& m) {
  bind_trees(m);
  bind_ridge(m);
  bind_nets(m);
}

}  // namespace anytime
