#include "grow_histogram.hpp"

#include <algorithm>
#include <cstring>

namespace anytime {
namespace {

constexpr int64_t kRowsPerThread = 2048, kNumbersPerThread = 8192;
// Numbers of a histogram that are gone through while one entry is found and changed.
constexpr size_t kNumbersPerEntry = 4;
constexpr size_t kAhead = 16;  // rows that are fetched before they are needed
// Entries from one slot to the next. Not 256: sums of like bins would then stand 4096 bytes apart, where
// processors take a load for one that waits for a store.
constexpr size_t kStep = 257;

}  // namespace

HistogramPlan::HistogramPlan(const Bins& bins, const GrowRows& rows, const std::vector<uint8_t>& slots)
    : bins_(bins), rows_(rows), width_(rows.channels().width), first_(slots.size(), -1) {
  int64_t needed = 0;
  for (int32_t slot = 0; slot < bins.n_slots(); ++slot) {
    if (slots[static_cast<size_t>(slot)] == 0) continue;
    slots_.push_back(slot);
    needed += bins.slot_size(slot) | 1;
  }
  const auto evenly = static_cast<int64_t>(slots_.size() * kStep);
  even_ = width_ == 2 && slots_.size() == slots.size() && evenly <= 2 * needed;
  int64_t entries = 0;
  for (const int32_t slot : slots_) {
    first_[static_cast<size_t>(slot)] = entries;
    entries += even_ ? static_cast<int64_t>(kStep) : bins.slot_size(slot) | 1;
  }
  size_ = static_cast<size_t>(entries * width_);
}

std::vector<size_t> HistogramPlan::shares(int32_t parts) const {
  std::vector<size_t> starts(static_cast<size_t>(parts) + 1, size_);
  for (size_t part = 0; part < static_cast<size_t>(parts); ++part) {
    const size_t at = slots_.size() * part / static_cast<size_t>(parts);
    if (at == slots_.size()) break;
    starts[part] = first(slots_[at]);
  }
  return starts;
}

void HistogramPlan::build(std::span<const int32_t> rows, int64_t* histogram, int64_t* larger, Team& team) {
  const auto n = static_cast<int64_t>(rows.size()), stretches = team.stretches(n, kRowsPerThread);
  const size_t parts = stretches == 1 ? 1 : team.size();
  others_.resize(std::max(others_.size(), size_ * (parts - 1)));
  used_.assign(parts, 0);
  const auto own = [&](size_t part) { return part == 0 ? histogram : others_.data() + (part - 1) * size_; };
  // Who sums what does not matter: the sums are whole numbers.
  team.each(stretches, true, [&](int64_t stretch, size_t part) noexcept {
    if (used_[part] == 0) std::memset(own(part), 0, size_ * sizeof(int64_t));
    used_[part] = 1;
    const int64_t first = n * stretch / stretches, last = n * (stretch + 1) / stretches;
    add(rows.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)), own(part));
  });
  if (used_[0] == 0) std::memset(histogram, 0, size_ * sizeof(int64_t));
  if (parts == 1 && larger == nullptr) return;
  if (are_few(rows)) return take_off(rows, larger);
  team.share(static_cast<int64_t>(size_), kNumbersPerThread, [&](int64_t first, int64_t last) noexcept {
    for (size_t part = 1; part < parts; ++part) {
      const int64_t* other = own(part);
      for (int64_t i = first; used_[part] != 0 && i < last; ++i) histogram[i] += other[i];
    }
    for (int64_t i = first; larger != nullptr && i < last; ++i) larger[i] -= histogram[i];
  });
}

bool HistogramPlan::are_few(std::span<const int32_t> rows) const noexcept {
  return width_ == 2 && rows.size() * slots_.size() * kNumbersPerEntry < size_;
}

// One weight and one output: an entry is a pair, and so is what a row adds.
template <class AddRow>
void HistogramPlan::add_pairs(std::span<const int32_t> rows, int64_t sign, AddRow add_row) const noexcept {
  const int bits = rows_.channels().count_bits;
  const auto stride = static_cast<size_t>(bins_.n_slots());
  const uint8_t* values = bins_.rows();
  const size_t n = rows.size();
  for (size_t i = 0; i < n; ++i) {
    const auto ahead = static_cast<size_t>(rows[std::min(i + kAhead, n - 1)]);
    __builtin_prefetch(values + ahead * stride);
    __builtin_prefetch(values + ahead * stride + stride - 1);
    __builtin_prefetch(rows_[static_cast<int64_t>(ahead)]);
    const int32_t* part = rows_[rows[i]];
    add_row(values + static_cast<size_t>(rows[i]) * stride,
            Pair{sign * ((int64_t{part[0]} << bits) + 1), sign * part[1]});
  }
}

void HistogramPlan::add_single(std::span<const int32_t> rows, Pair* pairs, int64_t sign) const noexcept {
  const size_t n = slots_.size(), fours = n - n % 4;
  const int32_t* slots = slots_.data();
  const int64_t* firsts = first_.data();
  if (!even_) {
    return add_pairs(rows, sign, [=](const uint8_t* row, Pair more) {
      for (size_t s = 0; s < n; ++s) pairs[firsts[slots[s]] + row[slots[s]]] += more;
    });
  }
  add_pairs(rows, sign, [=](const uint8_t* row, Pair more) {
    Pair* to = pairs;
    size_t s = 0;
    for (; s < fours; s += 4, to += 4 * kStep) {
      to[row[s]] += more;
      to[kStep + row[s + 1]] += more;
      to[2 * kStep + row[s + 2]] += more;
      to[3 * kStep + row[s + 3]] += more;
    }
    for (; s < n; ++s, to += kStep) to[row[s]] += more;
  });
}

void HistogramPlan::add(std::span<const int32_t> rows, int64_t* histogram) const noexcept {
  if (width_ == 2) return add_single(rows, reinterpret_cast<Pair*>(histogram), 1);
  const int32_t* slots = slots_.data();
  const int64_t* firsts = first_.data();
  const size_t n = slots_.size();
  const auto stride = static_cast<size_t>(bins_.n_slots());
  const size_t half = static_cast<size_t>(width_) / 2;
  const int bits = rows_.channels().count_bits;
  constexpr size_t kMostPairs = 64;  // expanded on the stack; beyond, numbers are read as they are
  Pair more[kMostPairs];
  for (const int32_t row : rows) {
    const int32_t* part = rows_[row];
    const uint8_t* values = bins_.rows() + static_cast<size_t>(row) * stride;
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
