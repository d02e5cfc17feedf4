// Bins of the columns of a stream: found on its first rows, looked at again at growing intervals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace anytime {

// How what was counted in a column's old bins is spread over its new ones: share[old * n_bins + new].
struct Rebinned {
  int32_t column;
  std::vector<float> share;
};

// Bin b of a column holds what is above cut b - 1 and at most cut b; a missing value has bin n_bins.
class StreamBins {
 public:
  StreamBins(int64_t n_columns, int32_t n_bins);

  int64_t n_columns() const noexcept { return n_columns_; }
  int32_t n_bins() const noexcept { return n_bins_; }
  int32_t n_cuts(int64_t column) const noexcept { return n_cuts_[static_cast<size_t>(column)]; }
  double cut(int64_t column, int32_t bin) const noexcept {
    return cuts_[static_cast<size_t>(column * (n_bins_ - 1) + bin)];
  }
  bool ready() const noexcept { return found_; }  // there are bins
  int64_t seen() const noexcept { return seen_; }
  int64_t n_kept() const noexcept { return kept_; }
  // The row seen `ago` rows before the last one, ago < n_kept.
  const double* kept(int64_t ago) const noexcept;

  void codes(const double* row, uint8_t* out) const noexcept;
  void see(const double* row) noexcept;
  // Finds bins when it is time: the columns whose bins have changed.
  std::vector<Rebinned> look();

  // What a file keeps: kept rows in the order in which they came.
  struct State {
    std::vector<double> cuts, rows;
    std::vector<int32_t> n_cuts;
    int64_t seen = 0, next = 0;
    bool found = false;
  };
  State save() const;
  void load(const State& state);  // checked: std::invalid_argument

  static constexpr int64_t kFirst = 100;    // rows on which the first bins are found
  static constexpr int64_t kWindow = 1000;  // rows kept to find bins on
  static constexpr int64_t kPause = 5000;   // the most rows between two looks

 private:
  bool outgrown(int64_t column, std::span<const double> sorted) const;
  std::vector<double> cuts_of(std::span<const double> sorted) const;
  std::vector<float> shares(int64_t column, std::span<const double> sorted,
                            std::span<const double> cuts) const;

  int64_t n_columns_;
  int32_t n_bins_;
  std::vector<double> cuts_;  // (n_columns, n_bins - 1)
  std::vector<int32_t> n_cuts_;
  std::vector<double> window_;  // (kWindow, n_columns), a ring
  int64_t kept_ = 0, at_ = 0, seen_ = 0, next_ = kFirst;
  bool found_ = false;
};

}  // namespace anytime
