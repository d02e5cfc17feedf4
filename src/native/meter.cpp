#include "meter.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "meter_scan.hpp"
#include "walk.hpp"

namespace anytime {

void check_meter(const Forest& forest, const Rows& rows, const Meter& meter) {
  check_rows(forest, rows);
  if (meter.ledger->n_rows() != rows.n) {
    throw std::invalid_argument("ledger has " + std::to_string(meter.ledger->n_rows()) + " rows, X has " +
                                std::to_string(rows.n));
  }
  if (meter.ledger->table()->n_columns() != forest.n_features()) {
    throw std::invalid_argument("cost table has " + std::to_string(meter.ledger->table()->n_columns()) +
                                " columns, the forest " + std::to_string(forest.n_features()));
  }
  if (meter.evaluation.size() != static_cast<size_t>(forest.n_stages())) {
    throw std::invalid_argument("evaluation has " + std::to_string(meter.evaluation.size()) +
                                " entries, the forest " + std::to_string(forest.n_stages()) + " stages");
  }
  for (const int64_t ticks : meter.evaluation) {
    if (ticks < 0) throw std::invalid_argument("evaluation cost " + std::to_string(ticks) + " is negative");
  }
}

Outcome walk_stage(const Forest& forest, const Meter& meter, const double* x, int64_t row, int32_t stage,
                   std::vector<int64_t>& sums, Pacer& pacer) noexcept {
  Ledger* const ledger = meter.ledger;
  const CostTable* const table = ledger ? ledger->table().get() : nullptr;
  const int64_t budget = ledger ? meter.budget[row] : 0;
  const int64_t evaluation = ledger ? meter.evaluation[static_cast<size_t>(stage)] : 0;
  const bool may_lack = ledger && !meter.absent.empty();
  bool lacking = false;
  if (may_lack) ledger->keep(row);
  if (ledger && !ledger->try_charge(row, evaluation, budget)) return Outcome::kBroke;
  std::fill(sums.begin(), sums.end(), 0);
  for (int32_t t = forest.first_tree(stage); t < forest.first_tree(stage + 1); ++t) {
    int64_t visits = 1;
    const int64_t leaf =
        find_leaf(forest, forest.tree_start()[static_cast<size_t>(t)], x, [&](int32_t feature) {
          visits += 8;  // a plain step that looks up a ledger costs about as much as eight of the kernels'
          if (!ledger) return true;
          const int32_t group = table->group_of(feature);
          if (may_lack && meter.absent[static_cast<size_t>(group)]) {
            lacking = ledger->can_buy(row, group, budget);
            return false;
          }
          return ledger->has(row, group) || ledger->try_buy(row, group, budget);
        });
    if (lacking) {
      ledger->restore(row);
      return Outcome::kLacking;
    }
    if (leaf < 0) {
      ledger->refund(row, evaluation);
      return Outcome::kBroke;
    }
    add_leaf(forest, t, leaf, sums.data());
    if (pacer.expired_after(visits) && t + 1 < forest.first_tree(stage + 1)) {
      if (may_lack) {
        ledger->restore(row);  // the next try may find that the row lacks a group
      } else if (ledger) {
        ledger->refund(row, evaluation);
      }
      return Outcome::kCut;
    }
  }
  return Outcome::kDone;
}

bool run_metered(const Forest& forest, const Rows& rows, const Meter& meter, const Watch& watch) {
  check_meter(forest, rows, meter);
  // The caller's arrays are read once: another thread may write to them meanwhile.
  std::vector<int32_t> done(rows.done, rows.done + rows.n), until(rows.until, rows.until + rows.n);
  check_rows(forest, {.n = rows.n, .done = done.data(), .until = until.data()});
  std::vector<int64_t> active;
  for (int64_t i = 0; i < rows.n; ++i) {
    const auto at = static_cast<size_t>(i);
    if (done[at] < until[at]) active.push_back(i);
  }
  // Nobody looks meanwhile, so rows need not keep step with each other.
  if (!watch.armed() && is_worth_scanning(forest, static_cast<int64_t>(active.size()))) {
    const Rows copied{.x = rows.x, .n = rows.n, .acc = rows.acc, .done = done.data(), .until = until.data()};
    run_metered_scans(forest, copied, meter);
    std::copy(done.begin(), done.end(), rows.done);
    return true;
  }
  std::vector<int64_t> sums(static_cast<size_t>(forest.n_outputs()));
  Pacer pacer(watch);
  if (!active.empty() && pacer.expired_after(1)) return false;

  int32_t first = forest.n_stages();
  for (const int64_t row : active) first = std::min(first, done[static_cast<size_t>(row)]);
  for (int32_t stage = first; !active.empty(); ++stage) {
    size_t kept = 0;
    for (size_t i = 0; i < active.size(); ++i) {
      const int64_t row = active[i];
      const auto at = static_cast<size_t>(row);
      if (done[at] > stage) {
        active[kept++] = row;
        continue;
      }
      const Outcome outcome = pacer.expired()
                                  ? Outcome::kCut
                                  : walk_stage(forest, meter, rows.row(forest, row), row, stage, sums, pacer);
      if (outcome == Outcome::kCut) return false;
      if (outcome == Outcome::kBroke) continue;
      for (size_t k = 0; k < sums.size(); ++k) add_units(rows.acc[at * sums.size() + k], sums[k]);
      rows.done[row] = ++done[at];
      if (done[at] < until[at]) active[kept++] = row;
    }
    active.resize(kept);
  }
  return true;
}

int32_t need(const Forest& forest, const double* x, int32_t stage, std::span<const uint8_t> available,
             const CostTable& table, std::span<const uint8_t> lost) {
  forest.check_stage(stage);
  const auto n_groups = static_cast<size_t>(table.n_groups());
  if (table.n_columns() != forest.n_features() || available.size() != n_groups ||
      (!lost.empty() && lost.size() != n_groups)) {
    throw std::invalid_argument("cost table, availability and forest do not fit together");
  }
  int32_t wanted = -1;
  for (int32_t t = forest.first_tree(stage); t < forest.first_tree(stage + 1); ++t) {
    find_leaf(forest, forest.tree_start()[static_cast<size_t>(t)], x, [&](int32_t feature) {
      const int32_t group = table.group_of(feature);
      if (available[static_cast<size_t>(group)]) return true;
      if (lost.empty() || lost[static_cast<size_t>(group)]) wanted = group;
      return false;
    });
    if (wanted >= 0) return wanted;
  }
  return -1;
}

}  // namespace anytime
