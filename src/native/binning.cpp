#include "binning.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "keys.hpp"

namespace anytime {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Search kNoSearch{};  // stands in for one of another kind

// The values to search for. NaN is above no threshold and so has rank 0, like -inf. The question is asked
// once for all values, not in their loop, so that it turns into vectors.
template <int N>
void prepare(double (&x)[N], Reading reading) noexcept {
  if (reading == Reading::kNanIsZero) {
    for (double& value : x) value = std::isnan(value) ? 0.0 : value;
  } else if (reading == Reading::kNanOrZeroLeft || reading == Reading::kNanOrZeroRight) {
    const double missing = reading == Reading::kNanOrZeroLeft ? -kInfinity : kNan;
    for (double& value : x) value = std::abs(value) <= kZero ? missing : value;
  }
}

uint32_t category_rank(const Layout& layout, const Search& search, double x) noexcept {
  if (std::isnan(x)) return search.count + 1;
  if (!(x > -1.0 && x < kMaxCategory + 1.0)) return search.count;
  const auto begin = layout.categories.begin() + search.first;
  const auto end = begin + search.count;
  const auto at = std::lower_bound(begin, end, static_cast<int32_t>(x));
  return at != end && *at == static_cast<int32_t>(x) ? static_cast<uint32_t>(at - begin) : search.count;
}

// How many of the search's thresholds lie below each x. All lanes halve together, so that their loads
// overlap; there is no condition, because the outcome is random and a mispredicted branch costs more than a
// step. The search comes by value: ranks are written as bytes, which might be part of anything that is not a
// copy.
inline void count_below(const double* thresholds, const uint16_t* buckets, const Search search,
                        const double (&x)[kLanes], uint32_t (&below)[kLanes]) noexcept {
  int32_t bucket[kLanes];
  for (int i = 0; i < kLanes; ++i) bucket[i] = search.bucket_of(x[i]);
  for (int i = 0; i < kLanes; ++i) below[i] = buckets[bucket[i]];
  for (uint32_t half = (1u << search.steps) >> 1; half > 0; half /= 2) {
    for (int i = 0; i < kLanes; ++i)
      below[i] += half & -static_cast<uint32_t>(thresholds[below[i] + half - 1] < x[i]);
  }
}

// The same for one row and several searches.
template <int N>
void count_below_each(const Layout& layout, const Search* const (&searches)[N], const double (&x)[N],
                      uint32_t (&below)[N]) noexcept {
  const double* thresholds[N];
  uint32_t half[N], most = 0;
  for (int i = 0; i < N; ++i) {
    const Search& search = *searches[i];
    thresholds[i] = layout.thresholds.data() + search.first;
    below[i] = layout.buckets[search.bucket + static_cast<size_t>(search.bucket_of(x[i]))];
    half[i] = (1u << search.steps) >> 1;
    most = std::max(most, half[i]);
  }
  for (; most > 0; most /= 2) {
    for (int i = 0; i < N; ++i) {  // who has no half left reads a threshold that decides nothing
      below[i] += half[i] & -static_cast<uint32_t>(thresholds[i][below[i] + half[i] - (half[i] != 0)] < x[i]);
      half[i] /= 2;
    }
  }
}

// The part of a count that column `part` of a search tells.
template <class Rank>
Rank rank_in(uint32_t below, uint32_t part) noexcept {
  constexpr uint32_t kMost = kPerColumn<Rank>;
  const uint32_t before = part * kMost;
  return static_cast<Rank>(below <= before ? 0 : std::min(below - before, kMost));
}

template <class Rank>
inline void bin_pack(const Layout& layout, bool float32_input, const Search search,
                     const PackRows<Rank>& pack) noexcept {
  double x[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = pack.row[i][search.feature];
  if (float32_input) {
    for (double& value : x) value = static_cast<float>(value);
  }
  uint32_t below[kLanes];
  if (search.reading == Reading::kCategory) {
    for (int i = 0; i < kLanes; ++i) below[i] = category_rank(layout, search, x[i]);
  } else {
    prepare(x, search.reading);
    count_below(layout.thresholds.data() + search.first, layout.buckets.data() + search.bucket, search, x,
                below);
  }
  const bool nan_last = nan_goes_right(search.reading);
  for (uint32_t part = 0; part < search.columns; ++part) {
    Rank out[kLanes];
    if (search.columns == 1) {
      for (int i = 0; i < kLanes; ++i) out[i] = static_cast<Rank>(below[i]);
    } else {
      for (int i = 0; i < kLanes; ++i) out[i] = rank_in<Rank>(below[i], part);
    }
    for (int i = 0; nan_last && i < kLanes; ++i) out[i] = std::isnan(x[i]) ? kLastRank<Rank> : out[i];
    const size_t at = (search.column + part) * pack.ranks.stride;
    std::copy_n(out, kHalf, pack.ranks.low + at);
    std::copy_n(out + kHalf, kHalf, pack.ranks.high + at);
  }
}

// The ranks of a pack where few thresholds are tested.
template <class Rank>
inline void bin_few(bool float32_input, const FewTests::Columns& columns, int column,
                    const PackRows<Rank>& pack) noexcept {
  const FewTests::Test test = columns.tests[column];
  double x[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = pack.row[i][test.search->feature];
  if (float32_input) {
    for (double& value : x) value = static_cast<float>(value);
  }
  prepare(x, test.search->reading);
  uint32_t ranks[kLanes] = {};
  for (int j = 0; j < test.count; ++j) {
    const double threshold = columns.thresholds[j][column];
    const uint32_t step = test.rank[j] - (j > 0 ? test.rank[j - 1] : 0);
    for (int i = 0; i < kLanes; ++i) ranks[i] += step & -static_cast<uint32_t>(threshold < x[i]);
  }
  Rank out[kLanes];
  for (int i = 0; i < kLanes; ++i) out[i] = static_cast<Rank>(ranks[i]);
  if (nan_goes_right(test.search->reading)) {
    for (int i = 0; i < kLanes; ++i) out[i] = std::isnan(x[i]) ? kLastRank<Rank> : out[i];
  }
  const size_t at = test.search->column * pack.ranks.stride;
  std::copy_n(out, kHalf, pack.ranks.low + at);
  std::copy_n(out + kHalf, kHalf, pack.ranks.high + at);
}

}  // namespace

FewTests::FewTests(const Layout& layout, int32_t end)
    : has_(static_cast<size_t>(layout.searches_needed[static_cast<size_t>(end)])) {
  for (size_t s = 0; s < has_.size(); ++s) {
    const Search& search = layout.searches[s];
    const Early& early = layout.early[s];
    if (early.many < end) continue;
    has_[s] = 1;
    const int32_t first = search.feature / kColumns * kColumns, column = search.feature - first;
    auto at = std::find_if(columns_.begin(), columns_.end(), [&](const Columns& some) {
      return some.first == first && some.tests[column].search == nullptr;
    });
    if (at == columns_.end()) {
      at = columns_.insert(at, Columns{.first = first, .thresholds = {}});
      std::fill_n(&at->thresholds[0][0], kFew * kColumns, kInfinity);
    }
    Test& test = at->tests[column];
    test.search = &search;
    for (int j = 0; j < kFew; ++j) {
      if (early.stage[j] >= end) continue;
      at->thresholds[test.count][column] = layout.thresholds[search.first + early.rank[j]];
      test.rank[test.count++] = early.rank[j] + 1;
    }
    at->most = std::max(at->most, test.count);
    const auto bit = static_cast<uint8_t>(1 << column);
    const bool right = nan_goes_right(search.reading);
    at->read |= bit;
    if (search.reading == Reading::kNanIsZero) at->fix_up[column] = 0x88;
    if (right) at->nan_last |= bit;
    if (search.reading == Reading::kNanOrZeroLeft || search.reading == Reading::kNanOrZeroRight) {
      at->zero_is_missing |= bit;
      at->missing[column] = right ? kNan : -kInfinity;
    }
  }
  std::sort(columns_.begin(), columns_.end(),
            [](const Columns& a, const Columns& b) { return a.first < b.first; });
}

template <class Rank>
void bin_packs(const Layout& layout, bool float32_input, std::span<const PackRows<Rank>> packs, int32_t from,
               int32_t to, const FewTests& few) noexcept {
  const bool several = packs.size() > 1;
  const BinByKeys<Rank> by_keys = several ? bin_by_keys_for<Rank>(vectors_in_use()) : nullptr;
  const BinFew<Rank> few_together = several ? bin_few_for<Rank>(vectors_in_use()) : nullptr;
  const auto few_columns = from == 0 ? few.columns() : std::span<const FewTests::Columns>{};
  if (few_together) few_together(float32_input, few_columns, packs);
  for (const FewTests::Columns& columns : few_columns) {
    for (int column = 0; column < FewTests::kColumns && !few_together; ++column) {
      if (columns.tests[column].search == nullptr) continue;
      for (const PackRows<Rank>& pack : packs) bin_few(float32_input, columns, column, pack);
    }
  }
  if (by_keys) by_keys(layout, float32_input, packs, from, to, few);
  for (int32_t s = from; s < to; ++s) {
    const Search& search = layout.searches[static_cast<size_t>(s)];
    if (few.has(s) || (by_keys && search.key_step != 0)) continue;
    bin_by_doubles(layout, float32_input, search, packs);
  }
}

template <class Rank>
void bin_by_doubles(const Layout& layout, bool float32_input, const Search& search,
                    std::span<const PackRows<Rank>> packs) noexcept {
  for (const PackRows<Rank>& pack : packs) bin_pack(layout, float32_input, search, pack);
}

template <class Rank>
void bin_row(const Layout& layout, bool float32_input, const double* row, int32_t from, int32_t to,
             Rank* ranks) noexcept {
  constexpr int kTogether = 8;
  for (int32_t s = from; s < to; s += kTogether) {
    const int together = std::min(kTogether, to - s);
    const Search* searches = layout.searches.data() + s;
    const Search* numeric[kTogether];
    uint32_t below[kTogether];
    double x[kTogether];
    for (int i = 0; i < kTogether; ++i) {
      const Search& search = searches[i < together ? i : 0];
      numeric[i] = search.reading == Reading::kCategory ? &kNoSearch : &search;
      double value[1] = {float32_input ? static_cast<float>(row[search.feature]) : row[search.feature]};
      prepare(value, search.reading);
      x[i] = value[0];
    }
    count_below_each(layout, numeric, x, below);
    for (int i = 0; i < together; ++i) {
      const Search& search = searches[i];
      Rank* out = ranks + size_t{search.column} * kHalf;
      if (search.reading == Reading::kCategory) {
        if (search.columns != 0) *out = static_cast<Rank>(category_rank(layout, search, x[i]));
        continue;
      }
      const bool last = nan_goes_right(search.reading) && std::isnan(x[i]);
      for (uint32_t part = 0; part < search.columns; ++part) {
        out[size_t{part} * kHalf] = last ? kLastRank<Rank> : rank_in<Rank>(below[i], part);
      }
    }
  }
}

template void bin_packs(const Layout&, bool, std::span<const PackRows<uint8_t>>, int32_t, int32_t,
                        const FewTests&) noexcept;
template void bin_packs(const Layout&, bool, std::span<const PackRows<uint16_t>>, int32_t, int32_t,
                        const FewTests&) noexcept;
template void bin_by_doubles(const Layout&, bool, const Search&, std::span<const PackRows<uint8_t>>) noexcept;
template void bin_by_doubles(const Layout&, bool, const Search&,
                             std::span<const PackRows<uint16_t>>) noexcept;
template void bin_row(const Layout&, bool, const double*, int32_t, int32_t, uint8_t*) noexcept;
template void bin_row(const Layout&, bool, const double*, int32_t, int32_t, uint16_t*) noexcept;

}  // namespace anytime
