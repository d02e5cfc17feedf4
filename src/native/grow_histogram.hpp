// Sums per bin: the part of growing that touches every row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grow_rows.hpp"

namespace anytime {

using Pair = int64_t __attribute__((vector_size(16), may_alias));

// Which slots of a row are summed, and where: slot s has its sums from entry first(s) on. Only for 8-bit
// slots.
class HistogramPlan {
 public:
  HistogramPlan(const Bins& bins, const GrowRows& rows, const std::vector<uint8_t>& slots);

  // Numbers in a histogram.
  size_t size() const noexcept { return size_; }
  // Where the sums of each of `parts` equal shares of the slots begin, and where the last ends.
  std::vector<size_t> shares(int32_t parts) const;
  // Where those of a slot begin.
  size_t first(int32_t slot) const noexcept {
    return static_cast<size_t>(first_[static_cast<size_t>(slot)] * width_);
  }
  const int64_t* sums(const int64_t* histogram, int32_t slot) const noexcept {
    return histogram + first(slot);
  }
  // Overwrites `histogram` with the sums over the rows, and takes them off `larger` unless that is null.
  void build(std::span<const int32_t> rows, int64_t* histogram, int64_t* larger, Team& team);
  // Whether so few rows are quicker taken off a histogram one by one than with a histogram of their own.
  bool are_few(std::span<const int32_t> rows) const noexcept;
  void take_off(std::span<const int32_t> rows, int64_t* histogram) const noexcept {
    add_single(rows, reinterpret_cast<Pair*>(histogram), -1);
  }

 private:
  void add(std::span<const int32_t> rows, int64_t* histogram) const noexcept;
  // `sign`: -1 takes the rows off.
  void add_single(std::span<const int32_t> rows, Pair* pairs, int64_t sign) const noexcept;
  template <class AddRow>
  void add_pairs(std::span<const int32_t> rows, int64_t sign, AddRow add_row) const noexcept;

  const Bins& bins_;
  const GrowRows& rows_;
  int32_t width_;
  std::vector<int32_t> slots_;  // summed ones, ascending
  std::vector<int64_t> first_;  // by slot
  bool even_ = false;           // every slot is summed, and all have the same room
  size_t size_ = 0;
  std::vector<uint8_t> used_;    // by thread
  std::vector<int64_t> others_;  // histograms of all threads but the first
};

}  // namespace anytime
