// What the rows of a tree add up: weights and weighted targets as integers, side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "grow.hpp"
#include "threads.hpp"

namespace anytime {

// Channels of a sum: the weights (one, or one per output), then the outputs, then perhaps one unused to make
// the number even. The lowest `count_bits` of the first channel count rows: a sum of weights needs few of its
// 64 bits.
struct Channels {
  int32_t n_weights = 1;
  int32_t n_outputs = 1;
  int32_t width = 2;
  int count_bits = 0;
  std::vector<double> unit;    // what one is worth, per channel
  std::vector<double> centre;  // per output, taken off the targets

  int64_t count(const int64_t* sums) const noexcept { return sums[0] & ((int64_t{1} << count_bits) - 1); }
  double weight(const int64_t* sums, int32_t output) const noexcept {
    if (n_weights == 1 || output == 0) return static_cast<double>(sums[0] >> count_bits) * unit[0];
    return static_cast<double>(sums[output]) * unit[static_cast<size_t>(output)];
  }
  double total_weight(const int64_t* sums) const noexcept {
    double sum = weight(sums, 0);
    for (int32_t k = 1; k < n_weights; ++k) sum += weight(sums, k);
    return sum;
  }
  double output(const int64_t* sums, int32_t output) const noexcept {
    return static_cast<double>(sums[n_weights + output]) * unit[static_cast<size_t>(n_weights + output)];
  }
};

class GrowRows {
 public:
  // Checks the numbers of `rows` (in range; `all`: 0, 1, .., n_rows - 1); other rows are not read.
  GrowRows(const GrowTargets& targets, int64_t n_rows, std::span<const int32_t> rows, bool all, bool centred,
           Team& team, Peers* peers);

  // Rows of all peers.
  int64_t count() const noexcept { return count_; }

  const Channels& channels() const noexcept { return channels_; }
  // `width` numbers.
  const int32_t* operator[](int64_t row) const noexcept { return parts_.get() + row * channels_.width; }
  // The row's part of a sum.
  void add_to(int64_t* sums, int64_t row) const noexcept {
    const int32_t* part = (*this)[row];
    sums[0] += (int64_t{part[0]} << channels_.count_bits) + 1;
    for (int32_t c = 1; c < channels_.width; ++c) sums[c] += part[c];
  }

 private:
  struct Survey;
  void centre(const GrowTargets& targets, std::span<const int32_t> rows, Team& team);
  void survey(const GrowTargets& targets, std::span<const int32_t> rows, bool centred, Team& team);
  void choose_units(const Survey& seen, const GrowTargets& targets, std::span<const int32_t> rows);
  double whole_sum(const GrowTargets& targets, std::span<const int32_t> rows, int32_t channel,
                   double largest) const;
  void round(const GrowTargets& targets, std::span<const int32_t> rows, Team& team);

  Channels channels_;
  bool all_;
  Peers* peers_;
  int64_t count_;
  std::unique_ptr<int32_t[]> parts_;
};

}  // namespace anytime
