#include "class_grow_search.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace anytime {
namespace {

constexpr double kRounding = 1e-13;  // of the impurity: a fall by no more than this is none

// Random stumps per column in a node of n rows.
int64_t n_stumps(int64_t n) noexcept { return n > 2000 ? 80 : n > 500 ? 40 : 20; }

int64_t most_slot_values(const Bins& bins) noexcept {
  int64_t most = 1;
  for (int32_t slot = 0; slot < bins.n_slots(); ++slot) most = std::max<int64_t>(most, bins.slot_size(slot));
  return most;
}

}  // namespace

SlotSums::SlotSums(int64_t most_values, int32_t most_width, bool counting)
    : counting_(counting),
      sums_(static_cast<size_t>(most_values) * static_cast<size_t>(most_width)),
      counts_(counting ? static_cast<size_t>(most_values) : 0),
      seen_(static_cast<size_t>((most_values + 63) / 64)) {}

void SlotSums::build(const SlotValues& values, int32_t n_values, const NodeRows& node) noexcept {
  clear();
  width_ = node.width;
  n_values_ = n_values;
  if (values.narrow != nullptr)
    add(values.narrow, node);
  else
    add(values.wide, node);
}

template <class Value>
void SlotSums::add(const Value* values, const NodeRows& node) noexcept {
  const size_t n = node.rows.size();
  const int32_t* rows = node.rows.data();
  const auto width = static_cast<size_t>(width_);
  uint64_t* seen = seen_.data();
  double* sums = sums_.data();
  const auto see = [&](size_t value) { seen[value >> 6] |= uint64_t{1} << (value & 63); };
  if (node.code != nullptr) {
    for (size_t i = 0; i < n; ++i) {
      const size_t value = values[rows[i]];
      see(value);
      sums[value * width + static_cast<size_t>(node.code[i])] += node.weight[i];
    }
  } else {
    for (size_t i = 0; i < n; ++i) {
      const size_t value = values[rows[i]];
      see(value);
      const double weight = node.weight[i], target = node.target[i];
      double* to = sums + value * width;
      to[0] += weight;
      to[1] += weight * target;
      to[2] += weight * target * target;
    }
  }
  if (!counting_) return;
  for (size_t i = 0; i < n; ++i) counts_[values[rows[i]]] += node.repeats[i];
}

void SlotSums::clear() noexcept {
  each(0, n_values_, [this](int32_t value) {
    std::fill_n(sums_.data() + static_cast<size_t>(value) * static_cast<size_t>(width_), width_, 0.0);
    if (counting_) counts_[static_cast<size_t>(value)] = 0;
  });
  std::fill_n(seen_.begin(), (n_values_ + 63) / 64, 0);
}

template <class Visit>
void SlotSums::each(int32_t first, int32_t last, Visit&& visit) const noexcept {
  for (int32_t word = first / 64; word * 64 < last; ++word) {
    uint64_t bits = seen_[static_cast<size_t>(word)];
    if (word * 64 < first) bits &= ~uint64_t{0} << (first & 63);
    if (last - word * 64 < 64) bits &= (uint64_t{1} << (last & 63)) - 1;
    for (; bits != 0; bits &= bits - 1) visit(word * 64 + std::countr_zero(bits));
  }
}

TestSearch::TestSearch(const Bins& bins, const ClassGrowOptions& options, std::span<const int32_t> columns,
                       int32_t width)
    : bins_(bins),
      options_(options),
      counting_(options.min_rows > 1),
      slot_sums_(most_slot_values(bins), width, counting_),
      left_(static_cast<size_t>(width)),
      spare_(static_cast<size_t>(width)) {
  size_t most = 2;
  for (const int32_t column : columns)
    most = std::max(most, static_cast<size_t>(bins.cuts()[column].n_bins()));
  bin_.resize(most);
  sums_.resize(most * static_cast<size_t>(width));
  count_.resize(most);
}

void TestSearch::begin(const NodeRows& node, RandomStream& random) noexcept {
  node_ = node;
  random_ = &random;
  slot_ = -1;
  best_.proposal.column = -1;
  best_.risk = std::numeric_limits<double>::infinity();
  best_.drop = 0.0;
  proposals_.clear();
  statistics_.clear();
}

bool TestSearch::consider(int32_t column, const SlotValues& values, double price) {
  collect(column, values);
  if (n_ < 2) return false;
  const Proposal proposal{.column = column, .price = price};
  if (options_.multiway)
    propose_all(proposal);
  else if (bins_.cuts()[column].categorical)
    propose_sets(proposal);
  else
    propose_numbers(proposal);
  if (!options_.impurity.is_custom()) judge();
  return true;
}

bool TestSearch::settle() { return !options_.impurity.is_custom() || judge(); }

void TestSearch::recall(const SlotValues& values) {
  collect(best_.proposal.column, values);
  if (best_.proposal.order >= 0) sort_entries(best_.proposal.order);
}

// ------------------------------------------------------------------ what a column has

void TestSearch::collect(int32_t column, const SlotValues& values) noexcept {
  const BinColumn& binned = bins_.cuts()[column];
  const BinPlace& place = bins_.place(column);
  if (place.slot != slot_) {
    slot_ = place.slot;
    slot_sums_.build(values, bins_.slot_size(slot_), node_);
  }
  n_ = 0;
  const auto take = [&](int32_t bin, int32_t value) {
    add(bin, slot_sums_.sums(value), slot_sums_.count(value));
  };
  if (place.first < 0) {
    slot_sums_.each(0, binned.n_bins(), [&](int32_t value) { take(value, value); });
  } else {
    // The common bin has what the others of the column have not.
    const int32_t last = place.first + binned.n_bins() - 1, common = place.first + binned.common;
    const auto width = static_cast<size_t>(node_.width);
    double* rest = spare_.data();
    std::copy_n(node_.total, width, rest);
    int64_t count = counting_ ? node_.n_rows : 1, seen = 0;
    slot_sums_.each(place.first, last, [&](int32_t value) {
      for (size_t c = 0; c < width; ++c) rest[c] -= slot_sums_.sums(value)[c];
      if (counting_) count -= slot_sums_.count(value);
      ++seen;
    });
    if (seen > 0) {
      slot_sums_.each(place.first, common, [&](int32_t value) { take(value - place.first, value); });
      double weight = rest[0];
      if (node_.code != nullptr) weight = std::accumulate(rest, rest + width, 0.0);
      if (weight > 0.0) add(binned.common, rest, count);
      slot_sums_.each(common, last, [&](int32_t value) { take(value - place.first + 1, value); });
    }
  }
  has_missing_ = n_ > 0 && bin_[static_cast<size_t>(n_ - 1)] == binned.missing();
}

void TestSearch::add(int32_t bin, const double* sums, int64_t count) noexcept {
  const auto at = static_cast<size_t>(n_++);
  bin_[at] = bin;
  count_[at] = count;
  std::copy_n(sums, node_.width, sums_.data() + at * static_cast<size_t>(node_.width));
}

// By the share of a class, or for numbers by the mean; equal ones in the order of their bins.
void TestSearch::sort_entries(int32_t order) noexcept {
  const auto n = static_cast<size_t>(n_), width = static_cast<size_t>(node_.width);
  key_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const double* at = sums_.data() + i * width;
    const double weight = node_.code != nullptr ? std::accumulate(at, at + width, 0.0) : at[0];
    key_[i] = at[order] / weight;
  }
  for (size_t i = 1; i < n; ++i) {  // insertion: few categories, and nothing to allocate
    const auto before = [&](size_t j) {
      return key_[j] < key_[j - 1] || (key_[j] == key_[j - 1] && bin_[j] < bin_[j - 1]);
    };
    for (size_t j = i; j > 0 && before(j); --j) {
      std::swap(key_[j], key_[j - 1]);
      std::swap(bin_[j], bin_[j - 1]);
      std::swap(count_[j], count_[j - 1]);
      std::swap_ranges(sums_.begin() + static_cast<int64_t>(j * width),
                       sums_.begin() + static_cast<int64_t>((j + 1) * width),
                       sums_.begin() + static_cast<int64_t>((j - 1) * width));
    }
  }
}

// ------------------------------------------------------------------ tests

Sampler TestSearch::sampler(int64_t total) noexcept {
  return {total, options_.random ? n_stumps(node_.n_rows) : total, *random_};
}

void TestSearch::propose_numbers(Proposal proposal) {
  const int32_t n_values = n_ - has_missing_, last = has_missing_ ? n_values : n_values - 1;
  const auto width = static_cast<size_t>(node_.width);
  const double* missing = sums(n_ - 1);
  std::fill(left_.begin(), left_.end(), 0.0);
  int64_t n_left = 0;
  Sampler sampled = sampler(last);
  for (int32_t i = 0; i < last; ++i) {
    const double* entry = sums(i);
    for (size_t c = 0; c < width; ++c) left_[c] += entry[c];
    n_left += count_[static_cast<size_t>(i)];
    if (!sampled.take()) continue;
    proposal.left = i + 1;
    proposal.missing_left = false;
    propose(proposal, left_.data(), n_left);
    if (!has_missing_ || i + 1 == n_values) continue;
    for (size_t c = 0; c < width; ++c) spare_[c] = left_[c] + missing[c];
    proposal.missing_left = true;
    propose(proposal, spare_.data(), n_left + count_[static_cast<size_t>(n_ - 1)]);
  }
}

// Categories in the order of the share of each class; with two classes, or numbers, one order will do.
void TestSearch::propose_sets(Proposal proposal) {
  const auto width = static_cast<size_t>(node_.width);
  const bool numbers = node_.code == nullptr;
  const auto n_classes = std::count_if(node_.total, node_.total + width, [](double n) { return n > 0.0; });
  int64_t n_orders = numbers || n_classes == 2 ? 1 : n_classes;
  Sampler sampled = sampler(n_orders * (n_ - 1));
  for (proposal.order = numbers ? 1 : 0; n_orders > 0; ++proposal.order) {
    if (!numbers && node_.total[proposal.order] == 0.0) continue;
    --n_orders;
    sort_entries(proposal.order);
    std::fill(left_.begin(), left_.end(), 0.0);
    int64_t n_left = 0;
    for (int32_t i = 0; i + 1 < n_; ++i) {
      const double* entry = sums(i);
      for (size_t c = 0; c < width; ++c) left_[c] += entry[c];
      n_left += count_[static_cast<size_t>(i)];
      proposal.left = i + 1;
      if (sampled.take()) propose(proposal, left_.data(), n_left);
    }
  }
}

void TestSearch::propose_all(Proposal proposal) {
  for (int32_t i = 0; i < n_; ++i) {
    if (counting_ && count_[static_cast<size_t>(i)] < options_.min_rows) return;
  }
  proposal.first = static_cast<int32_t>(statistics_.size() / static_cast<size_t>(node_.width));
  proposal.n_outcomes = n_;
  statistics_.insert(statistics_.end(), sums(0), sums(n_));
  proposals_.push_back(proposal);
}

void TestSearch::propose(const Proposal& proposal, const double* left, int64_t n_left) {
  if (counting_ && std::min(n_left, node_.n_rows - n_left) < options_.min_rows) return;
  const auto width = static_cast<size_t>(node_.width), at = statistics_.size();
  statistics_.resize(at + 2 * width);
  double* to = statistics_.data() + at;
  for (size_t c = 0; c < width; ++c) {
    to[c] = left[c];
    to[width + c] = node_.total[c] - left[c];
  }
  proposals_.push_back(proposal);
  proposals_.back().first = static_cast<int32_t>(at / width);
}

// Takes the best of the tests that wait: least risk, then largest fall, then the first column.
bool TestSearch::judge() {
  const auto width = static_cast<size_t>(node_.width);
  const size_t n = statistics_.size() / width;
  impurities_.resize(n);
  if (n > 0 && !options_.impurity.evaluate(statistics_.data(), static_cast<int64_t>(n), node_.width,
                                           impurities_.data()))
    return false;
  const double least = kRounding * node_.impurity;
  const auto weight = [&](size_t row) {
    const double* at = statistics_.data() + row * width;
    return node_.code != nullptr ? std::accumulate(at, at + width, 0.0) : at[0];
  };
  for (const Proposal& proposal : proposals_) {
    const auto first = static_cast<size_t>(proposal.first),
               last = first + static_cast<size_t>(proposal.n_outcomes);
    double after = 0.0;
    if (options_.expected) {
      double sum = 0.0;
      for (size_t i = first; i < last; ++i) {
        const double here = weight(i);
        after += here * impurities_[i];
        sum += here;
      }
      after /= sum;
    } else {
      for (size_t i = first; i < last; ++i) after = std::max(after, impurities_[i]);
    }
    const double drop = node_.impurity - after;
    if (!(drop > least)) continue;
    const double risk = proposal.price / drop;
    if (risk > best_.risk || (risk == best_.risk && drop < best_.drop)) continue;
    if (risk == best_.risk && drop == best_.drop && proposal.column >= best_.proposal.column) continue;
    best_.risk = risk;
    best_.drop = drop;
    best_.proposal = proposal;
    best_.impurities.assign(impurities_.begin() + static_cast<int64_t>(first),
                            impurities_.begin() + static_cast<int64_t>(last));
  }
  proposals_.clear();
  statistics_.clear();
  return true;
}

}  // namespace anytime
