#include "binning.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace anytime {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The value to search for. NaN is above no threshold and so has rank 0, as has -inf where it counts as missing.
double prepared(double x, Reading reading) noexcept {
  switch (reading) {
    case Reading::kNanIsZero:
      return std::isnan(x) ? 0.0 : x;
    case Reading::kNanOrZeroLeft:
      return std::abs(x) <= kZero ? -kInfinity : x;
    case Reading::kNanOrZeroRight:
      return std::abs(x) <= kZero ? kNan : x;
    default:
      return x;
  }
}

bool nan_goes_right(Reading reading) noexcept {
  return reading == Reading::kNanRight || reading == Reading::kNanOrZeroRight;
}

uint32_t category_rank(const Layout& layout, const Column& column, double x) noexcept {
  if (std::isnan(x)) return column.count + 1;
  if (!(x > -1.0 && x < kMaxCategory + 1.0)) return column.count;
  const auto begin = layout.categories.begin() + column.first;
  const auto end = begin + column.count;
  const auto at = std::lower_bound(begin, end, static_cast<int32_t>(x));
  return at != end && *at == static_cast<int32_t>(x) ? static_cast<uint32_t>(at - begin) : column.count;
}

// How many of the sorted thresholds lie below each x. All lanes halve together, so their loads overlap.
template <int N>
void count_below(const double* thresholds, uint32_t count, const double* x, uint32_t* below) noexcept {
  uint32_t at[N] = {};
  while (count > 1) {
    const uint32_t half = count / 2;
    // Written without a condition: the outcome is random, and a mispredicted branch costs more than the step.
    for (int i = 0; i < N; ++i) at[i] += half & -static_cast<uint32_t>(thresholds[at[i] + half - 1] < x[i]);
    count -= half;
  }
  for (int i = 0; i < N; ++i) below[i] = at[i] + (thresholds[at[i]] < x[i]);
}

}  // namespace

template <class Rank>
void bin_pack(const Layout& layout, bool float32_input, const double* const (&rows)[kLanes], int32_t from, int32_t to,
              Rank* ranks) noexcept {
  for (int32_t c = from; c < to; ++c) {
    const Column& column = layout.columns[static_cast<size_t>(c)];
    Rank* out = ranks + static_cast<size_t>(c) * kLanes;
    double x[kLanes];
    for (int i = 0; i < kLanes; ++i) x[i] = rows[i][column.feature];
    if (float32_input) {
      for (double& value : x) value = static_cast<float>(value);
    }
    if (column.reading == Reading::kCategory) {
      for (int i = 0; i < kLanes; ++i) out[i] = static_cast<Rank>(category_rank(layout, column, x[i]));
      continue;
    }
    uint32_t below[kLanes];
    for (double& value : x) value = prepared(value, column.reading);
    count_below<kLanes>(layout.thresholds.data() + column.first, column.count, x, below);
    const bool nan_last = nan_goes_right(column.reading);
    for (int i = 0; i < kLanes; ++i) {
      out[i] = nan_last && std::isnan(x[i]) ? kLastRank<Rank> : static_cast<Rank>(below[i]);
    }
  }
}

template <class Rank>
void bin_row(const Layout& layout, bool float32_input, const double* row, int32_t from, int32_t to,
             Rank* ranks) noexcept {
  for (int32_t c = from; c < to; ++c) {
    const Column& column = layout.columns[static_cast<size_t>(c)];
    double x = row[column.feature];
    if (float32_input) x = static_cast<float>(x);
    uint32_t rank;
    if (column.reading == Reading::kCategory) {
      rank = category_rank(layout, column, x);
    } else {
      x = prepared(x, column.reading);
      count_below<1>(layout.thresholds.data() + column.first, column.count, &x, &rank);
      if (nan_goes_right(column.reading) && std::isnan(x)) rank = kLastRank<Rank>;
    }
    ranks[static_cast<size_t>(c) * kLanes] = static_cast<Rank>(rank);
  }
}

template void bin_pack(const Layout&, bool, const double* const (&)[kLanes], int32_t, int32_t, uint16_t*) noexcept;
template void bin_pack(const Layout&, bool, const double* const (&)[kLanes], int32_t, int32_t, uint32_t*) noexcept;
template void bin_row(const Layout&, bool, const double*, int32_t, int32_t, uint16_t*) noexcept;
template void bin_row(const Layout&, bool, const double*, int32_t, int32_t, uint32_t*) noexcept;

}  // namespace anytime
