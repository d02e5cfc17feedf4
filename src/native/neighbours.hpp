// Which group to buy next for a row: the one that most lowers, for its price, the loss of reference points
// that look like the row on what it has (after Valancius et al., Acquisition conditioned oracle, 2023).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "costs.hpp"

namespace anytime {

// Networks with two hidden layers, which read the inputs of owned groups (0 for all others) and which groups
// are owned. One for each fold of the reference points: it was trained without them.
struct MaskedNets {
  int64_t n_folds, n_inputs, n_groups, first, second, n_outputs;  // first, second: units of the layers
  std::vector<float> w1, b1, w2, b2, w3, b3;  // w1 (folds, inputs + groups, first), ..., b3 (folds, outputs)
  int64_t wide_second = 0,
          wide_outputs = 0;  // units of the last layers, filled up to whole vectors by `prepare`

  void check() const;  // throws std::invalid_argument where sizes do not fit or numbers are not finite
  void prepare();      // fill up the last two layers, so that `leave` works on whole vectors
  // sums (first) += what a group with the given inputs adds to the first layer
  void add_group(int64_t fold, int32_t group, std::span<const int32_t> own, const float* inputs,
                 float* sums) const noexcept;
  // out (n, wide_outputs) of first layers before their ReLU, hidden (n, first), which are changed; there is
  // room for n up to a multiple of four; room (4, wide_second)
  void leave(int64_t fold, float* hidden, int64_t n, float* room, float* out) const noexcept;
};

struct NeighbourRules {
  int64_t n_neighbours = 20;
  double floor = 0.05;       // added to the probability of the true class before its logarithm is taken
  double price_power = 1.0;  // gains are compared per this power of the price
  int64_t look_ahead = 12;   // most promising groups whose pairs and triples are tried; below 2: none
};

// One row, as far as it is known.
struct NeighbourRow {
  const float* inputs;    // (m) those of groups that it does not own are not read
  const uint8_t* owned;   // (G)
  const uint8_t* barred;  // (G) groups that cannot be had
  int64_t left;           // ticks that it may spend
  int64_t own;            // its own place among the reference points, which is no neighbour of it; -1: none
};

struct Purchase {
  int32_t group = -1;  // to buy next; -1: there is none left
  int64_t price = 0;   // of the group, or of the set that it is the first of, with all that is required
  double gain = 0.0;   // by which that lowers the loss
};

// Sets of groups that could be bought, each closed together with what is owned.
struct GroupSets {
  std::vector<int32_t> members, first;  // first: the group of each set to begin with
  std::vector<int64_t> price;
  std::vector<size_t> start{0};

  size_t size() const noexcept { return first.size(); }
  std::span<const int32_t> of(size_t set) const noexcept {
    return std::span(members).subspan(start[set], start[set + 1] - start[set]);
  }
};

class Neighbours {
 public:
  // inputs (N, m), of which the first n_measured make up distances; labels (N), or values (N, outputs) of a
  // regression. Throws std::invalid_argument where sizes do not fit.
  Neighbours(std::shared_ptr<const CostTable> table, MaskedNets nets, std::span<const float> inputs,
             std::span<const int32_t> input_group, int64_t n_measured, std::span<const int32_t> fold,
             std::span<const int32_t> labels, std::span<const float> values, const NeighbourRules& rules);

  const CostTable& table() const noexcept { return *table_; }
  const MaskedNets& nets() const noexcept { return nets_; }
  int64_t n_points() const noexcept { return static_cast<int64_t>(fold_.size()); }
  int64_t n_near() const noexcept { return std::min(rules_.n_neighbours, n_points()); }

  // Decide for each row; one that can have nothing names something all the same. gains (n, G), where given:
  // of each group with what it requires, NaN for owned ones.
  void choose(std::span<const NeighbourRow> rows, std::span<Purchase> out, double* gains, int threads) const;
  // near (n, n_near): the places of each row's neighbours, increasing.
  void nearest(std::span<const NeighbourRow> rows, int32_t* near, int threads) const;
  // out (n, outputs): the mean of what the networks say of rows.
  void scores(std::span<const NeighbourRow> rows, double* out, int threads) const;

 private:
  struct Outlook;  // sets of groups, and by how much each lowers the loss
  struct Room;     // what a thread needs

  const Outlook& beginning() const;
  void look(const NeighbourRow& row, const GroupSets& singles, Room& room, Outlook& outlook) const;
  void look_ahead(const NeighbourRow& row, Room& room, Outlook& outlook) const;
  void measure(const NeighbourRow& row, const GroupSets& sets, bool keep, Room& room,
               std::vector<double>& gains) const;
  void find_near(const NeighbourRow& row, Room& room) const;
  void losses(int32_t point, const uint8_t* owned, const GroupSets& sets, Room& room, float* out) const;
  float loss(int32_t point, const float* out) const noexcept;
  Purchase pick(const NeighbourRow& row, const Outlook& outlook) const noexcept;
  bool can_have_any(const NeighbourRow& row, const GroupSets& sets) const noexcept;
  double rate(double gain, int64_t price) const noexcept;  // what gains are compared by
  bool can_have(const NeighbourRow& row, const GroupSets& sets, size_t set) const noexcept;
  void append(const uint8_t* owned, std::span<const int32_t> groups, int32_t first, GroupSets& sets) const;
  GroupSets singles_of(const uint8_t* owned) const;  // of groups that have inputs

  std::shared_ptr<const CostTable> table_;
  MaskedNets nets_;
  std::vector<float> inputs_, by_input_;  // (N, m) and, of those that make up distances, (n_measured, N)
  int32_t n_measured_;
  std::vector<int32_t> fold_, labels_;
  std::vector<float> values_;                    // (N, outputs); empty where there are labels
  std::vector<std::vector<int32_t>> inputs_of_;  // of each group
  NeighbourRules rules_;
  mutable std::once_flag begun_;
  mutable std::shared_ptr<const Outlook> beginning_;
};

}  // namespace anytime
