#include "bins.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "forest.hpp"
#include "threads.hpp"

namespace anytime {
namespace {

constexpr int64_t kColumnsTogether = 8;  // a cache line of a row

// Distinct values and how often each was seen.
struct Counted {
  std::vector<double> values;
  std::vector<int64_t> counts;
};

Counted counted(std::span<double> values) {
  // Zeros are many in sparse columns, and need no sorting.
  const auto zeros = std::partition(values.begin(), values.end(), [](double v) { return v != 0.0; });
  const auto n_zeros = static_cast<int64_t>(values.end() - zeros);
  std::sort(values.begin(), zeros);
  Counted out;
  const auto add = [&](double value, int64_t count) {
    if (out.values.empty() || out.values.back() != value) {
      out.values.push_back(value);
      out.counts.push_back(0);
    }
    out.counts.back() += count;
  };
  bool zeros_left = n_zeros > 0;
  for (auto at = values.begin(); at != zeros; ++at) {
    if (zeros_left && *at > 0.0) {
      add(0.0, n_zeros);
      zeros_left = false;
    }
    add(*at, 1);
  }
  if (zeros_left) add(0.0, n_zeros);
  return out;
}

// A number that is at least `low` and below `high`, in the middle where floats allow it.
double between(double low, double high) noexcept {
  const double middle = low / 2 + high / 2;
  return middle >= low && middle < high ? middle : low;
}

// Last value of each bin but the last: about equal counts, frequent values by themselves.
std::vector<size_t> bin_ends(const std::vector<int64_t>& counts, int64_t max_bins) {
  std::vector<size_t> ends;
  const size_t n = counts.size();
  if (n <= static_cast<size_t>(max_bins)) {
    for (size_t i = 0; i + 1 < n; ++i) ends.push_back(i);
    return ends;
  }
  int64_t rows_left = 0, bins_left = max_bins;
  for (const int64_t count : counts) rows_left += count;
  const int64_t fair = (rows_left + max_bins - 1) / max_bins;
  for (const int64_t count : counts) {
    if (count >= fair) rows_left -= count, --bins_left;
  }
  int64_t in_bin = 0;
  for (size_t i = 0; i + 1 < n && static_cast<int64_t>(ends.size()) < max_bins - 1; ++i) {
    const bool frequent = counts[i] >= fair;
    in_bin += counts[i];
    if (!frequent) rows_left -= counts[i];
    const auto mean =
        static_cast<double>(rows_left + in_bin) / static_cast<double>(std::max<int64_t>(bins_left, 1));
    const bool before_frequent = counts[i + 1] >= fair && 2.0 * static_cast<double>(in_bin) >= mean;
    if (!frequent && static_cast<double>(in_bin) < mean && !before_frequent) continue;
    ends.push_back(i);
    if (!frequent) --bins_left;
    in_bin = 0;
  }
  return ends;
}

void cut_numbers(BinColumn& column, std::span<double> seen, int64_t n_missing, int32_t max_bins) {
  const Counted distinct = counted(seen);
  const std::vector<size_t> ends = bin_ends(distinct.counts, max_bins);
  int64_t most = 0;
  size_t first = 0;
  for (size_t b = 0; b <= ends.size(); ++b) {
    const size_t last = b < ends.size() ? ends[b] : distinct.values.size() - 1;
    int64_t count = 0;
    for (size_t i = first; i <= last && i < distinct.values.size(); ++i) count += distinct.counts[i];
    if (count > most) most = count, column.common = static_cast<int32_t>(b);
    if (b < ends.size()) column.cuts.push_back(between(distinct.values[last], distinct.values[last + 1]));
    first = last + 1;
  }
  column.n_values = static_cast<int32_t>(ends.size()) + 1;
  if (n_missing > most) most = n_missing, column.common = column.missing();
  column.common_share = static_cast<double>(most) / static_cast<double>(std::max<int64_t>(
                                                        1, n_missing + static_cast<int64_t>(seen.size())));
}

void cut_categories(BinColumn& column, std::span<double> seen, int32_t max_bins) {
  for (double& value : seen) value = value > -1.0 && value < kMaxCategory + 1.0 ? std::trunc(value) : -1.0;
  const Counted distinct = counted(seen);
  std::vector<std::pair<int64_t, int32_t>> frequent;  // the most frequent first, then the smallest
  for (size_t i = 0; i < distinct.values.size(); ++i) {
    if (distinct.values[i] >= 0.0)
      frequent.emplace_back(-distinct.counts[i], static_cast<int32_t>(distinct.values[i]));
  }
  std::sort(frequent.begin(), frequent.end());
  const auto most = static_cast<size_t>(std::min(max_bins - 1, kMostCategories));
  if (frequent.size() > most) frequent.resize(most);
  for (const auto& [count, category] : frequent) column.categories.push_back(category);
  std::sort(column.categories.begin(), column.categories.end());
  column.n_values = static_cast<int32_t>(column.categories.size()) + 1;
}

int32_t category_bin(const BinColumn& column, double x) noexcept {
  if (std::isnan(x)) return column.missing();
  const int32_t other = column.n_values - 1;
  if (!(x > -1.0 && x < kMaxCategory + 1.0)) return other;
  const auto begin = column.categories.begin(), end = column.categories.end();
  const auto at = std::lower_bound(begin, end, static_cast<int32_t>(x));
  return at != end && *at == static_cast<int32_t>(x) ? static_cast<int32_t>(at - begin) : other;
}

}  // namespace

std::vector<int64_t> sampled_rows(int64_t n, int64_t size) {
  size = std::min(size, n);
  std::vector<int64_t> rows(static_cast<size_t>(size));
  uint64_t state = 0;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t begin = n / size * i + n % size * i / size;
    const int64_t end = n / size * (i + 1) + n % size * (i + 1) / size;
    uint64_t z = state += 0x9e3779b97f4a7c15ULL;  // splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    rows[static_cast<size_t>(i)] =
        begin + static_cast<int64_t>((z ^ (z >> 31)) % static_cast<uint64_t>(end - begin));
  }
  return rows;
}

Cuts::Cuts(std::vector<BinColumn> columns) : columns_(std::move(columns)) {
  for (const BinColumn& column : columns_) {
    const auto rises = [](const auto& numbers) {
      return std::adjacent_find(numbers.begin(), numbers.end(), std::greater_equal<>{}) == numbers.end();
    };
    const size_t named = column.categorical ? column.categories.size() : column.cuts.size();
    if (!rises(column.cuts) || !rises(column.categories) ||
        named + 1 != static_cast<size_t>(column.n_values) || column.n_values > kMostBins ||
        column.common < 0 || column.common > column.missing())
      throw std::invalid_argument("these are no cuts of a column");
  }
}

Cuts::Cuts(const double* x, int64_t n_rows, int32_t n_columns, std::span<const uint8_t> categorical,
           const CutOptions& options)
    : columns_(static_cast<size_t>(n_columns)) {
  const auto rows = sampled_rows(n_rows, options.exact ? n_rows : options.sample);
  const int64_t blocks = (n_columns + kColumnsTogether - 1) / kColumnsTogether;
  Team team(static_cast<int>(std::min<int64_t>(options.threads, blocks)));
  std::vector<std::vector<double>> buffers(team.size());
  for (auto& buffer : buffers) buffer.resize(rows.size() * kColumnsTogether);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(blocks));
  const auto cut_block = [&](int64_t block, size_t part) {
    const int64_t first = block * kColumnsTogether;
    const int64_t together = std::min<int64_t>(kColumnsTogether, n_columns - first);
    std::vector<double*> ends(static_cast<size_t>(together));
    for (int64_t j = 0; j < together; ++j)
      ends[static_cast<size_t>(j)] = buffers[part].data() + static_cast<size_t>(j) * rows.size();
    for (const int64_t row : rows) {
      for (int64_t j = 0; j < together; ++j) {
        const double value = x[row * n_columns + first + j];
        if (!std::isnan(value)) *ends[static_cast<size_t>(j)]++ = value;
      }
    }
    for (int64_t j = 0; j < together; ++j) {
      BinColumn& column = columns_[static_cast<size_t>(first + j)];
      double* begin = buffers[part].data() + static_cast<size_t>(j) * rows.size();
      const std::span<double> seen(begin, ends[static_cast<size_t>(j)]);
      column.categorical = categorical[static_cast<size_t>(first + j)] != 0;
      const auto n_missing = static_cast<int64_t>(rows.size() - seen.size());
      if (column.categorical)
        cut_categories(column, seen, options.max_bins);
      else
        cut_numbers(column, seen, n_missing,
                    options.exact ? std::numeric_limits<int32_t>::max() : options.max_bins);
    }
  };
  team.each(blocks, true, [&](int64_t block, size_t part) noexcept {
    try {
      cut_block(block, part);
    } catch (...) {
      failures[static_cast<size_t>(block)] = std::current_exception();
    }
  });
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  for (int32_t j = 0; j < n_columns; ++j) {
    if ((*this)[j].n_values <= kMostBins) continue;
    throw std::invalid_argument(
        "column " + std::to_string(j) + " has " + std::to_string((*this)[j].n_values) +
        " distinct values; exact bins are at most " + std::to_string(kMostBins) + ", use exact=False");
  }
}

void Cuts::find(int32_t column, const double* x, int64_t stride, int64_t n, uint16_t* bins) const noexcept {
  const BinColumn& c = (*this)[column];
  if (c.categorical) {
    for (int64_t i = 0; i < n; ++i) bins[i] = static_cast<uint16_t>(category_bin(c, x[i * stride]));
    return;
  }
  const double* cuts = c.cuts.data();
  const auto n_cuts = static_cast<uint32_t>(c.cuts.size());
  constexpr int64_t kTogether = 16;  // searches that halve together, so that their loads overlap
  for (int64_t first = 0; first < n; first += kTogether) {
    const int64_t together = std::min(kTogether, n - first);
    double value[kTogether];
    uint32_t at[kTogether] = {};
    for (int64_t i = 0; i < kTogether; ++i) value[i] = x[(first + std::min(i, together - 1)) * stride];
    uint32_t count = n_cuts;
    while (count > 1) {
      const uint32_t half = count / 2;
      for (int64_t i = 0; i < kTogether; ++i)
        at[i] += half & -static_cast<uint32_t>(cuts[at[i] + half - 1] < value[i]);
      count -= half;
    }
    for (int64_t i = 0; i < together; ++i) {
      if (n_cuts != 0) at[i] += cuts[at[i]] < value[i];
      bins[first + i] =
          static_cast<uint16_t>(std::isnan(value[i]) ? static_cast<uint32_t>(c.missing()) : at[i]);
    }
  }
}

}  // namespace anytime
