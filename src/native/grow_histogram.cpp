#include "grow_histogram.hpp"

#include <algorithm>
#include <cstring>

namespace anytime {
namespace {

using Pair = int64_t __attribute__((vector_size(16), may_alias));

constexpr int64_t kRowsPerThread = 4096;
constexpr size_t kAhead = 16;  // rows that are fetched before they are needed

}  // namespace

HistogramPlan::HistogramPlan(const Bins& bins, const GrowRows& rows, const std::vector<uint8_t>& slots)
    : bins_(bins), rows_(rows), width_(rows.channels().width), first_(slots.size(), -1) {
  int64_t entries = 0;
  for (int32_t slot = 0; slot < bins.n_slots(); ++slot) {
    if (slots[static_cast<size_t>(slot)] == 0) continue;
    slots_.push_back(slot);
    first_[static_cast<size_t>(slot)] = entries;
    entries += bins.slot_size(slot);
  }
  size_ = static_cast<size_t>(entries * width_);
}

void HistogramPlan::build(std::span<const int32_t> rows, int64_t* histogram, Team& team,
                          std::vector<int64_t>& scratch) const {
  const size_t parts = rows.size() < 2 * kRowsPerThread ? 1 : team.size();
  if (parts == 1) {
    std::memset(histogram, 0, size_ * sizeof(int64_t));
    add(rows, histogram);
    return;
  }
  if (scratch.size() < size_ * (parts - 1)) scratch.resize(size_ * (parts - 1));
  team.run([&](size_t part) noexcept {
    int64_t* own = part == 0 ? histogram : scratch.data() + (part - 1) * size_;
    std::memset(own, 0, size_ * sizeof(int64_t));
    const size_t first = rows.size() * part / parts, last = rows.size() * (part + 1) / parts;
    add(rows.subspan(first, last - first), own);
  });
  for (size_t part = 1; part < parts; ++part) {
    const int64_t* other = scratch.data() + (part - 1) * size_;
    for (size_t i = 0; i < size_; ++i) histogram[i] += other[i];
  }
}

void HistogramPlan::subtract(int64_t* larger, const int64_t* smaller) const noexcept {
  for (size_t i = 0; i < size_; ++i) larger[i] -= smaller[i];
}

// One weight and one output: an entry is a pair, and so is what a row adds.
template <class Next>
void HistogramPlan::add_pairs(std::span<const int32_t> rows, int64_t* histogram, Next next) const noexcept {
  const int bits = rows_.channels().count_bits;
  const auto stride = static_cast<size_t>(bins_.n_slots());
  const uint8_t* values = bins_.narrow_rows();
  auto* pairs = reinterpret_cast<Pair*>(histogram);
  const size_t n = rows.size();
  for (size_t i = 0; i < n; ++i) {
    const auto ahead = static_cast<size_t>(rows[std::min(i + kAhead, n - 1)]);
    __builtin_prefetch(values + ahead * stride);
    __builtin_prefetch(values + ahead * stride + stride - 1);
    __builtin_prefetch(rows_[static_cast<int64_t>(ahead)]);
    const int64_t row = rows[i];
    const int32_t* part = rows_[row];
    const Pair more = {(int64_t{part[0]} << bits) + 1, part[1]};
    next(values + static_cast<size_t>(row) * stride, pairs, more);
  }
}

void HistogramPlan::add(std::span<const int32_t> rows, int64_t* histogram) const noexcept {
  const int32_t* slots = slots_.data();
  const int64_t* firsts = first_.data();
  const size_t n = slots_.size();
  if (width_ == 2) {
    if (n == first_.size()) {
      return add_pairs(rows, histogram, [=](const uint8_t* row, Pair* pairs, Pair more) {
        for (size_t s = 0; s < n; ++s) pairs[firsts[s] + row[s]] += more;
      });
    }
    return add_pairs(rows, histogram, [=](const uint8_t* row, Pair* pairs, Pair more) {
      for (size_t s = 0; s < n; ++s) pairs[firsts[slots[s]] + row[slots[s]]] += more;
    });
  }
  const auto stride = static_cast<size_t>(bins_.n_slots());
  const size_t half = static_cast<size_t>(width_) / 2;
  const int bits = rows_.channels().count_bits;
  constexpr size_t kMostPairs = 64;  // expanded on the stack; beyond, numbers are read as they are
  Pair more[kMostPairs];
  for (const int32_t row : rows) {
    const int32_t* part = rows_[row];
    const uint8_t* values = bins_.narrow_rows() + static_cast<size_t>(row) * stride;
    for (size_t begin = 0; begin < half; begin += kMostPairs) {
      const size_t count = std::min(kMostPairs, half - begin);
      for (size_t c = 0; c < count; ++c) more[c] = Pair{part[2 * (begin + c)], part[2 * (begin + c) + 1]};
      if (begin == 0) more[0][0] = (more[0][0] << bits) + 1;
      for (size_t s = 0; s < n; ++s) {
        const auto entry = static_cast<size_t>(firsts[slots[s]] + values[slots[s]]);
        Pair* sums = reinterpret_cast<Pair*>(histogram) + entry * half + begin;
        for (size_t c = 0; c < count; ++c) sums[c] += more[c];
      }
    }
  }
}

}  // namespace anytime
