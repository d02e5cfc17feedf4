// A matrix whose values are bins: what trees are grown on. Immutable, but for columns that are filled anew.
//
// Cuts are found once (Cuts), any rows can be binned by them (Bins). A numeric column has `n_values` bins:
// bin b holds the values in (cuts[b - 1], cuts[b]]. A categorical one has a bin for each category, the
// frequent ones if there are too many, and a last one for all other values. Bin `n_values` is for missing
// values.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace anytime {

struct BinColumn {
  bool categorical = false;
  int32_t n_values = 1;             // bins without the one for missing values
  int32_t common = 0;               // bin of most rows seen
  double common_share = 0.0;        // of the rows seen
  std::vector<double> cuts;         // numeric: n_values - 1 thresholds, increasing
  std::vector<int32_t> categories;  // categorical: n_values - 1 categories, increasing

  int32_t missing() const noexcept { return n_values; }
  int32_t n_bins() const noexcept { return n_values + 1; }
};

struct CutOptions {
  int32_t max_bins = 255;    // of values, per column
  bool exact = false;        // one bin per distinct value of a numeric column
  int64_t sample = 200'000;  // rows looked at, unless exact
  int threads = 1;
};

inline constexpr int32_t kMostBins = 65535;      // of a numeric column in exact mode
inline constexpr int32_t kMostCategories = 254;  // with a bin of their own

// The rows looked at: one out of each of `size` equal stretches, at a place that looks random. They depend on
// nothing but the two numbers.
std::vector<int64_t> sampled_rows(int64_t n, int64_t size);

class Cuts {
 public:
  // x is (n_rows, n_columns), row by row. Throws std::invalid_argument if exact and a column has too many
  // values.
  Cuts(const double* x, int64_t n_rows, int32_t n_columns, std::span<const uint8_t> categorical,
       const CutOptions& options);
  // Cuts found elsewhere. Throws std::invalid_argument where they do not increase or their number is wrong.
  explicit Cuts(std::vector<BinColumn> columns);

  int32_t n_columns() const noexcept { return static_cast<int32_t>(columns_.size()); }
  const BinColumn& operator[](int32_t column) const noexcept { return columns_[static_cast<size_t>(column)]; }
  // The bins of n values, `stride` apart.
  void find(int32_t column, const double* x, int64_t stride, int64_t n, uint16_t* bins) const noexcept;

 private:
  std::vector<BinColumn> columns_;
};

// Where a column is kept. Sparse columns of which a row has at most one away from its common bin share a slot
// of the row (a bundle): 0 says that all are at their common bin, other values count the bins of one column
// after the other, the common one left out.
struct BinPlace {
  int32_t slot = 0;    // which number of a row
  int32_t first = -1;  // value of the column's first bin in a bundle, -1: the slot is the column's own
};

class Bins {
 public:
  Bins(std::shared_ptr<const Cuts> cuts, const double* x, int64_t n_rows, int threads);
  // Rows that are filled in later, a stretch at a time: no columns share a slot.
  Bins(std::shared_ptr<const Cuts> cuts, int64_t n_rows);

  // Put values into rows [first, first + count); x is (count, n_columns). Throws std::invalid_argument if
  // columns share a slot. No tree may be grown meanwhile.
  void fill_rows(int64_t first, const double* x, int64_t count, int threads);

  // Put other values into the columns from `first` on; x is (n_rows, n_columns - first). Throws
  // std::invalid_argument if one of them shares its slot. No tree may be grown meanwhile.
  void refill(int32_t first, const double* x, int threads);

  const Cuts& cuts() const noexcept { return *cuts_; }
  const std::shared_ptr<const Cuts>& shared_cuts() const noexcept { return cuts_; }
  int64_t n_rows() const noexcept { return n_rows_; }
  int32_t n_slots() const noexcept { return static_cast<int32_t>(slot_size_.size()); }
  int32_t slot_size(int32_t slot) const noexcept { return slot_size_[static_cast<size_t>(slot)]; }
  const BinPlace& place(int32_t column) const noexcept { return places_[static_cast<size_t>(column)]; }
  // Whether a slot takes 16 bits instead of 8.
  bool wide() const noexcept { return wide_; }
  // All slots of a row side by side, row by row; only if not wide.
  const uint8_t* rows() const noexcept { return rows_.data(); }
  // All rows of a slot; uint16_t if wide, else uint8_t.
  template <class Value>
  const Value* column(int32_t slot) const noexcept {
    const auto first = static_cast<size_t>(slot) * static_cast<size_t>(n_rows_);
    if constexpr (sizeof(Value) == 1)
      return narrow_.data() + first;
    else
      return wide_columns_.data() + first;
  }
  int32_t value(int64_t row, int32_t slot) const noexcept {
    return wide_ ? column<uint16_t>(slot)[row] : column<uint8_t>(slot)[row];
  }
  // The bin of a column, given the value of its slot.
  int32_t bin(int32_t column, int32_t value) const noexcept {
    const BinPlace& at = place(column);
    if (at.first < 0) return value;
    const BinColumn& binned = (*cuts_)[column];
    const int32_t bin = value - at.first;
    if (bin < 0 || bin >= binned.n_bins() - 1) return binned.common;
    return bin + (bin >= binned.common);
  }
  // The value of the slot when the column is in a bin.
  int32_t slot_value(int32_t column, int32_t bin) const noexcept {
    const BinPlace& at = place(column);
    if (at.first < 0) return bin;
    const int32_t common = (*cuts_)[column].common;
    return bin == common ? 0 : at.first + bin - (bin > common);
  }

 private:
  bool narrow_enough() const noexcept;
  void place_apart();
  void place_columns(const double* x, int threads);
  void make_room();
  template <class Value>
  void fill(int64_t first_row, const double* x, int64_t count, int threads, std::vector<Value>& columns);

  std::shared_ptr<const Cuts> cuts_;
  int64_t n_rows_;
  std::vector<BinPlace> places_;
  std::vector<int32_t> slot_size_;
  bool wide_ = false;
  // Kept twice: summing wants rows, sending rows left or right wants columns.
  std::vector<uint8_t> rows_, narrow_;
  std::vector<uint16_t> wide_columns_;
};

}  // namespace anytime
