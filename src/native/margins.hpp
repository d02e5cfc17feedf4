// Which group to buy next for a row: the one with which most reference points that look like it are on the
// right side (Nan et al., Fast margin-based cost-sensitive classification).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "costs.hpp"

namespace anytime {

enum class Neighbourhood : int32_t { kNearest, kRadius, kExact };

struct MarginRules {
  Neighbourhood neighbourhood = Neighbourhood::kNearest;
  int64_t n_neighbours = 1;  // also where no point is within the radius, or exactly alike
  double radius = 0.0;
  double tick_weight = 0.0;  // what a tick of price takes off the estimated accuracy
  double enough = 2.0;       // stop when the estimated accuracy is above this
  bool refresh = true;       // estimate accuracy on neighbours found anew after a purchase
  bool random = false;       // buy anything, by a hash of what is known of the row
  uint64_t seed = 0;
};

// What is known of one row. `margins` and `distances` may be null: they are then made again from `order`.
struct MarginRow {
  const double* coordinates;  // (d) NaN: not known, counts in no distance
  int32_t* order;             // (G) groups in the order of purchase, -1 behind them
  int32_t* owned;             // how many these are
  int32_t* next;              // the group to buy, or one of the two below
  double* estimate;           // accuracy now: share of the neighbours on the right side
  double* promise;            // what it becomes with the next group, on the same neighbours
  double* margins;            // (n) of the reference points on what the row has
  double* distances;          // (n) squared, on what the row has
};
inline constexpr int32_t kUndecided = -2, kFinished = -1;

// Room that a thread needs.
struct MarginScratch {
  std::vector<double> margins, distances, sorted;
  std::vector<int32_t> near, added;
  std::vector<int64_t> right;
  std::vector<uint8_t> has;
};

class Margins {
 public:
  // start (n): label times offset. contributions (n, G): label times what a group adds to the score.
  // coordinates (d, n): where points stand, by column. candidate (G): groups to choose from. All must be
  // finite; throws std::invalid_argument where sizes do not fit.
  Margins(std::shared_ptr<const CostTable> table, std::span<const double> start,
          std::span<const double> contributions, std::span<const double> coordinates,
          std::span<const uint8_t> candidate, const MarginRules& rules);

  size_t n_points() const noexcept { return start_.size(); }
  const CostTable& table() const noexcept { return *table_; }

  MarginScratch scratch() const;
  // Throws std::invalid_argument where a row is not as these functions leave it.
  void check(const MarginRow& row, MarginScratch& scratch) const;
  // Decide on the next purchase, unless that is done. Looks only at coordinates of what the row has.
  void choose(const MarginRow& row, MarginScratch& scratch) const noexcept;
  // Make so many purchases, each after a decision; fewer where there is nothing left to buy.
  void proceed(const MarginRow& row, int64_t purchases, MarginScratch& scratch) const noexcept;

 private:
  void prepare(MarginRow& row, MarginScratch& scratch) const noexcept;
  void decide(const MarginRow& row, MarginScratch& scratch) const noexcept;
  void buy(const MarginRow& row, MarginScratch& scratch) const noexcept;
  void add(const MarginRow& row, int32_t group) const noexcept;
  void find_neighbours(const MarginRow& row, MarginScratch& scratch) const noexcept;
  void find_nearest(const double* distances, MarginScratch& scratch) const noexcept;
  void count_right(const double* margins, MarginScratch& scratch) const noexcept;
  int64_t missing_price(int32_t group, const std::vector<uint8_t>& has) const noexcept;
  int32_t best(const MarginScratch& scratch) const noexcept;
  int32_t any(const MarginRow& row, const MarginScratch& scratch) const noexcept;

  std::shared_ptr<const CostTable> table_;
  std::vector<double> start_, contributions_, by_group_, coordinates_;  // by_group_: contributions by column
  std::vector<uint8_t> candidate_;
  std::vector<int32_t> dependent_;  // candidates that require other groups
  std::vector<std::vector<int32_t>> columns_;
  MarginRules rules_;
  int32_t first_ = kFinished;
  std::vector<int64_t> first_right_;
};

}  // namespace anytime
