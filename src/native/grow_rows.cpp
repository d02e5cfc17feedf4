#include "grow_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>

namespace anytime {
namespace {

constexpr int64_t kChunk = 1 << 15;  // rows; sums over chunks do not depend on the number of threads
constexpr int64_t kBlock = 256;      // rows read together
constexpr double kLargest = 2147483647.0;

// Nearest whole numbers, ties to even; the sum with 1.5 * 2^52 has no room for a fraction, and vectors can do
// it.
void round_all(const double (&numbers)[kBlock], double factor, int32_t (&out)[kBlock]) noexcept {
  constexpr double kRounder = 6755399441055744.0;
  for (int64_t i = 0; i < kBlock; ++i) {
    out[i] = static_cast<int32_t>(std::bit_cast<int64_t>(numbers[i] * factor + kRounder));
  }
}

// The rows' numbers as the channels have them, a block of rows at a time.
class Reader {
 public:
  // `consecutive`: any rows read together follow each other.
  Reader(const GrowTargets& targets, const Channels& channels, bool consecutive)
      : targets_(targets), channels_(channels), consecutive_(consecutive) {}

  // `out[i]` is channel c of row rows[i], i < n <= kBlock.
  void read(int32_t c, const int32_t* rows, int64_t n, double* out) const noexcept {
    if (c < channels_.n_weights) return weights(c, rows, n, out);
    const int32_t k = c - channels_.n_weights;
    copy(targets_.target, channels_.n_outputs, k, rows, n, out);
    if (targets_.newton) {
      for (int64_t i = 0; i < n; ++i) out[i] = -out[i];
      return;
    }
    const double centre = channels_.centre[static_cast<size_t>(k)];
    for (int64_t i = 0; i < n; ++i) out[i] -= centre;
    if (!targets_.weight) return;
    double weight[kBlock];
    weights(channels_.n_weights == 1 ? 0 : k, rows, n, weight);
    for (int64_t i = 0; i < n; ++i) out[i] *= weight[i];
  }

 private:
  void weights(int32_t c, const int32_t* rows, int64_t n, double* out) const noexcept {
    if (targets_.weight) return copy(targets_.weight, channels_.n_weights, c, rows, n, out);
    std::fill_n(out, n, 1.0);
  }

  void copy(const Numbers& from, int64_t width, int32_t c, const int32_t* rows, int64_t n,
            double* out) const noexcept {
    const auto take = [&](const auto* numbers) {
      if (width == 1 && consecutive_) {
        std::copy_n(numbers + rows[0], n, out);
        return;
      }
      for (int64_t i = 0; i < n; ++i) out[i] = numbers[rows[i] * width + c];
    };
    if (from.wide != nullptr)
      take(from.wide);
    else
      take(from.narrow);
  }

  const GrowTargets& targets_;
  const Channels& channels_;
  bool consecutive_;
};

// First row with a number that cannot be used.
[[noreturn]] void complain(const GrowTargets& targets, const Channels& channels,
                           std::span<const int32_t> rows) {
  const Reader reader(targets, channels, false);
  const auto fail = [&](const char* what, int32_t row, double value, const char* why) {
    throw std::invalid_argument(std::string(what) + " of row " + std::to_string(row) + " is " +
                                std::to_string(value) + why);
  };
  for (const int32_t row : rows) {
    for (int32_t c = 0; c < channels.n_weights + channels.n_outputs; ++c) {
      double value;
      reader.read(c, &row, 1, &value);
      if (c < channels.n_weights) {
        if (std::isfinite(value) && value >= 0.0) continue;
        fail(targets.newton ? "hessian" : "weight", row, value, "; it must be finite and not negative");
      }
      if (std::isfinite(value)) continue;
      fail(targets.newton ? "gradient" : "target", row,
           targets.target[row * channels.n_outputs + c - channels.n_weights],
           ", or too large once weighted; it must be finite");
    }
  }
  throw std::invalid_argument("targets and weights add up to more than 1.8e308; use a smaller unit");
}

// The exponent of the smallest power of two that keeps numbers up to `largest` within 31 bits and their sum
// within `sum_bits`.
int exponent_for(double largest, double sum, int64_t n, int sum_bits) {
  if (largest == 0.0) return 0;
  const double rounding = 0.5 * static_cast<double>(n);  // rounding may add half a unit per row
  const double room = std::ldexp(1.0, sum_bits) - rounding - 1.0;
  int exponent = 0;
  std::frexp(std::max(largest / (kLargest - 1.0), sum / room), &exponent);
  return std::clamp(exponent, -1000, 1000);
}

}  // namespace

struct GrowRows::Survey {
  std::vector<double> largest, sum;  // absolute, per channel
};

GrowRows::GrowRows(const GrowTargets& targets, int64_t n_rows, std::span<const int32_t> rows, bool all,
                   bool centred, Team& team, Peers* peers)
    : all_(all), peers_(peers), count_(static_cast<int64_t>(rows.size())) {
  if (peers_ != nullptr) peers_->sum({&count_, 1});
  if (count_ == 0) throw std::invalid_argument("there are no rows to grow a tree on");
  channels_.n_outputs = targets.n_outputs;
  channels_.n_weights = targets.weight_per_output ? targets.n_outputs : 1;
  const int32_t used = channels_.n_weights + channels_.n_outputs;
  channels_.width = used + used % 2;
  channels_.unit.assign(static_cast<size_t>(channels_.width), 1.0);
  channels_.centre.assign(static_cast<size_t>(targets.n_outputs), 0.0);
  survey(targets, rows, centred, team);
  parts_ = std::make_unique_for_overwrite<int32_t[]>(static_cast<size_t>(n_rows * channels_.width));
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
  std::vector<double> ends(2 * n_outputs, -HUGE_VAL);  // minus the least, and the most, of each output
  for (size_t k = 0; k < n_outputs; ++k) {
    for (size_t at = k; at < least.size(); at += n_outputs) {
      ends[2 * k] = std::max(ends[2 * k], -least[at]);
      ends[2 * k + 1] = std::max(ends[2 * k + 1], most[at]);
    }
  }
  if (peers_ != nullptr) {
    for (const std::vector<double>& theirs : peers_->gather_numbers(std::vector<double>(ends))) {
      for (size_t i = 0; i < ends.size(); ++i) ends[i] = std::max(ends[i], theirs[i]);
    }
  }
  for (size_t k = 0; k < n_outputs; ++k) {
    const double low = -ends[2 * k], high = ends[2 * k + 1];
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

// The largest number and the sum of every channel. Chunks of rows are summed apart and their sums in order,
// so that any number of threads finds the same.
void GrowRows::survey(const GrowTargets& targets, std::span<const int32_t> rows, bool centred, Team& team) {
  if (centred) centre(targets, rows, team);
  const auto n = static_cast<int64_t>(rows.size()), chunks = (n + kChunk - 1) / kChunk;
  const auto used = static_cast<size_t>(channels_.n_weights + channels_.n_outputs);
  const Reader reader(targets, channels_, all_);
  std::vector<double> largest(static_cast<size_t>(chunks) * used), sums(largest.size());
  team.each(chunks, true, [&](int64_t chunk, size_t) noexcept {
    double numbers[kBlock];
    for (int32_t c = 0; c < static_cast<int32_t>(used); ++c) {
      constexpr int64_t kLanes = 4;
      double top[kLanes] = {}, low[kLanes] = {}, sum[kLanes] = {};
      for (int64_t first = chunk * kChunk; first < std::min(n, (chunk + 1) * kChunk); first += kBlock) {
        const int64_t count = std::min(kBlock, n - first);
        reader.read(c, rows.data() + first, count, numbers);
        std::fill(numbers + count, numbers + kBlock, 0.0);
        for (int64_t i = 0; i < kBlock; i += kLanes) {
          for (int64_t lane = 0; lane < kLanes; ++lane) {
            const double number = numbers[i + lane];
            top[lane] = top[lane] > number ? top[lane] : number;
            low[lane] = low[lane] < number ? low[lane] : number;
            sum[lane] += std::abs(number);
          }
        }
      }
      const size_t at = static_cast<size_t>(chunk) * used + static_cast<size_t>(c);
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        largest[at] = std::max({largest[at], top[lane], -low[lane]});
        sums[at] += sum[lane];
        if (c < channels_.n_weights && low[lane] < 0.0) sums[at] = HUGE_VAL;  // as bad as not finite
      }
    }
  });
  Survey seen{.largest = std::vector<double>(used), .sum = std::vector<double>(used)};
  for (size_t i = 0; i < largest.size(); ++i) {
    seen.largest[i % used] = std::max(seen.largest[i % used], largest[i]);
    seen.sum[i % used] += sums[i];
  }
  for (const double sum : seen.sum) {
    if (!std::isfinite(sum)) complain(targets, channels_, rows);
  }
  if (peers_ != nullptr) {
    std::vector<double> numbers(seen.largest);
    numbers.insert(numbers.end(), seen.sum.begin(), seen.sum.end());
    std::fill(seen.sum.begin(), seen.sum.end(), 0.0);
    for (const std::vector<double>& theirs : peers_->gather_numbers(numbers)) {
      for (size_t c = 0; c < used; ++c) {
        seen.largest[c] = std::max(seen.largest[c], theirs[c]);
        seen.sum[c] += theirs[used + c];
      }
    }
  }
  choose_units(seen, targets, rows);
}

// A sum of floats depends on their order, so on who holds which rows and how many threads add them. Where
// that might decide, which is next to never, whole numbers are added instead.
void GrowRows::choose_units(const Survey& seen, const GrowTargets& targets, std::span<const int32_t> rows) {
  channels_.count_bits = std::bit_width(static_cast<uint64_t>(count_));
  const double slack = std::ldexp(static_cast<double>(count_), -50);
  for (size_t c = 0; c < seen.sum.size(); ++c) {
    const auto exponent = [&](double sum) {
      return exponent_for(seen.largest[c], sum, count_, c == 0 ? 62 - channels_.count_bits : 62);
    };
    int chosen = exponent(seen.sum[c] * (1.0 + slack));
    if (exponent(seen.sum[c] * (1.0 - slack)) != chosen)
      chosen = exponent(whole_sum(targets, rows, static_cast<int32_t>(c), seen.largest[c]));
    channels_.unit[c] = std::ldexp(1.0, chosen);
  }
}

// The sum of a channel's absolute numbers, each cut to 62 bits below the largest: 30 high and 32 low ones.
double GrowRows::whole_sum(const GrowTargets& targets, std::span<const int32_t> rows, int32_t channel,
                           double largest) const {
  constexpr int kHigh = 30, kLow = 32;
  const Reader reader(targets, channels_, false);
  int64_t parts[2] = {0, 0};
  int exponent = 0;
  std::frexp(largest, &exponent);
  for (const int32_t row : rows) {
    double number;
    reader.read(channel, &row, 1, &number);
    const double scaled = std::ldexp(std::abs(number), kHigh - exponent), high = std::floor(scaled);
    parts[0] += static_cast<int64_t>(high);
    parts[1] += static_cast<int64_t>(std::ldexp(scaled - high, kLow));
  }
  if (peers_ != nullptr) peers_->sum(parts);
  parts[0] += parts[1] >> kLow;
  parts[1] &= (int64_t{1} << kLow) - 1;
  const double whole = static_cast<double>(parts[0]) + std::ldexp(static_cast<double>(parts[1]), -kLow);
  return std::ldexp(whole, exponent - kHigh);
}

void GrowRows::round(const GrowTargets& targets, std::span<const int32_t> rows, Team& team) {
  const Reader reader(targets, channels_, all_);
  const int32_t used = channels_.n_weights + channels_.n_outputs, width = channels_.width;
  team.share(static_cast<int64_t>(rows.size()), kChunk / 4, [&](int64_t begin, int64_t end) noexcept {
    double numbers[kBlock];
    int32_t whole[kBlock];
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      const int32_t* block = rows.data() + first;
      for (int32_t c = 0; c < used; ++c) {
        reader.read(c, block, count, numbers);
        round_all(numbers, 1.0 / channels_.unit[static_cast<size_t>(c)], whole);
        for (int64_t i = 0; i < count; ++i)
          parts_[static_cast<size_t>(block[i] * int64_t{width} + c)] = whole[i];
      }
      for (int64_t i = 0; used < width && i < count; ++i)
        parts_[static_cast<size_t>(block[i] * int64_t{width} + used)] = 0;
    }
  });
}

}  // namespace anytime
