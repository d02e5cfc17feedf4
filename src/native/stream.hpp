// Banks of learners on a stream: all learners answer for the same rows, then each takes a step towards its
// own targets.
#pragma once

#include <cstdint>
#include <shared_mutex>

namespace anytime {

class Team;

struct StreamRows {
  const double* x = nullptr;       // (n, d)
  const double* weight = nullptr;  // (n), or null: 1. A row of weight 0 teaches nothing
  int64_t n = 0;

  double weight_of(int64_t row) const noexcept { return weight == nullptr ? 1.0 : weight[row]; }
};

// N learners with d columns and m outputs. Learner i depends on nothing but the rows, its targets, a seed and
// i.
class StreamBank {
 public:
  StreamBank(int64_t n_features, int64_t n_outputs) : n_features_(n_features), n_outputs_(n_outputs) {}
  virtual ~StreamBank() = default;

  int64_t n_learners() const noexcept { return n_learners_; }
  int64_t n_features() const noexcept { return n_features_; }
  int64_t n_outputs() const noexcept { return n_outputs_; }

  // (N, n, m) what every learner says of every row.
  virtual void predict(const StreamRows& rows, double* out, Team& team) const = 0;
  // One round: a step of every learner towards its targets (N, n, m), rows in their order.
  virtual void update(const StreamRows& rows, const double* targets, Team& team) = 0;
  // The same two for a round that runs them one after the other on the same rows: what the first finds out
  // about the rows, the second need not look for.
  virtual void answer(const StreamRows& rows, double* out, Team& team) { predict(rows, out, team); }
  virtual void learn(const StreamRows& rows, const double* targets, Team& team) {
    update(rows, targets, team);
  }
  // Further learners behind the others.
  virtual void append(int64_t n) = 0;

  // For callers on several threads: shared to read, alone to change.
  std::shared_mutex& door() const noexcept { return door_; }

 protected:
  int64_t n_learners_ = 0;

 private:
  int64_t n_features_, n_outputs_;
  mutable std::shared_mutex door_;
};

}  // namespace anytime
