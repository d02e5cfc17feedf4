#include "grow_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

namespace anytime {
namespace {

constexpr int64_t kChunk = 1 << 15;  // rows; sums over chunks do not depend on the number of threads
constexpr double kLargest = 2147483647.0;

// Sum of one chunk after the other, the same for any number of threads: sums(first, last, out) fills `width`
// numbers.
template <class Sums>
std::vector<double> chunk_sums(int64_t n, size_t width, Team& team, Sums&& sums) {
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> parts(static_cast<size_t>(chunks) * width);
  team.each(chunks, true, [&](int64_t chunk, size_t) noexcept {
    sums(chunk * kChunk, std::min(n, (chunk + 1) * kChunk),
         parts.data() + static_cast<size_t>(chunk) * width);
  });
  std::vector<double> total(width);
  for (size_t i = 0; i < parts.size(); ++i) total[i % width] += parts[i];
  return total;
}

// A row's numbers as the channels have them.
class Reader {
 public:
  Reader(const GrowTargets& targets, const Channels& channels) : targets_(targets), channels_(channels) {}

  double weight(int64_t row, int32_t k) const noexcept {
    return targets_.weight ? targets_.weight[row * channels_.n_weights + k] : 1.0;
  }
  double output(int64_t row, int32_t k) const noexcept {
    const double given = targets_.target[row * channels_.n_outputs + k];
    if (targets_.newton) return -given;
    return (given - channels_.centre[static_cast<size_t>(k)]) * weight(row, channels_.n_weights == 1 ? 0 : k);
  }

 private:
  const GrowTargets& targets_;
  const Channels& channels_;
};

// First row with a number that cannot be used.
[[noreturn]] void complain(const GrowTargets& targets, const Channels& channels,
                           std::span<const int32_t> rows) {
  const Reader read(targets, channels);
  for (const int32_t row : rows) {
    for (int32_t k = 0; k < channels.n_weights; ++k) {
      const double w = read.weight(row, k);
      if (std::isfinite(w) && w >= 0.0) continue;
      throw std::invalid_argument(std::string(targets.newton ? "hessian" : "weight") + " of row " +
                                  std::to_string(row) + " is " + std::to_string(w) +
                                  "; it must be finite and not negative");
    }
    for (int32_t k = 0; k < channels.n_outputs; ++k) {
      const double t = targets.target[row * channels.n_outputs + k];
      if (std::isfinite(t) && std::isfinite(read.output(row, k))) continue;
      throw std::invalid_argument(std::string(targets.newton ? "gradient" : "target") + " of row " +
                                  std::to_string(row) + " is " + std::to_string(t) +
                                  ", or too large once weighted; it must be finite");
    }
  }
  throw std::invalid_argument("targets and weights add up to more than 1.8e308; use a smaller unit");
}

// The largest power of two that keeps numbers up to `largest` within 31 bits and their sum within `sum_bits`.
double unit_for(double largest, double sum, int64_t n, int sum_bits) {
  if (largest == 0.0) return 1.0;
  const double rounding = 0.5 * static_cast<double>(n);  // rounding may add half a unit per row
  const double room = std::ldexp(1.0, sum_bits) - rounding - 1.0;
  int exponent = 0;
  std::frexp(std::max(largest / (kLargest - 1.0), sum / room), &exponent);
  return std::ldexp(1.0, std::clamp(exponent, -1000, 1000));
}

}  // namespace

struct GrowRows::Survey {
  std::vector<double> largest, sum;  // absolute, per channel
};

GrowRows::GrowRows(const GrowTargets& targets, int64_t n_rows, std::span<const int32_t> rows, bool centred,
                   Team& team) {
  channels_.n_outputs = targets.n_outputs;
  channels_.n_weights = targets.weight_per_output ? targets.n_outputs : 1;
  const int32_t used = channels_.n_weights + channels_.n_outputs;
  channels_.width = used + used % 2;
  channels_.unit.assign(static_cast<size_t>(channels_.width), 1.0);
  channels_.centre.assign(static_cast<size_t>(targets.n_outputs), 0.0);
  survey(targets, rows, centred, team);
  parts_.resize(static_cast<size_t>(n_rows * channels_.width));
  round(targets, rows, team);
}

// Targets far from zero lose the digits that tell them apart when rounded: a round number near them is taken
// off first.
void GrowRows::centre(const GrowTargets& targets, std::span<const int32_t> rows, Team& team) {
  const auto n = static_cast<int64_t>(rows.size());
  const auto n_outputs = static_cast<size_t>(channels_.n_outputs);
  const size_t chunks = static_cast<size_t>((n + kChunk - 1) / kChunk);
  std::vector<double> least(chunks * n_outputs, HUGE_VAL), most(chunks * n_outputs, -HUGE_VAL);
  team.each(static_cast<int64_t>(chunks), true, [&](int64_t chunk, size_t) noexcept {
    for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
      const int64_t first = rows[static_cast<size_t>(i)] * static_cast<int64_t>(n_outputs);
      for (size_t k = 0; k < n_outputs; ++k) {
        const size_t at = static_cast<size_t>(chunk) * n_outputs + k;
        const double target = targets.target[first + static_cast<int64_t>(k)];
        least[at] = std::min(least[at], target);
        most[at] = std::max(most[at], target);
      }
    }
  });
  for (size_t k = 0; k < n_outputs; ++k) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (size_t at = k; at < least.size(); at += n_outputs) {
      low = std::min(low, least[at]);
      high = std::max(high, most[at]);
    }
    const double middle = low / 2 + high / 2, spread = high - low;
    if (!std::isfinite(middle) || !std::isfinite(spread) || std::abs(middle) <= spread) continue;
    if (spread == 0.0) {
      channels_.centre[k] = middle;
      continue;
    }
    int exponent = 0;
    std::frexp(spread, &exponent);
    const double step = std::ldexp(1.0, exponent);
    const double rounded = std::nearbyint(middle / step) * step;
    if (std::isfinite(rounded)) channels_.centre[k] = rounded;
  }
}

void GrowRows::survey(const GrowTargets& targets, std::span<const int32_t> rows, bool centred, Team& team) {
  const auto n = static_cast<int64_t>(rows.size());
  const auto n_weights = static_cast<size_t>(channels_.n_weights),
             n_outputs = static_cast<size_t>(channels_.n_outputs);
  const size_t used = n_weights + n_outputs;
  const Reader read(targets, channels_);
  if (centred) centre(targets, rows, team);
  // Sums, then largest: a negative weight makes its sum -inf, which is as bad as NaN.
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> largest(static_cast<size_t>(chunks) * used);
  const auto sums = chunk_sums(n, used, team, [&](int64_t first, int64_t last, double* out) {
    double* top = largest.data() + static_cast<size_t>(first / kChunk) * used;
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = rows[static_cast<size_t>(i)];
      for (size_t k = 0; k < n_weights; ++k) {
        const double w = read.weight(row, static_cast<int32_t>(k));
        out[k] += w >= 0.0 ? w : -HUGE_VAL;
        top[k] = std::max(top[k], w);
      }
      for (size_t k = 0; k < n_outputs; ++k) {
        const double t = std::abs(read.output(row, static_cast<int32_t>(k)));
        out[n_weights + k] += t;
        top[n_weights + k] = std::max(top[n_weights + k], t);
      }
    }
  });
  Survey seen{.largest = std::vector<double>(used), .sum = sums};
  for (size_t i = 0; i < largest.size(); ++i)
    seen.largest[i % used] = std::max(seen.largest[i % used], largest[i]);
  for (const double sum : sums) {
    if (!std::isfinite(sum)) complain(targets, channels_, rows);
  }
  choose_units(seen, n);
}

void GrowRows::choose_units(const Survey& seen, int64_t n) {
  channels_.count_bits = std::bit_width(static_cast<uint64_t>(n));
  for (size_t c = 0; c < seen.sum.size(); ++c) {
    channels_.unit[c] = unit_for(seen.largest[c], seen.sum[c], n, c == 0 ? 62 - channels_.count_bits : 62);
  }
}

void GrowRows::round(const GrowTargets& targets, std::span<const int32_t> rows, Team& team) {
  const Reader read(targets, channels_);
  const int32_t n_weights = channels_.n_weights, n_outputs = channels_.n_outputs;
  std::vector<double> per_unit;
  for (const double unit : channels_.unit) per_unit.push_back(1.0 / unit);  // exact: powers of two
  team.share(static_cast<int64_t>(rows.size()), kChunk / 4, [&](int64_t first, int64_t last) noexcept {
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = rows[static_cast<size_t>(i)];
      int32_t* part = parts_.data() + row * channels_.width;
      const auto put = [&](int32_t channel, double value) {
        part[channel] = static_cast<int32_t>(std::lrint(value * per_unit[static_cast<size_t>(channel)]));
      };
      for (int32_t k = 0; k < n_weights; ++k) put(k, read.weight(row, k));
      for (int32_t k = 0; k < n_outputs; ++k) put(n_weights + k, read.output(row, k));
    }
  });
}

}  // namespace anytime
