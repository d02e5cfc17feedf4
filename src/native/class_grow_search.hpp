// The tests of a node: sums over the bins of a column, the tests they offer, the one of least risk.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "class_grow.hpp"
#include "class_grow_random.hpp"

namespace anytime {

// The values of a slot, row by row: of 8 or of 16 bits.
struct SlotValues {
  const uint8_t* narrow = nullptr;
  const uint16_t* wide = nullptr;
};

// Rows of a node. Those of classes have codes, others centred targets.
struct NodeRows {
  std::span<const int32_t> rows;   // within the columns of bins
  const int32_t* code = nullptr;   // of the class, among those that the node has
  const double* target = nullptr;  // less the node's mean
  const double* weight = nullptr;
  const int32_t* repeats = nullptr;
  const double* total = nullptr;  // statistics of them all
  int32_t width = 0;              // of statistics
  double impurity = 0.0;
  int64_t n_rows = 0;  // repeats counted
};

// Sums over the rows of a node with the same value of a slot. Only values that are there are touched.
class SlotSums {
 public:
  SlotSums(int64_t most_values, int32_t most_width, bool counting);

  void build(const SlotValues& values, int32_t n_values, const NodeRows& node) noexcept;

  const double* sums(int32_t value) const noexcept {
    return sums_.data() + static_cast<size_t>(value) * static_cast<size_t>(width_);
  }
  int64_t count(int32_t value) const noexcept { return counting_ ? counts_[static_cast<size_t>(value)] : 1; }
  // visit(value) for values seen in [first, last), ascending.
  template <class Visit>
  void each(int32_t first, int32_t last, Visit&& visit) const noexcept;

 private:
  void clear() noexcept;
  template <class Value>
  void add(const Value* values, const NodeRows& node) noexcept;

  int32_t width_ = 1, n_values_ = 0;
  bool counting_;
  std::vector<double> sums_;     // zero where nothing was seen
  std::vector<int32_t> counts_;  // of rows, where wanted
  std::vector<uint64_t> seen_;
};

// A way to test a column: the first `left` bins that it has here, in their order or in that of the share of
// one class, against the others; or all against each other.
struct Proposal {
  int32_t column = -1;
  int32_t left = 0;
  int32_t order = -1;  // categories: the class by whose share they stand in a row
  bool missing_left = false;
  int32_t n_outcomes = 2;
};

struct BestTest {
  Proposal proposal;
  double risk = 0.0;
  double drop = 0.0;               // fall of the impurity
  std::vector<double> impurities;  // of the outcomes

  bool found() const noexcept { return proposal.column >= 0; }
};

class TestSearch {
 public:
  TestSearch(const Bins& bins, const ClassGrowOptions& options, std::span<const int32_t> columns,
             int32_t width);

  void begin(const NodeRows& node, RandomStream& random) noexcept;
  // Tries the tests of a column, whose slot has the values `values`; false: it is constant here.
  bool consider(int32_t column, const SlotValues& values, double price);
  // To be called after the last column; false: the impurity gave up.
  bool settle();
  const BestTest& best() const noexcept { return best_; }

  // The bins of the best test again, in its order; its outcomes are made of them.
  void recall(const SlotValues& values);
  int32_t n_entries() const noexcept { return n_; }
  int32_t bin(int32_t entry) const noexcept { return entries_[static_cast<size_t>(entry)].bin; }
  bool has_missing() const noexcept { return has_missing_; }  // the last entry, then, unless sorted by share

 private:
  // A bin that the column has here.
  struct Entry {
    int32_t bin = 0;
    int64_t count = 0;  // rows, where wanted
    const double* sums = nullptr;
    double key = 0.0;  // to sort by
  };
  // Tests that wait for the impurity, which is called once for all of them.
  struct Waiting {
    Proposal proposal;
    double price = 0.0;
  };

  void collect(int32_t column, const SlotValues& values) noexcept;
  void collect_shared(int32_t column) noexcept;
  void add(int32_t bin, int32_t value) noexcept;
  double weight(const double* sums) const noexcept;
  void sort_entries(int32_t order) noexcept;
  Sampler sampler(int64_t total) noexcept;

  // offer(proposal, statistics of the left side) for every stump.
  template <class Offer>
  void each_stump(int32_t column, Offer&& offer);
  template <class Offer>
  void each_cut(Proposal proposal, Offer&& offer);
  template <class Offer>
  void each_set(Proposal proposal, Offer&& offer);
  template <class Of>
  void try_stumps(int32_t column, double price, const Of& of);
  void wait_for_stumps(int32_t column, double price);
  void wait_for_all(int32_t column, double price);
  bool judge();
  double fall(std::span<const double> impurities, const double* statistics) const noexcept;
  void rate(const Proposal& proposal, double price, double drop, std::span<const double> impurities);

  const Bins& bins_;
  const ClassGrowOptions& options_;
  bool counting_;
  SlotSums slot_sums_;
  int32_t slot_ = -1;  // whose sums there are
  NodeRows node_;
  RandomStream* random_ = nullptr;
  int32_t n_ = 0;
  bool has_missing_ = false;
  std::vector<Entry> entries_;
  std::vector<double> rest_, sides_;
  std::vector<Waiting> waiting_;
  std::vector<double> statistics_, impurities_;
  BestTest best_;
};

}  // namespace anytime
