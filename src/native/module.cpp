// The Python face of the native core. Arrays are checked here (type, shape, order); the core sees no object.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "arrays.hpp"
#include "clock.hpp"
#include "costs.hpp"
#include "evaluate.hpp"
#include "filter.hpp"
#include "finite.hpp"
#include "forest.hpp"
#include "layout.hpp"
#include "meter.hpp"
#include "scan.hpp"
#include "stops.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace anytime {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kLongRow = 50'000;  // node visits, a tenth of a millisecond or more

// Rows named by the caller, or all of them.
class RowList {
 public:
  RowList(const std::optional<Vector<const int64_t>>& rows, int64_t n) {
    if (rows) {
      rows_ = span_of(*rows);
      return;
    }
    all_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) all_[static_cast<size_t>(i)] = i;
    rows_ = all_;
  }
  std::span<const int64_t> get() const { return rows_; }

 private:
  std::vector<int64_t> all_;
  std::span<const int64_t> rows_;
};

void bind_stop_flag(nb::module_& m) {
  nb::class_<StopFlag>(m, "StopFlag", "A flag that native loops read without holding the interpreter's lock.")
      .def(nb::init<>())
      .def("set", &StopFlag::set, "Ask every run that was given this flag to stop.")
      .def("clear", &StopFlag::clear, "Take the request back.")
      .def("is_set", &StopFlag::is_set, "Whether a stop has been asked for.");
}

void bind_cost_table(nb::module_& m) {
  nb::class_<CostTable>(
      m, "CostTable",
      "Groups of columns, their prices in ticks, and the groups each requires.\n\n"
      "require[require_start[g]:require_start[g + 1]] are the direct requirements of group g;\n"
      "column_group[j] is the group of column j.")
      .def(
          "__init__",
          [](CostTable* self, Vector<const int64_t> prices, Vector<const int64_t> require_start,
             Vector<const int32_t> require, Vector<const int32_t> column_group) {
            new (self)
                CostTable(span_of(prices), span_of(require_start), span_of(require), span_of(column_group));
          },
          "prices"_a.noconvert(), "require_start"_a.noconvert(), "require"_a.noconvert(),
          "column_group"_a.noconvert())
      .def_prop_ro("n_groups", &CostTable::n_groups, "Number of groups.")
      .def_prop_ro("n_columns", &CostTable::n_columns, "Number of columns.")
      .def(
          "closure",
          [](const CostTable& table, int64_t group) {
            table.check_group(group);
            const auto closed = table.closure(static_cast<int32_t>(group));
            return std::vector<int32_t>(closed.begin(), closed.end());
          },
          "group"_a, "The group and all it needs, directly or not, ascending.")
      .def(
          "price",
          [](const CostTable& table, Vector<const int32_t> groups) { return table.price(span_of(groups)); },
          "groups"_a.noconvert(), "Ticks for the groups and all they need, each counted once.")
      .def("__getstate__",
           [](const CostTable& table) {
             return nb::make_tuple(array_of(table.prices()), array_of(table.require_start()),
                                   array_of(table.require()), array_of(table.column_group()));
           })
      .def("__setstate__", [](CostTable& self, nb::tuple state) {
        if (state.size() != 4) throw std::invalid_argument("not the state of a CostTable");
        const auto prices = nb::cast<Vector<const int64_t>>(state[0]);
        const auto require_start = nb::cast<Vector<const int64_t>>(state[1]);
        const auto require = nb::cast<Vector<const int32_t>>(state[2]);
        const auto column_group = nb::cast<Vector<const int32_t>>(state[3]);
        new (&self)
            CostTable(span_of(prices), span_of(require_start), span_of(require), span_of(column_group));
      });
}

void bind_ledger(nb::module_& m) {
  nb::class_<Ledger>(m, "Ledger",
                     "Per row: the groups bought, each once with what it requires, and the ticks paid.")
      .def(
          "__init__",
          [](Ledger* self, std::shared_ptr<const CostTable> table, int64_t n_rows) {
            new (self) Ledger(std::move(table), n_rows);
          },
          "table"_a, "n_rows"_a)
      .def_prop_ro("n_rows", &Ledger::n_rows, "Number of rows.")
      .def_prop_ro(
          "table", [](const Ledger& ledger) { return std::const_pointer_cast<CostTable>(ledger.table()); },
          "The prices it charges.")
      .def(
          "buy",
          [](Ledger& ledger, Vector<const int32_t> groups, std::optional<Vector<const int64_t>> rows) {
            ledger.buy(span_of(groups), RowList(rows, ledger.n_rows()).get());
          },
          "groups"_a.noconvert(), "rows"_a.noconvert() = nb::none(),
          "Pay, in the rows, for the groups and all they need that the row does not have yet.")
      .def(
          "quote",
          [](const Ledger& ledger, Vector<const int32_t> groups, std::optional<Vector<const int64_t>> rows) {
            const RowList list(rows, ledger.n_rows());
            int64_t* out;
            nb::object array = new_array<int64_t>({list.get().size()}, &out);
            ledger.quote(span_of(groups), list.get(), {out, list.get().size()});
            return array;
          },
          "groups"_a.noconvert(), "rows"_a.noconvert() = nb::none(),
          "What buy would charge each row, without buying.")
      .def(
          "charge",
          [](Ledger& ledger, int64_t ticks, std::optional<Vector<const int64_t>> rows) {
            ledger.charge(ticks, RowList(rows, ledger.n_rows()).get());
          },
          "ticks"_a, "rows"_a.noconvert() = nb::none(), "Add an evaluation cost to the rows.")
      .def_prop_ro(
          "paid", [](const Ledger& ledger) { return array_of(ledger.paid()); },
          "Ticks paid per row (a copy).")
      .def_prop_ro(
          "bought",
          [](const Ledger& ledger) {
            const auto n = static_cast<size_t>(ledger.n_rows());
            const auto groups = static_cast<size_t>(ledger.table()->n_groups());
            bool* out;
            nb::object array = new_array<bool>({n, groups}, &out);
            for (size_t i = 0; i < n; ++i) {
              for (size_t g = 0; g < groups; ++g) {
                out[i * groups + g] = ledger.has(static_cast<int64_t>(i), static_cast<int32_t>(g));
              }
            }
            return array;
          },
          "Which groups each row has (a copy), (n_rows, n_groups).")
      .def(
          "copy", [](const Ledger& ledger) { return Ledger(ledger); },
          "A ledger of its own in the same state.")
      .def("__getstate__",
           [](const Ledger& ledger) {
             return nb::make_tuple(std::const_pointer_cast<CostTable>(ledger.table()),
                                   array_of(ledger.bits()), array_of(ledger.paid()));
           })
      .def("__setstate__", [](Ledger& self, nb::tuple state) {
        if (state.size() != 3) throw std::invalid_argument("not the state of a Ledger");
        const auto bits = nb::cast<Vector<const uint64_t>>(state[1]);
        const auto paid = nb::cast<Vector<const int64_t>>(state[2]);
        new (&self) Ledger(nb::cast<std::shared_ptr<CostTable>>(state[0]), span_of(bits), span_of(paid));
      });
}

void construct_forest(Forest* self, Vector<const int64_t> tree_start, Vector<const int64_t> stage_start,
                      Vector<const int32_t> feature, Vector<const double> threshold,
                      Vector<const int32_t> left, Vector<const int32_t> right,
                      Vector<const uint8_t> default_left, Vector<const uint8_t> missing,
                      Vector<const int32_t> category_set, Vector<const uint8_t> members_left,
                      Vector<const int64_t> category_start, Vector<const int32_t> categories,
                      Matrix<const double> value, Vector<const int32_t> tree_output, int64_t n_outputs,
                      int64_t n_features, bool float32_input, std::optional<int> shift) {
  const TreeArraysView arrays{.tree_start = span_of(tree_start),
                              .stage_start = span_of(stage_start),
                              .feature = span_of(feature),
                              .threshold = span_of(threshold),
                              .left = span_of(left),
                              .right = span_of(right),
                              .default_left = span_of(default_left),
                              .missing = span_of(missing),
                              .category_set = span_of(category_set),
                              .members_left = span_of(members_left),
                              .category_start = span_of(category_start),
                              .categories = span_of(categories),
                              .value = {value.data(), value.size()},
                              .value_rows = static_cast<int64_t>(value.shape(0)),
                              .value_width = static_cast<int64_t>(value.shape(1)),
                              .tree_output = span_of(tree_output),
                              .n_outputs = n_outputs,
                              .n_features = n_features,
                              .float32_input = float32_input};
  const nb::gil_scoped_release unlocked;
  new (self) Forest(arrays, shift);
}

template <class T, class Field>
nb::object node_array(const Forest& forest, Field&& field) {
  T* out;
  nb::object array = new_array<T>({forest.nodes().size()}, &out);
  for (size_t i = 0; i < forest.nodes().size(); ++i) out[i] = field(forest.nodes()[i]);
  return array;
}

// Children are numbered within the forest inside, within their tree outside.
template <class Field>
nb::object child_array(const Forest& forest, Field&& field) {
  int32_t* out;
  nb::object array = new_array<int32_t>({forest.nodes().size()}, &out);
  for (size_t t = 0; t < static_cast<size_t>(forest.n_trees()); ++t) {
    const auto first = static_cast<size_t>(forest.tree_start()[t]),
               end = static_cast<size_t>(forest.tree_start()[t + 1]);
    for (size_t i = first; i < end; ++i) {
      const PlainNode& node = forest.nodes()[i];
      out[i] = node.is_leaf() ? -1 : field(node) - static_cast<int32_t>(first);
    }
  }
  return array;
}

nb::dict forest_arrays(const Forest& forest) {
  nb::dict out;
  out["tree_start"] = array_of(forest.tree_start());
  out["stage_start"] = array_of(forest.stage_start());
  out["feature"] = node_array<int32_t>(forest, [](const PlainNode& node) { return node.feature; });
  out["threshold"] = node_array<double>(forest, [](const PlainNode& node) { return node.threshold; });
  out["left"] = child_array(forest, [](const PlainNode& node) { return node.left; });
  out["right"] = child_array(forest, [](const PlainNode& node) { return node.right; });
  out["default_left"] = node_array<uint8_t>(forest, [](const PlainNode& node) { return node.default_left; });
  out["missing"] = node_array<uint8_t>(forest, [](const PlainNode& node) { return node.missing; });
  out["category_set"] = node_array<int32_t>(forest, [](const PlainNode& node) { return node.category_set; });
  out["members_left"] = node_array<uint8_t>(forest, [](const PlainNode& node) { return node.members_left; });
  out["category_start"] = array_of(forest.category_start());
  out["categories"] = array_of(forest.categories());
  double* values;
  out["value"] =
      new_array<double>({forest.nodes().size(), static_cast<size_t>(forest.value_width())}, &values);
  std::copy(forest.values().begin(), forest.values().end(), values);
  out["tree_output"] = array_of(forest.tree_output());
  out["n_outputs"] = forest.n_outputs();
  out["n_features"] = forest.n_features();
  out["float32_input"] = forest.float32_input();
  out["shift"] = forest.shift();
  return out;
}

Rows rows_of(const Forest& forest, const Matrix<const double>& x, const Matrix<int64_t>& acc,
             const Vector<int32_t>& done, const Vector<const int32_t>& until) {
  check_length(x.shape(1), static_cast<size_t>(forest.n_features()), "a row of X");
  check_length(acc.shape(0), x.shape(0), "acc");
  check_length(acc.shape(1), static_cast<size_t>(forest.n_outputs()), "a row of acc");
  check_length(done.size(), x.shape(0), "done");
  check_length(until.size(), x.shape(0), "until");
  return {.x = x.data(),
          .n = static_cast<int64_t>(x.shape(0)),
          .acc = acc.data(),
          .done = done.data(),
          .until = until.data()};
}

bool forest_run(const Forest& forest, Matrix<const double> x, Matrix<int64_t> acc, Vector<int32_t> done,
                Vector<const int32_t> until, double deadline, nb::object stop, int threads) {
  const Rows rows = rows_of(forest, x, acc, done, until);
  return watched(deadline, stop, [&](const Watch& watch) { return run(forest, rows, watch, threads); });
}

bool forest_run_metered(const Forest& forest, Matrix<const double> x, Matrix<int64_t> acc,
                        Vector<int32_t> done, Vector<const int32_t> until, Ledger& ledger,
                        Vector<const int64_t> evaluation, Vector<const int64_t> budget, double deadline,
                        nb::object stop) {
  const Rows rows = rows_of(forest, x, acc, done, until);
  check_length(budget.size(), x.shape(0), "budget");
  const Meter meter{.ledger = &ledger, .evaluation = span_of(evaluation), .budget = budget.data()};
  return watched(deadline, stop, [&](const Watch& watch) { return run_metered(forest, rows, meter, watch); });
}

bool forest_run_filtered(const Forest& forest, Matrix<const double> x, Matrix<int64_t> acc,
                         Vector<int32_t> done, Vector<const int32_t> until, Vector<const double> threshold,
                         Vector<const bool> below, Matrix<const double> start, Matrix<const double> rest,
                         Vector<int32_t> worked, Vector<int64_t> updates, Vector<int32_t> left_out,
                         Vector<int32_t> last, Ledger* ledger, Vector<const int64_t> evaluation,
                         Vector<const int64_t> budget, std::optional<Vector<const bool>> absent,
                         double deadline, nb::object stop) {
  const Rows rows = rows_of(forest, x, acc, done, until);
  for (const auto& scores : {start, rest}) {
    check_length(scores.shape(0), x.shape(0), "scores");
    check_length(scores.shape(1), static_cast<size_t>(forest.n_outputs()), "a row of scores");
  }
  check_length(worked.size(), x.shape(0), "worked");
  check_length(left_out.size(), x.shape(0), "left_out");
  check_length(last.size(), x.shape(0), "last");
  check_length(updates.size(), static_cast<size_t>(forest.n_stages()), "updates");
  check_length(budget.size(), x.shape(0), "budget");
  const Filter filter{.threshold = span_of(threshold),
                      .below = {reinterpret_cast<const uint8_t*>(below.data()), below.size()},
                      .start = start.data(),
                      .rest = rest.data(),
                      .worked = worked.data(),
                      .updates = updates.data(),
                      .left_out = left_out.data(),
                      .last = last.data()};
  Meter meter{.ledger = ledger, .evaluation = span_of(evaluation), .budget = budget.data()};
  if (absent) {
    if (!ledger) throw std::invalid_argument("rows that lack groups need a ledger");
    check_length(absent->size(), static_cast<size_t>(ledger->table()->n_groups()), "absent");
    meter.absent = {reinterpret_cast<const uint8_t*>(absent->data()), absent->size()};
  }
  return watched(deadline, stop,
                 [&](const Watch& watch) { return run_filtered(forest, rows, filter, meter, watch); });
}

int64_t typical_visits(const Forest& forest, int32_t until) {
  return until < 0 || until > forest.n_stages() ? 0 : forest.layout().visits[static_cast<size_t>(until)];
}

int32_t forest_run_one(const Forest& forest, Vector<const double> x, int32_t until, double deadline,
                       Vector<int64_t> acc) {
  check_length(x.size(), static_cast<size_t>(forest.n_features()), "x");
  check_length(acc.size(), static_cast<size_t>(forest.n_outputs()), "acc");
  const Watch watch(deadline, nullptr);
  // A short row keeps the lock: to let it go and get it back may take longer than the row.
  std::optional<nb::gil_scoped_release> unlocked;
  if (typical_visits(forest, until) > kLongRow) unlocked.emplace();
  return run_one(forest, x.data(), until, watch, acc.data());
}

nb::object forest_stage_outputs(const Forest& forest, Matrix<const double> x, Vector<const int64_t> stages) {
  check_length(x.shape(1), static_cast<size_t>(forest.n_features()), "a row of X");
  double* out;
  nb::object array =
      new_array<double>({stages.size(), x.shape(0), static_cast<size_t>(forest.n_outputs())}, &out);
  const nb::gil_scoped_release unlocked;
  stage_outputs(forest, x.data(), static_cast<int64_t>(x.shape(0)), span_of(stages), out);
  return array;
}

void bind_forest(nb::module_& m) {
  nb::class_<Forest>(
      m, "Forest",
      "An ensemble of trees, checked and immutable. Takes the fields of anytime.trees.TreeArrays.\n\n"
      "Sums are whole multiples of `unit` = 2**-shift, hence the same bits in any order. Without\n"
      "`shift` the finest unit that cannot overflow is chosen.")
      .def("__init__", &construct_forest, nb::kw_only(), "tree_start"_a.noconvert(),
           "stage_start"_a.noconvert(), "feature"_a.noconvert(), "threshold"_a.noconvert(),
           "left"_a.noconvert(), "right"_a.noconvert(), "default_left"_a.noconvert(), "missing"_a.noconvert(),
           "category_set"_a.noconvert(), "members_left"_a.noconvert(), "category_start"_a.noconvert(),
           "categories"_a.noconvert(), "value"_a.noconvert(), "tree_output"_a.noconvert(), "n_outputs"_a,
           "n_features"_a, "float32_input"_a = false, "shift"_a = nb::none())
      .def_prop_ro("n_trees", &Forest::n_trees, "Number of trees.")
      .def_prop_ro("n_stages", &Forest::n_stages, "Number of stages.")
      .def_prop_ro("n_outputs", &Forest::n_outputs, "Number of outputs.")
      .def_prop_ro("n_features", &Forest::n_features, "Number of columns a row has.")
      .def_prop_ro("unit", &Forest::unit, "What one in a sum is worth: 2.0**-shift.")
      .def_prop_ro("shift", &Forest::shift, "Binary digits after the point of the sums.")
      .def("run", &forest_run, "X"_a.noconvert(), "acc"_a.noconvert(), "done"_a.noconvert(),
           "until"_a.noconvert(), "deadline"_a = kInfinity, "stop"_a = nb::none(), "threads"_a = 1,
           "Take row i from done[i] to until[i] stages, adding to acc; True when all got there.\n\n"
           "All rows advance through early stages before late ones. When the deadline (in time.monotonic\n"
           "seconds) or `stop` (a StopFlag, or anything with is_set(), asked once a millisecond) cuts it\n"
           "short, acc holds exactly the first done[i] stages of row i.")
      .def("run_one", &forest_run_one, "x"_a.noconvert(), "until"_a, "deadline"_a, "acc"_a.noconvert(),
           "One row from the start: overwrites acc, returns the stages done by the deadline.")
      .def("run_metered", &forest_run_metered, "X"_a.noconvert(), "acc"_a.noconvert(), "done"_a.noconvert(),
           "until"_a.noconvert(), "ledger"_a, "evaluation"_a.noconvert(), "budget"_a.noconvert(),
           "deadline"_a = kInfinity, "stop"_a = nb::none(),
           "Like run, but a row buys the groups its path tests; False when it was cut short.\n\n"
           "A row that cannot pay stays at its last complete stage. The groups that an abandoned stage\n"
           "bought stay paid, its evaluation does not.")
      .def(
          "run_filtered", &forest_run_filtered, "X"_a.noconvert(), "acc"_a.noconvert(), "done"_a.noconvert(),
          "until"_a.noconvert(), "threshold"_a.noconvert(), "below"_a.noconvert(), "start"_a.noconvert(),
          "rest"_a.noconvert(), "worked"_a.noconvert(), "updates"_a.noconvert(), "left_out"_a.noconvert(),
          "last"_a.noconvert(), "ledger"_a.none(), "evaluation"_a.noconvert(), "budget"_a.noconvert(),
          "absent"_a.noconvert().none() = nb::none(), "deadline"_a = kInfinity, "stop"_a = nb::none(),
          "Like run, and with a ledger like run_metered, but a stage works only on rows whose margin passes.\n\n"
          "A threshold of NaN is open to all. Scores are start + (rest + acc * unit). Counts up the stages\n"
          "that have worked on each row, and the rows that each stage has worked on. A stage that would read\n"
          "one of the groups `absent` of a row is left out, counted in `left_out`, and nothing of it is paid;\n"
          "a row that could not pay for the group ends there. `last` is the last stage that was not left out.")
      .def(
          "need",
          [](const Forest& forest, Vector<const double> x, int64_t stage, Vector<const bool> available,
             const CostTable& table, std::optional<Vector<const bool>> lost) {
            check_length(x.size(), static_cast<size_t>(forest.n_features()), "x");
            forest.check_stage(stage);
            std::span<const uint8_t> gone;
            if (lost) gone = {reinterpret_cast<const uint8_t*>(lost->data()), lost->size()};
            return need(forest, x.data(), static_cast<int32_t>(stage),
                        {reinterpret_cast<const uint8_t*>(available.data()), available.size()}, table, gone);
          },
          "x"_a.noconvert(), "stage"_a, "available"_a.noconvert(), "table"_a,
          "lost"_a.noconvert().none() = nb::none(),
          "First group that the row's path through the stage tests and that is not available, else -1.\n\n"
          "With `lost`, the first of those groups that the trees are known to test, by what is available.")
      .def(
          "stage_columns",
          [](const Forest& forest, int64_t stage) {
            forest.check_stage(stage);
            return array_of(std::span<const int32_t>(forest.stage_columns(static_cast<int32_t>(stage))));
          },
          "stage"_a, "Columns that the stage may test, ascending.")
      .def("stage_outputs", &forest_stage_outputs, "X"_a.noconvert(), "stages"_a.noconvert(),
           "What each of the stages adds by itself: (len(stages), n, n_outputs).")
      .def(
          "select",
          [](const Forest& forest, Vector<const int64_t> stages) {
            const nb::gil_scoped_release unlocked;
            return forest.select(span_of(stages));
          },
          "stages"_a.noconvert(), "A forest of those stages in that order, with the same unit.")
      .def_prop_ro("frozen_size", &Forest::frozen_size, "Bytes that freeze needs.")
      .def(
          "freeze",
          [](const Forest& forest, Vector<uint8_t> into) {
            const nb::gil_scoped_release unlocked;
            forest.freeze({reinterpret_cast<std::byte*>(into.data()), into.size()});
          },
          "into"_a.noconvert(), "Write everything into one piece of memory: see thawed.")
      .def_static(
          "thawed",
          [](Vector<const uint8_t> frozen) {
            return Forest::thawed({reinterpret_cast<const std::byte*>(frozen.data()), frozen.size()});
          },
          "frozen"_a.noconvert(), nb::keep_alive<0, 1>(),
          "The forest that lies in a piece of memory, which is not copied: processes that map the same file share it.\n\n"
          "For memory that another process of the same build wrote by freeze; its contents are trusted.")
      .def("arrays", &forest_arrays,
           "The constructor's arguments: the fields of TreeArrays exactly as they were given, and shift.")
      .def("__getstate__", &forest_arrays)
      .def("__setstate__", [](Forest& self, const nb::dict& arrays) {
        const auto vec = [&]<class T>(T, const char* name) {
          return nb::cast<Vector<const T>>(arrays[name]);
        };
        construct_forest(&self, vec(int64_t{}, "tree_start"), vec(int64_t{}, "stage_start"),
                         vec(int32_t{}, "feature"), vec(double{}, "threshold"), vec(int32_t{}, "left"),
                         vec(int32_t{}, "right"), vec(uint8_t{}, "default_left"), vec(uint8_t{}, "missing"),
                         vec(int32_t{}, "category_set"), vec(uint8_t{}, "members_left"),
                         vec(int64_t{}, "category_start"), vec(int32_t{}, "categories"),
                         nb::cast<Matrix<const double>>(arrays["value"]), vec(int32_t{}, "tree_output"),
                         nb::cast<int64_t>(arrays["n_outputs"]), nb::cast<int64_t>(arrays["n_features"]),
                         nb::cast<bool>(arrays["float32_input"]), nb::cast<int>(arrays["shift"]));
      });
}

void bind_vectors(nb::module_& m) {
  m.def(
      "is_within",
      [](Matrix<const double> x, double largest, bool missing) {
        return is_within(std::span(x.data(), x.size()), largest, missing);
      },
      "X"_a.noconvert(), "largest"_a, "missing"_a,
      "Whether no number is greater than ``largest`` or less than ``-largest``, and none is NaN unless ``missing``.");
  m.def(
      "vectors",
      [] {
        nb::list names;
        for (const Vectors vectors : kAllVectors) {
          if (is_supported(vectors)) names.append(name_of(vectors));
        }
        return names;
      },
      "Instruction sets of this machine for which forests are compiled, narrowest first.");
  m.def("vectors_in_use", [] { return name_of(vectors_in_use()); }, "The one that runs use: the widest.");
  m.def(
      "use_vectors",
      [](const std::string& name) {
        for (const Vectors vectors : kAllVectors) {
          if (name == name_of(vectors)) return use_vectors(vectors);
        }
        throw std::invalid_argument("no instruction set is called '" + name + "'");
      },
      "name"_a, "Use another instruction set from now on. For tests: each gives the same bits.");
}

}  // namespace
}  // namespace anytime

NB_MODULE(_native, m) {
  // A model that a server or a test still holds when the interpreter ends is no leak, and nothing to tell a
  // user.
  nb::set_leak_warnings(false);
#ifdef _WIN32
  anytime::python_counts_ticks = Py_Version < 0x030D0000;
#endif
  m.doc() = "Native core of anytime: interruptible tree ensembles, and the ledger of what a row has paid.";
  anytime::bind_stop_flag(m);
  anytime::bind_cost_table(m);
  anytime::bind_ledger(m);
  anytime::bind_forest(m);
  anytime::bind_vectors(m);
  anytime::bind_answers(m);
  anytime::bind_bandit(m);
  anytime::bind_grow(m);
  anytime::bind_class_grow(m);
  anytime::bind_coded(m);
  anytime::bind_lasso(m);
  anytime::bind_linear(m);
  anytime::bind_margins(m);
  anytime::bind_neighbours(m);
  anytime::bind_prune(m);
  anytime::bind_scene(m);
  anytime::bind_stream(m);
  anytime::bind_stream_banks(m);
}
