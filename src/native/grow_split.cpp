#include "grow_split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anytime {

int32_t middle_cut(const BinColumn& column, int32_t low, int32_t high) noexcept {
  if (high - low == 1) return low;
  const auto begin = column.cuts.begin() + low, last = column.cuts.begin() + high - 1;
  const double middle = *begin / 2 + *last / 2;
  auto above = std::lower_bound(begin, last, middle);
  if (above != begin && middle - *(above - 1) <= *above - middle) --above;
  return static_cast<int32_t>(above - column.cuts.begin());
}

// Categories that no row here has, and values that are none, go with most rows, unless some of them are here.
Split set_split(const BinColumn& column, const BinSet& left, const BinSet& right, bool mostly_left) noexcept {
  Split split{.cut = 0, .possible = true, .categorical = true};
  const int32_t other = column.n_values - 1;
  const bool others_left = has(left, other) || (!has(right, other) && mostly_left);
  for (int32_t bin = 0; bin < column.n_values; ++bin) {
    if (others_left ? !has(right, bin) : has(left, bin)) put(split.left, bin);
  }
  const int32_t missing = column.missing();
  if (has(left, missing) || (!has(right, missing) && mostly_left)) put(split.left, missing);
  split.default_left = has(split.left, missing);
  split.members_left = !others_left;
  return split;
}

SplitSearch::SplitSearch(const Channels& channels, const GrowOptions& options, double scale,
                         int64_t most_bins)
    : channels_(channels), options_(options), scale_(scale) {
  const auto n = static_cast<size_t>(most_bins), width = static_cast<size_t>(channels.width);
  bin_.resize(n);
  sums_.resize(n * width);
  missing_.resize(width);
  left_.resize(width);
  left_weight_.resize(n);
  left_output_.resize(n);
  left_packed_.resize(n);
  gain_.resize(n);
}

void SplitSearch::clear() noexcept {
  n_ = 0;
  std::fill(missing_.begin(), missing_.end(), 0);
}

void SplitSearch::add_all(const int64_t* sums, int32_t n_values) noexcept {
  if (channels_.width == 2) {
    const int64_t mask = (int64_t{1} << channels_.count_bits) - 1;
    size_t n = 0;
    for (int32_t bin = 0; bin < n_values; ++bin) {
      const int64_t packed = sums[2 * bin], output = sums[2 * bin + 1];
      bin_[n] = bin;
      sums_[2 * n] = packed;
      sums_[2 * n + 1] = output;
      n += (packed & mask) != 0;
    }
    n_ = static_cast<int64_t>(n);
    return;
  }
  for (int32_t bin = 0; bin < n_values; ++bin) {
    const int64_t* from = sums + int64_t{bin} * channels_.width;
    if (channels_.count(from) != 0) add(bin, from);
  }
}

void SplitSearch::add(int32_t bin, const int64_t* sums) noexcept {
  bin_[static_cast<size_t>(n_)] = bin;
  std::copy_n(sums, channels_.width, sums_.data() + n_ * channels_.width);
  ++n_;
}

Split SplitSearch::best(const BinColumn& column, const NodeSums& node) noexcept {
  return column.categorical ? best_set(column, node) : best_number(column, node);
}

Split SplitSearch::best_number(const BinColumn& column, const NodeSums& node) noexcept {
  const bool any_missing = channels_.count(missing_.data()) > 0;
  Cut found = best_cut(node, nullptr, any_missing ? n_ : n_ - 1);
  Split split{.possible = found.possible};
  if (any_missing) {
    const Cut joined = best_cut(node, missing_.data(), n_ - 1);
    split.possible = split.possible || joined.possible;
    if (joined.gain > found.gain) {
      found = joined;
      split.default_left = true;
    }
  }
  if (found.left == 0) return split;
  split.gain = found.gain;
  const auto left = static_cast<size_t>(found.left);
  split.cut = found.left == n_ ? column.n_values - 1 : middle_cut(column, bin_[left - 1], bin_[left]);
  if (any_missing) return split;
  int64_t count = 0;  // missing values that appear later go with most rows
  for (int64_t i = 0; i < found.left; ++i) count += channels_.count(entry(i));
  split.default_left = 2 * count >= channels_.count(node.total);
  return split;
}

Split SplitSearch::best_set(const BinColumn& column, const NodeSums& node) noexcept {
  if (channels_.count(missing_.data()) > 0) add(column.missing(), missing_.data());
  sort_categories(node.total);
  const Cut found = best_cut(node, nullptr, n_ - 1);
  if (found.left == 0) return {.possible = found.possible, .categorical = true};
  int64_t count = 0;
  BinSet left{}, right{};
  for (int64_t i = 0; i < n_; ++i) {
    if (i < found.left) count += channels_.count(entry(i));
    put(i < found.left ? left : right, bin_[static_cast<size_t>(i)]);
  }
  Split split = set_split(column, left, right, 2 * count >= channels_.count(node.total));
  split.gain = found.gain;
  return split;
}

// By the mean of the output whose means differ most.
void SplitSearch::sort_categories(const int64_t* total) noexcept {
  const auto mean = [&](const int64_t* sums, int32_t k) {
    const double weight = channels_.weight(sums, k) + options_.l2;
    return weight > 0.0 ? channels_.output(sums, k) / weight : 0.0;
  };
  int32_t widest = 0;
  double most = -1.0;
  for (int32_t k = 0; k < channels_.n_outputs; ++k) {
    double spread = 0.0;
    for (int64_t i = 0; i < n_; ++i) {
      const double away = mean(entry(i), k) - mean(total, k);
      spread += channels_.weight(entry(i), k) * away * away;
    }
    if (spread > most) most = spread, widest = k;
  }
  // Insertion: few categories, and nothing to allocate.
  const auto width = static_cast<size_t>(channels_.width);
  for (int64_t i = 0; i < n_; ++i) left_output_[static_cast<size_t>(i)] = mean(entry(i), widest);
  for (size_t i = 1; i < static_cast<size_t>(n_); ++i) {
    for (size_t j = i; j > 0 && left_output_[j] < left_output_[j - 1]; --j) {
      std::swap(left_output_[j], left_output_[j - 1]);
      std::swap(bin_[j], bin_[j - 1]);
      std::swap_ranges(sums_.begin() + static_cast<int64_t>(j * width),
                       sums_.begin() + static_cast<int64_t>((j + 1) * width),
                       sums_.begin() + static_cast<int64_t>((j - 1) * width));
    }
  }
}

double SplitSearch::gain(const int64_t* left, const int64_t* total) const noexcept {
  double sum = 0.0;
  for (int32_t k = 0; k < channels_.n_outputs; ++k) {
    const double h = channels_.weight(total, k), hl = channels_.weight(left, k), hr = h - hl;
    const double g = channels_.output(total, k), gl = channels_.output(left, k), gr = g - gl;
    if (options_.l2 == 0.0) {
      const double away = gl * h - g * hl;
      if (hl > 0.0 && hr > 0.0) sum += away * away / (hl * hr * h);
      continue;
    }
    const double l2 = options_.l2;
    sum += gl * gl / (hl + l2) + gr * gr / (hr + l2) - g * g / (h + l2);
  }
  return scale_ * sum;
}

double SplitSearch::floor(const int64_t* total) const noexcept {
  const auto count = static_cast<double>(channels_.count(total));
  double sum = 0.0;
  for (int32_t k = 0; k < channels_.n_outputs; ++k) {
    const double h = channels_.weight(total, k) + options_.l2;
    if (!(h > 0.0)) continue;
    const double error = count * channels_.unit[static_cast<size_t>(channels_.n_weights + k)];
    const double g = channels_.output(total, k);
    sum += error * error / h;
    if (options_.l2 > 0.0) sum += 1e-15 * g * g / h;
  }
  return scale_ * sum;
}

SplitSearch::Cut SplitSearch::best_cut(const NodeSums& node, const int64_t* extra, int64_t last) noexcept {
  if (channels_.width == 2) return best_cut_single(node, extra, last);
  Cut best{.gain = node.floor};
  const int64_t rows = channels_.count(node.total);
  const double weight = channels_.total_weight(node.total);
  const double least = options_.min_weight;
  if (extra != nullptr)
    std::copy_n(extra, channels_.width, left_.data());
  else
    std::fill(left_.begin(), left_.end(), 0);
  for (int64_t i = 0; i < last; ++i) {
    for (int32_t c = 0; c < channels_.width; ++c) left_[static_cast<size_t>(c)] += entry(i)[c];
    const int64_t count = channels_.count(left_.data());
    const double here = channels_.total_weight(left_.data());
    if (count < options_.min_rows || here < least || here <= 0.0) continue;
    if (rows - count < options_.min_rows || weight - here < least || weight - here <= 0.0) break;
    best.possible = true;
    const double gained = gain(left_.data(), node.total);
    if (gained > best.gain) best.gain = gained, best.left = i + 1;
  }
  return best;
}

// The same for one output, in units of the channels: sums first, then gains, which vectors can do, then the
// best.
SplitSearch::Cut SplitSearch::best_cut_single(const NodeSums& node, const int64_t* extra,
                                              int64_t last) noexcept {
  Cut best{.gain = node.floor};
  const int bits = channels_.count_bits;
  const int64_t mask = (int64_t{1} << bits) - 1;
  int64_t packed = extra != nullptr ? extra[0] : 0, output = extra != nullptr ? extra[1] : 0;
  double *hl = left_weight_.data(), *gl = left_output_.data(), *gains = gain_.data();
  for (int64_t i = 0; i < last; ++i) {
    packed += sums_[static_cast<size_t>(2 * i)];
    output += sums_[static_cast<size_t>(2 * i + 1)];
    left_packed_[static_cast<size_t>(i)] = packed;
    hl[i] = static_cast<double>(packed >> bits);
    gl[i] = static_cast<double>(output);
  }
  // Both sides are large enough in one stretch.
  const double h = static_cast<double>(node.total[0] >> bits), g = static_cast<double>(node.total[1]);
  const double least = options_.min_weight / channels_.unit[0];
  const auto large = [&](int64_t count, double weight) {
    return count >= options_.min_rows && weight >= least && weight > 0.0;
  };
  const auto count = [&](int64_t i) { return left_packed_[static_cast<size_t>(i)] & mask; };
  const int64_t rows = node.total[0] & mask;
  int64_t begin = 0, end = last;
  while (begin < end && !large(count(begin), hl[begin])) ++begin;
  while (begin < end && !large(rows - count(end - 1), h - hl[end - 1])) --end;
  if (begin == end) return best;
  best.possible = true;
  const double l2 = options_.l2 / channels_.unit[0], parent = g * g / (h + l2);
  const double factor = scale_ * channels_.unit[1] * channels_.unit[1] / channels_.unit[0];
  if (l2 == 0.0) {
    for (int64_t i = begin; i < end; ++i) {
      const double away = gl[i] * h - g * hl[i];
      gains[i] = factor * (away * away / (hl[i] * (h - hl[i]) * h));
    }
  } else {
    for (int64_t i = begin; i < end; ++i) {
      const double gr = g - gl[i];
      gains[i] = factor * (gl[i] * gl[i] / (hl[i] + l2) + gr * gr / (h - hl[i] + l2) - parent);
    }
  }
  for (int64_t i = begin; i < end; ++i) {
    if (gains[i] > best.gain) best.gain = gains[i], best.left = i + 1;
  }
  return best;
}

}  // namespace anytime
