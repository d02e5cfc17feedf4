#include "stream_bins.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace anytime {
namespace {

constexpr double kCrowded = 3.0;  // a bin with more than so many times its share of the rows is too large

// Between two neighbouring values: at least the first and below the second.
double between(double low, double high) noexcept {
  const double middle = 0.5 * low + 0.5 * high;
  return middle < high && middle >= low ? middle : low;
}

int32_t bin_of(std::span<const double> cuts, double value) noexcept {
  return static_cast<int32_t>(std::lower_bound(cuts.begin(), cuts.end(), value) - cuts.begin());
}

}  // namespace

StreamBins::StreamBins(int64_t n_columns, int32_t n_bins)
    : n_columns_(n_columns),
      n_bins_(n_bins),
      cuts_(static_cast<size_t>(n_columns * (n_bins - 1))),
      n_cuts_(static_cast<size_t>(n_columns)) {}

const double* StreamBins::kept(int64_t ago) const noexcept {
  const int64_t place = (at_ - 1 - ago + kWindow) % kWindow;
  return window_.data() + place * n_columns_;
}

void StreamBins::codes(const double* row, uint8_t* out) const noexcept {
  const double* cuts = cuts_.data();
  for (int64_t column = 0; column < n_columns_; ++column, cuts += n_bins_ - 1) {
    const double value = row[column];
    // The number of cuts below the value, by halves and without jumps.
    const double* from = cuts;
    int32_t left = n_cuts_[static_cast<size_t>(column)];
    while (left > 1) {
      const int32_t half = left / 2;
      from += from[half - 1] < value ? half : 0;
      left -= half;
    }
    if (left == 1) from += *from < value ? 1 : 0;
    out[column] = static_cast<uint8_t>(std::isnan(value) ? n_bins_ : from - cuts);
  }
}

void StreamBins::see(const double* row) noexcept {
  if (window_.empty()) window_.resize(static_cast<size_t>(kWindow * n_columns_));
  std::copy(row, row + n_columns_, window_.begin() + at_ * n_columns_);
  at_ = (at_ + 1) % kWindow;
  kept_ = std::min(kept_ + 1, kWindow);
  ++seen_;
}

std::vector<Rebinned> StreamBins::look() {
  std::vector<Rebinned> changed;
  if (seen_ < next_) return changed;
  next_ = seen_ + std::min(seen_, kPause);
  std::vector<double> sorted;
  for (int64_t column = 0; column < n_columns_; ++column) {
    sorted.clear();
    for (int64_t row = 0; row < kept_; ++row) {
      const double value = window_[static_cast<size_t>(row * n_columns_ + column)];
      if (!std::isnan(value)) sorted.push_back(value);
    }
    std::sort(sorted.begin(), sorted.end());
    if (found_ && !outgrown(column, sorted)) continue;
    const std::vector<double> cuts = cuts_of(sorted);
    if (found_) changed.push_back({static_cast<int32_t>(column), shares(column, sorted, cuts)});
    std::copy(cuts.begin(), cuts.end(), cuts_.begin() + column * (n_bins_ - 1));
    n_cuts_[static_cast<size_t>(column)] = static_cast<int32_t>(cuts.size());
  }
  found_ = true;
  return changed;
}

// Whether some bin holds too many rows, and more than one value.
bool StreamBins::outgrown(int64_t column, std::span<const double> sorted) const {
  const auto most = static_cast<size_t>(kCrowded * static_cast<double>(sorted.size()) / n_bins_) + 1;
  const int32_t n_cuts = this->n_cuts(column);
  size_t first = 0;
  for (int32_t bin = 0; bin <= n_cuts && first < sorted.size(); ++bin) {
    const auto end = bin == n_cuts ? sorted.end()
                                   : std::upper_bound(sorted.begin() + static_cast<int64_t>(first),
                                                      sorted.end(), cut(column, bin));
    const auto last = static_cast<size_t>(end - sorted.begin());
    if (last > first && last - first > most && sorted[first] < sorted[last - 1]) return true;
    first = last;
  }
  return false;
}

// Bins of about equally many rows; a value that fills one has it for itself.
std::vector<double> StreamBins::cuts_of(std::span<const double> sorted) const {
  std::vector<double> cuts;
  int64_t left = static_cast<int64_t>(sorted.size()), bins = n_bins_, here = 0;
  const bool few = [&] {
    int32_t distinct = sorted.empty() ? 0 : 1;
    for (size_t i = 1; i < sorted.size() && distinct <= n_bins_; ++i) distinct += sorted[i - 1] < sorted[i];
    return distinct <= n_bins_;
  }();
  for (size_t i = 0; i + 1 < sorted.size() && bins > 1; ++i) {
    ++here;
    if (!(sorted[i] < sorted[i + 1])) continue;
    if (!few && here * bins < left) continue;
    cuts.push_back(between(sorted[i], sorted[i + 1]));
    left -= here;
    here = 0;
    --bins;
  }
  return cuts;
}

// Of the kept rows in an old bin, the share in each new one; of an old bin without rows all goes to where its
// edge lies.
std::vector<float> StreamBins::shares(int64_t column, std::span<const double> sorted,
                                      std::span<const double> cuts) const {
  const auto width = static_cast<size_t>(n_bins_);
  const std::span<const double> old(cuts_.data() + column * (n_bins_ - 1),
                                    static_cast<size_t>(n_cuts(column)));
  std::vector<float> share(width * width);
  std::vector<float> total(width);
  for (const double value : sorted) {
    const auto from = static_cast<size_t>(bin_of(old, value));
    share[from * width + static_cast<size_t>(bin_of(cuts, value))] += 1.0f;
    total[from] += 1.0f;
  }
  for (size_t from = 0; from <= old.size(); ++from) {
    if (total[from] > 0.0f) {
      for (size_t to = 0; to < width; ++to) share[from * width + to] /= total[from];
      continue;
    }
    const double edge = old.empty() ? 0.0 : from < old.size() ? old[from] : old.back();
    const int32_t to =
        from < old.size() || old.empty() ? bin_of(cuts, edge) : static_cast<int32_t>(cuts.size());
    share[from * width + static_cast<size_t>(to)] = 1.0f;
  }
  return share;
}

StreamBins::State StreamBins::save() const {
  State state{.cuts = cuts_, .rows = {}, .n_cuts = n_cuts_, .seen = seen_, .next = next_, .found = found_};
  for (int64_t ago = kept_; ago-- > 0;)
    state.rows.insert(state.rows.end(), kept(ago), kept(ago) + n_columns_);
  return state;
}

void StreamBins::load(const State& state) {
  const auto columns = static_cast<size_t>(n_columns_);
  const bool fits =
      state.cuts.size() == cuts_.size() && state.n_cuts.size() == columns &&
      state.rows.size() % columns == 0 &&
      state.rows.size() / columns == static_cast<size_t>(std::clamp<int64_t>(state.seen, 0, kWindow)) &&
      state.seen >= 0 && state.next > state.seen;
  if (!fits) throw std::invalid_argument("the bins of a stream do not fit its columns");
  for (size_t column = 0; column < columns; ++column) {
    const int32_t n = state.n_cuts[column];
    const double* cuts = state.cuts.data() + column * static_cast<size_t>(n_bins_ - 1);
    if (n < 0 || n >= n_bins_ ||
        !std::all_of(
            cuts, cuts + n, [](double c) { return std::isfinite(c); }) ||
        !std::is_sorted(cuts, cuts + n)) {
      throw std::invalid_argument("the cuts of a column of a stream are not increasing numbers");
    }
  }
  for (size_t row = 0; row < state.rows.size() / columns; ++row) see(state.rows.data() + row * columns);
  cuts_ = state.cuts;
  n_cuts_ = state.n_cuts;
  seen_ = state.seen;
  next_ = state.next;
  found_ = state.found;
}

}  // namespace anytime
