#include "class_grow_tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "grow_split.hpp"

namespace anytime {
namespace {

constexpr size_t kPatch = 4096;  // rows that are copied together, for a subtree to be grown in the cache
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

ClassGrower::ClassGrower(const ClassJob& job)
    : job_(job), bins_(job.bins), options_(job.options), search_(bins_, options_, job.columns, job.width()) {
  const auto n = static_cast<size_t>(bins_.n_rows());
  facts_.resize(n);
  rows_.resize(std::min(n, job.rows.size()));
  moved_.resize(rows_.size());
  code_.resize(rows_.size());
  weight_.resize(rows_.size());
  if (options_.min_rows > 1) repeats_.resize(rows_.size());
  if (job.targets.n_classes == 0) target_.resize(rows_.size());
  const size_t patch = std::min(kPatch, rows_.size());
  patch_facts_.resize(patch);
  const auto slots = static_cast<size_t>(bins_.n_slots());
  (bins_.wide() ? patch_wide_.resize(patch * slots) : patch_narrow_.resize(patch * slots));
  int32_t most = 1;
  for (int32_t slot = 0; slot < bins_.n_slots(); ++slot) most = std::max(most, bins_.slot_size(slot));
  outcome_of_.resize(static_cast<size_t>(most));
  total_.resize(static_cast<size_t>(job.width()));
  code_of_.resize(total_.size());
}

bool ClassGrower::grow(int64_t tree, ClassTree& out) {
  tree_ = &out;
  random_ = RandomStream(job_.seed, static_cast<uint64_t>(tree));
  out.tree.cuts = bins_.shared_cuts();
  out.width = job_.width();
  draw();
  if (!open_root()) return false;
  std::vector<size_t> live;
  while (!stack_.empty()) {
    OpenNode at = std::move(stack_.back());
    stack_.pop_back();
    live_.resize(at.live_end);
    if (!at.local && at.end - at.begin <= patch_facts_.size()) move_in(at);
    const NodeRows node = prepare(at);
    search_.begin(node, random_);
    if (!search(at, node, live)) return false;
    if (!search_.best().found()) continue;
    at.live_begin = live_.size();
    live_.insert(live_.end(), live.begin(), live.end());
    at.live_end = live_.size();
    split(at);
  }
  finish();
  return true;
}

// The rows to learn from, each once, with how often it was drawn.
void ClassGrower::draw() {
  const auto n = job_.rows.size();
  for (RowFact& fact : facts_) fact.repeats = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t at = job_.bootstrap ? static_cast<size_t>(random_.below(n)) : i;
    ++facts_[static_cast<size_t>(job_.rows[at])].repeats;
  }
  rows_.resize(moved_.size());
  size_t kept = 0;
  for (size_t row = 0; row < facts_.size(); ++row) {
    RowFact& fact = facts_[row];
    if (fact.repeats == 0) continue;
    fact.weight = (job_.weight.empty() ? 1.0 : job_.weight[row]) * fact.repeats;
    fact.target = job_.targets.y[row];
    fact.label = regression() ? 0 : static_cast<int32_t>(fact.target);
    rows_[kept++] = static_cast<int32_t>(row);
  }
  rows_.resize(kept);
}

bool ClassGrower::open_root() {
  stack_.clear();
  live_.resize(job_.columns.size());
  std::iota(live_.begin(), live_.end(), size_t{0});
  outcomes_.assign(1, Outcome{.node = add_nodes(1), .end = rows_.size()});
  Outcome& root = outcomes_[0];
  sum_up(root, false);
  std::copy(root.statistics.begin(), root.statistics.end(), statistics(0));
  double impurity = 0.0;
  if (!options_.impurity.evaluate(root.statistics.data(), 1, job_.width(), &impurity)) return false;
  if (!std::isfinite(impurity)) {
    throw std::invalid_argument(
        "the impurity of all rows is beyond what a number can hold: use smaller weights or powers");
  }
  OpenNode nothing{.live_end = live_.size(), .depth = -1};
  if (options_.discount_reused && job_.table != nullptr)
    nothing.paid.assign(static_cast<size_t>(job_.table->n_groups()), 0);
  open(root, nothing, impurity);
  return true;
}

void ClassGrower::open(const Outcome& outcome, const OpenNode& parent, double impurity) {
  const int64_t depth = parent.depth + 1;
  tree_->depth = std::max(tree_->depth, depth);
  if (regression() && outcome.constant) return;
  // Of numbers the impurity is known only when they are seen about their mean.
  if (!regression() && impurity <= options_.min_impurity) return;
  if (depth == options_.max_depth || outcome.n_rows < 2 * options_.min_rows) return;
  if (outcome.end - outcome.begin < 2 || parent.live_end == parent.live_begin) return;
  stack_.push_back({.node = outcome.node,
                    .begin = outcome.begin,
                    .end = outcome.end,
                    .live_begin = parent.live_begin,
                    .live_end = parent.live_end,
                    .depth = depth,
                    .n_rows = outcome.n_rows,
                    .impurity = impurity,
                    .local = parent.local,
                    .paid = parent.paid});
}

// Copies the node's rows to where all of its subtree is close together.
void ClassGrower::move_in(OpenNode& open) noexcept {
  int32_t* rows = rows_.data() + open.begin;
  const size_t n = open.end - open.begin, room = patch_facts_.size();
  for (size_t i = 0; i < n; ++i) patch_facts_[i] = facts_[static_cast<size_t>(rows[i])];
  int32_t last = -1;
  for (size_t k = open.live_begin; k < open.live_end; ++k) {
    const int32_t slot = bins_.place(job_.columns[live_[k]]).slot;
    if (slot == last) continue;
    last = slot;
    const auto copy = [&](const auto* from, auto* to) {
      for (size_t i = 0; i < n; ++i) to[i] = from[rows[i]];
    };
    const size_t first = static_cast<size_t>(slot) * room;
    if (bins_.wide())
      copy(bins_.column<uint16_t>(slot), patch_wide_.data() + first);
    else
      copy(bins_.column<uint8_t>(slot), patch_narrow_.data() + first);
  }
  std::iota(rows, rows + n, 0);
  open.local = true;
}

NodeRows ClassGrower::prepare(OpenNode& open) {
  const size_t n = open.end - open.begin;
  const int32_t* rows = rows_.data() + open.begin;
  const RowFact* facts = this->facts(open.local);
  const double* sums = statistics(open.node);
  NodeRows node{.rows = {rows, n}, .weight = weight_.data(), .total = total_.data(), .n_rows = open.n_rows};
  if (regression()) {
    const double mean = sums[1] / sums[0];
    std::fill(total_.begin(), total_.end(), 0.0);
    for (size_t i = 0; i < n; ++i) {
      const RowFact& at = facts[rows[i]];
      const double target = at.target - mean;
      weight_[i] = at.weight;
      target_[i] = target;
      total_[0] += at.weight;
      total_[1] += at.weight * target;
      total_[2] += at.weight * target * target;
    }
    node.target = target_.data();
    node.width = job_.width();
    options_.impurity.evaluate(total_.data(), 1, node.width, &open.impurity);
  } else {
    for (size_t c = 0; c < width(); ++c) {
      if (options_.impurity.symmetric() && sums[c] == 0.0) continue;
      code_of_[c] = node.width;
      total_[static_cast<size_t>(node.width++)] = sums[c];
    }
    for (size_t i = 0; i < n; ++i) {
      const RowFact& at = facts[rows[i]];
      weight_[i] = at.weight;
      code_[i] = code_of_[static_cast<size_t>(at.label)];
    }
    node.code = code_.data();
  }
  if (!repeats_.empty()) {
    for (size_t i = 0; i < n; ++i) repeats_[i] = facts[rows[i]].repeats;
    node.repeats = repeats_.data();
  }
  node.impurity = open.impurity;
  return node;
}

// Tries columns, and lists those that are not constant; false: the impurity gave up.
bool ClassGrower::search(const OpenNode& open, const NodeRows& node, std::vector<size_t>& live) {
  live.clear();
  if (node.impurity <= options_.min_impurity) return true;
  const auto consider = [&](size_t position) {
    const int32_t column = job_.columns[position];
    return search_.consider(column, values(column, open.local), price(column, open));
  };
  const size_t n = open.live_end - open.live_begin;
  if (options_.max_features == 0) {
    for (size_t k = open.live_begin; k < open.live_end; ++k) {
      if (consider(live_[k])) live.push_back(live_[k]);
    }
    return search_.settle();
  }
  pool_.assign(live_.begin() + static_cast<int64_t>(open.live_begin),
               live_.begin() + static_cast<int64_t>(open.live_end));
  int64_t tried = 0;
  for (size_t k = 0; k < n; ++k) {
    if (tried >= options_.max_features) {
      if (!search_.settle()) return false;
      if (search_.best().found()) {
        live.insert(live.end(), pool_.begin() + static_cast<int64_t>(k), pool_.end());
        break;
      }
    }
    std::swap(pool_[k], pool_[k + static_cast<size_t>(random_.below(n - k))]);
    if (!consider(pool_[k])) continue;
    live.push_back(pool_[k]);
    ++tried;
  }
  std::sort(live.begin(), live.end());
  return search_.settle();
}

double ClassGrower::price(int32_t column, const OpenNode& open) const noexcept {
  if (open.paid.empty()) return job_.prices[static_cast<size_t>(column)];
  int64_t ticks = 0;
  for (const int32_t group : job_.table->closure(job_.table->group_of(column))) {
    if (open.paid[static_cast<size_t>(group)] == 0) ticks += job_.table->own_price(group);
  }
  return static_cast<double>(ticks);
}

// ------------------------------------------------------------------ making the best test

void ClassGrower::split(OpenNode& at) {
  const BestTest& best = search_.best();
  const Proposal& chosen = best.proposal;
  const int32_t column = chosen.column;
  search_.recall(values(column, at.local));
  tree_->risk[static_cast<size_t>(at.node)] = best.risk;
  const auto n_outcomes = static_cast<size_t>(chosen.n_outcomes);
  partition(at, column, n_outcomes);
  for (size_t i = 0; i < n_outcomes; ++i) sum_up(outcomes_[i], at.local);
  if (options_.multiway)
    expand(at.node, 0, search_.n_entries(), bins_.cuts()[column]);
  else
    make_stump(at.node, chosen);
  if (!at.paid.empty()) {
    for (const int32_t group : job_.table->closure(job_.table->group_of(column)))
      at.paid[static_cast<size_t>(group)] = 1;
  }
  for (size_t i = n_outcomes; i-- > 0;) open(outcomes_[i], at, best.impurities[i]);
}

// Rows of an outcome together, in their order.
void ClassGrower::partition(const OpenNode& at, int32_t column, size_t n_outcomes) {
  const Proposal& chosen = search_.best().proposal;
  const bool sorted = chosen.order >= 0;
  const auto outcome = [&](int32_t entry) {
    if (options_.multiway) return entry;
    const bool missing = search_.has_missing() && !sorted && entry + 1 == search_.n_entries();
    return int32_t{missing ? !chosen.missing_left : entry >= chosen.left};
  };
  if (bins_.place(column).first >= 0) {  // all other values of the slot are the column's common bin
    int32_t common = 0;
    for (int32_t entry = 0; entry < search_.n_entries(); ++entry) {
      if (search_.bin(entry) == bins_.cuts()[column].common) common = outcome(entry);
    }
    std::fill(outcome_of_.begin(), outcome_of_.end(), common);
  }
  for (int32_t entry = 0; entry < search_.n_entries(); ++entry)
    outcome_of_[static_cast<size_t>(bins_.slot_value(column, search_.bin(entry)))] = outcome(entry);

  outcomes_.resize(std::max(outcomes_.size(), n_outcomes));
  for (size_t i = 0; i < n_outcomes; ++i) outcomes_[i].end = 0;
  const auto move = [&](const auto* slot_values) {
    int32_t* rows = rows_.data();
    for (size_t i = at.begin; i < at.end; ++i)
      ++outcomes_[static_cast<size_t>(outcome_of_[slot_values[rows[i]]])].end;
    size_t begin = at.begin;
    for (size_t i = 0; i < n_outcomes; ++i) {
      outcomes_[i].begin = begin;
      begin += outcomes_[i].end;
      outcomes_[i].end = outcomes_[i].begin;
    }
    for (size_t i = at.begin; i < at.end; ++i)
      moved_[outcomes_[static_cast<size_t>(outcome_of_[slot_values[rows[i]]])].end++] = rows[i];
    std::copy(moved_.begin() + static_cast<int64_t>(at.begin), moved_.begin() + static_cast<int64_t>(at.end),
              rows + at.begin);
  };
  const SlotValues slot = values(column, at.local);
  if (slot.narrow != nullptr)
    move(slot.narrow);
  else
    move(slot.wide);
}

void ClassGrower::sum_up(Outcome& outcome, bool local) const noexcept {
  outcome.statistics.assign(width(), 0.0);
  outcome.n_rows = 0;
  outcome.constant = true;
  const RowFact* facts = this->facts(local);
  const double first = facts[rows_[outcome.begin]].target;
  for (size_t i = outcome.begin; i < outcome.end; ++i) {
    const RowFact& at = facts[rows_[i]];
    outcome.n_rows += at.repeats;
    if (!regression()) {
      outcome.statistics[static_cast<size_t>(at.label)] += at.weight;
      continue;
    }
    outcome.constant = outcome.constant && at.target == first;
    outcome.statistics[0] += at.weight;
    outcome.statistics[1] += at.weight * at.target;
    outcome.statistics[2] += at.weight * at.target * at.target;
  }
}

int32_t ClassGrower::add_nodes(size_t n) {
  const size_t first = tree_->tree.nodes.size();
  tree_->tree.nodes.resize(first + n);
  tree_->statistics.resize((first + n) * width());
  tree_->risk.resize(first + n, kNone);
  return static_cast<int32_t>(first);
}

void ClassGrower::make_stump(int32_t node, const Proposal& chosen) {
  const int32_t first = add_nodes(2);
  for (int32_t side = 0; side < 2; ++side) {
    Outcome& outcome = outcomes_[static_cast<size_t>(side)];
    outcome.node = first + side;
    std::copy(outcome.statistics.begin(), outcome.statistics.end(), statistics(outcome.node));
  }
  const BinColumn& column = bins_.cuts()[chosen.column];
  const bool mostly_left = weight_of(statistics(first)) >= weight_of(statistics(first + 1));
  Split split{.possible = true, .default_left = search_.has_missing() ? chosen.missing_left : mostly_left};
  if (column.categorical) {
    BinSet sides[2] = {};
    for (int32_t entry = 0; entry < search_.n_entries(); ++entry)
      put(sides[entry < chosen.left ? 0 : 1], search_.bin(entry));
    split = set_split(column, sides[0], sides[1], mostly_left);
  } else {
    const int32_t n_values = search_.n_entries() - search_.has_missing();
    split.cut = chosen.left == n_values
                    ? column.n_values - 1
                    : middle_cut(column, search_.bin(chosen.left - 1), search_.bin(chosen.left));
  }
  split.gain = search_.best().drop;
  GrownNode& at = tree_->tree.nodes[static_cast<size_t>(node)];
  at.column = chosen.column;
  at.left = first;
  at.right = first + 1;
  at.split = split;
}

// Binary nodes for outcomes [first, last): those of missing values by themselves first, then by halves.
void ClassGrower::expand(int32_t node, int32_t first, int32_t last, const BinColumn& column) {
  const bool missing = search_.has_missing() && last == search_.n_entries();
  const int32_t middle = missing ? last - 1 : first + (last - first) / 2;
  const int32_t child = add_nodes(2);
  BinSet sides[2] = {};
  for (int32_t side = 0; side < 2; ++side) {
    const int32_t begin = side == 0 ? first : middle, end = side == 0 ? middle : last;
    double* sums = statistics(child + side);
    for (int32_t entry = begin; entry < end; ++entry) {
      const Outcome& outcome = outcomes_[static_cast<size_t>(entry)];
      for (size_t c = 0; c < width(); ++c) sums[c] += outcome.statistics[c];
      if (column.categorical) put(sides[side], search_.bin(entry));
    }
  }
  const bool mostly_left = weight_of(statistics(child)) >= weight_of(statistics(child + 1));
  Split split{.possible = true, .default_left = !missing && mostly_left};
  if (column.categorical)
    split = set_split(column, sides[0], sides[1], mostly_left);
  else
    split.cut =
        missing ? column.n_values - 1 : middle_cut(column, search_.bin(middle - 1), search_.bin(middle));
  GrownNode& at = tree_->tree.nodes[static_cast<size_t>(node)];
  at.column = search_.best().proposal.column;
  at.left = child;
  at.right = child + 1;
  at.split = split;
  for (int32_t side = 0; side < 2; ++side) {
    const int32_t begin = side == 0 ? first : middle, end = side == 0 ? middle : last;
    if (end - begin > 1)
      expand(child + side, begin, end, column);
    else
      outcomes_[static_cast<size_t>(begin)].node = child + side;
  }
}

void ClassGrower::finish() {
  GrownTree& tree = tree_->tree;
  tree.n_outputs = regression() ? 1 : job_.targets.n_classes;
  tree.n_leaves = static_cast<int32_t>(tree.nodes.size());
  tree.values.resize(tree.nodes.size() * static_cast<size_t>(tree.n_outputs));
  double* value = tree.values.data();
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    tree.nodes[i].leaf = static_cast<int32_t>(i);
    const double* sums = statistics(static_cast<int32_t>(i));
    const double weight = weight_of(sums);
    if (regression()) {
      *value++ = sums[1] / weight;
      continue;
    }
    for (size_t c = 0; c < width(); ++c) *value++ = sums[c] / weight;
  }
}

}  // namespace anytime
