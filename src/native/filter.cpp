#include "filter.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "walk.hpp"

namespace anytime {
namespace {

void check(const Forest& forest, const Filter& filter) {
  const auto stages = static_cast<size_t>(forest.n_stages());
  if (filter.threshold.size() != stages || filter.below.size() != stages) {
    throw std::invalid_argument("filter has " + std::to_string(filter.threshold.size()) +
                                " thresholds, the forest " + std::to_string(stages) + " stages");
  }
}

// Rows on their way, with copies of the caller's numbers: another thread may write to them meanwhile.
class Filtered {
 public:
  Filtered(const Forest& forest, const Rows& rows, const Filter& filter, const Meter& meter,
           const Watch& watch)
      : forest_(forest),
        rows_(rows),
        filter_(filter),
        meter_(meter),
        pacer_(watch),
        unit_(forest.unit()),
        outputs_(static_cast<size_t>(forest.n_outputs())),
        done_(rows.done, rows.done + rows.n),
        until_(rows.until, rows.until + rows.n),
        sums_(outputs_) {
    check_rows(forest, {.n = rows.n, .done = done_.data(), .until = until_.data()});
  }

  bool run() {
    if (rows_.n > 0 && pacer_.expired_after(1)) return false;
    return pacer_.armed() ? by_stage() : by_row();
  }

 private:
  // Nobody looks meanwhile, so each row goes all the way: what it reads stays near, and its margin is worked
  // out only when a stage has changed it.
  bool by_row() noexcept {
    for (int64_t i = 0; i < rows_.n; ++i) {
      const auto at = static_cast<size_t>(i);
      int32_t stage = done_[at];
      if (stage >= until_[at]) continue;
      double margin = margin_of(i);
      for (; stage < until_[at]; ++stage) {
        if (is_open(stage, margin)) {
          const Outcome outcome = work(i, stage);
          if (outcome == Outcome::kLacking) continue;
          if (outcome != Outcome::kDone) break;
          margin = margin_of(i);
        }
        filter_.last[i] = stage + 1;
      }
      rows_.done[i] = stage;
    }
    return true;
  }

  bool by_stage() noexcept {
    int32_t first = forest_.n_stages();
    for (size_t i = 0; i < done_.size(); ++i) {
      if (done_[i] < until_[i]) first = std::min(first, done_[i]);
    }
    for (int32_t stage = first; stage < forest_.n_stages(); ++stage) {
      for (int64_t i = 0; i < rows_.n; ++i) {
        const auto at = static_cast<size_t>(i);
        if (done_[at] != stage || stage >= until_[at]) continue;
        if (pacer_.expired_after(1)) return false;
        if (step(i, stage) == Outcome::kCut) return false;
      }
    }
    return true;
  }

  Outcome step(int64_t row, int32_t stage) noexcept {
    Outcome outcome = Outcome::kDone;
    if (is_open(stage, margin_of(row))) outcome = work(row, stage);
    if (outcome == Outcome::kBroke || outcome == Outcome::kCut) return outcome;
    rows_.done[row] = ++done_[static_cast<size_t>(row)];
    if (outcome == Outcome::kDone) filter_.last[row] = stage + 1;
    return Outcome::kDone;
  }

  Outcome work(int64_t row, int32_t stage) noexcept {
    const Outcome outcome = walk_stage(forest_, meter_, rows_.row(forest_, row), row, stage, sums_, pacer_);
    if (outcome == Outcome::kLacking) ++filter_.left_out[row];
    if (outcome != Outcome::kDone) return outcome;
    int64_t* acc = rows_.acc + static_cast<size_t>(row) * outputs_;
    for (size_t k = 0; k < outputs_; ++k) add_units(acc[k], sums_[k]);
    ++filter_.worked[row];
    ++filter_.updates[stage];
    return outcome;
  }

  bool is_open(int32_t stage, double margin) const noexcept {
    const double threshold = filter_.threshold[static_cast<size_t>(stage)];
    return std::isnan(threshold) || (margin < threshold) == (filter_.below[static_cast<size_t>(stage)] != 0);
  }

  double score(size_t entry) const noexcept {
    const double sum = static_cast<double>(rows_.acc[entry]) * unit_;
    return filter_.start[entry] + (filter_.rest[entry] + sum);
  }

  double margin_of(int64_t row) const noexcept {
    const size_t first = static_cast<size_t>(row) * outputs_;
    if (outputs_ == 1) return std::abs(score(first));
    double top = -std::numeric_limits<double>::infinity(), second = top;
    for (size_t k = 0; k < outputs_; ++k) {
      const double value = score(first + k);
      if (std::isnan(value)) return value;
      second = std::max(second, std::min(top, value));
      top = std::max(top, value);
    }
    return top - second;
  }

  const Forest& forest_;
  const Rows& rows_;
  const Filter& filter_;
  const Meter& meter_;
  Pacer pacer_;
  double unit_;
  size_t outputs_;
  std::vector<int32_t> done_, until_;
  std::vector<int64_t> sums_;
};

}  // namespace

bool run_filtered(const Forest& forest, const Rows& rows, const Filter& filter, const Meter& meter,
                  const Watch& watch) {
  check_rows(forest, rows);
  check(forest, filter);
  if (meter.ledger != nullptr) check_meter(forest, rows, meter);
  return Filtered(forest, rows, filter, meter, watch).run();
}

}  // namespace anytime
