#include "class_grow_search.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace anytime {
namespace {

constexpr double kRounding = 1e-13;  // a share that is nothing: of the impurity, of a risk

// Random stumps per column in a node of n rows.
int64_t n_stumps(int64_t n) noexcept { return n > 2000 ? 80 : n > 500 ? 40 : 20; }

int64_t most_slot_values(const Bins& bins) noexcept {
  int64_t most = 1;
  for (int32_t slot = 0; slot < bins.n_slots(); ++slot) most = std::max<int64_t>(most, bins.slot_size(slot));
  return most;
}

// Few numbers, often: not worth a call.
void clear_few(double* numbers, int32_t n) noexcept {
  switch (n) {
    default:
      std::fill(numbers + 4, numbers + n, 0.0);
      [[fallthrough]];
    case 4:
      numbers[3] = 0.0;
      [[fallthrough]];
    case 3:
      numbers[2] = 0.0;
      [[fallthrough]];
    case 2:
      numbers[1] = 0.0;
      [[fallthrough]];
    case 1:
      numbers[0] = 0.0;
  }
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
    clear_few(sums_.data() + static_cast<size_t>(value) * static_cast<size_t>(width_), width_);
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
      rest_(static_cast<size_t>(width)),
      sides_(static_cast<size_t>(width) * 4) {
  size_t most = 2;
  for (const int32_t column : columns)
    most = std::max(most, static_cast<size_t>(bins.cuts()[column].n_bins()));
  entries_.resize(most);
}

void TestSearch::begin(const NodeRows& node, RandomStream& random) noexcept {
  node_ = node;
  random_ = &random;
  slot_ = -1;
  best_.proposal.column = -1;
  waiting_.clear();
  statistics_.clear();
}

bool TestSearch::consider(int32_t column, const SlotValues& values, double price) {
  collect(column, values);
  if (n_ < 2) return false;
  if (options_.multiway)
    wait_for_all(column, price);
  else if (options_.impurity.is_custom())
    wait_for_stumps(column, price);
  else
    options_.impurity.with([&](const auto& of) { try_stumps(column, price, of); });
  return true;
}

bool TestSearch::settle() { return waiting_.empty() || judge(); }

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
  if (place.first < 0)
    slot_sums_.each(0, binned.n_bins(), [this](int32_t value) { add(value, value); });
  else
    collect_shared(column);
  has_missing_ = n_ > 0 && bin(n_ - 1) == binned.missing();
}

// A column that shares its slot: the common bin has what the others of the column have not.
void TestSearch::collect_shared(int32_t column) noexcept {
  const BinColumn& binned = bins_.cuts()[column];
  const int32_t first = bins_.place(column).first, common = first + binned.common;
  const int32_t last = first + binned.n_bins() - 1;
  const auto width = static_cast<size_t>(node_.width);
  int64_t count = node_.n_rows, seen = 0;
  std::copy_n(node_.total, width, rest_.data());
  slot_sums_.each(first, last, [&](int32_t value) {
    for (size_t c = 0; c < width; ++c) rest_[c] -= slot_sums_.sums(value)[c];
    count -= slot_sums_.count(value);
    ++seen;
  });
  if (seen == 0) return;
  slot_sums_.each(first, common, [&](int32_t value) { add(value - first, value); });
  if (weight(rest_.data()) > 0.0)
    entries_[static_cast<size_t>(n_++)] = {.bin = binned.common, .count = count, .sums = rest_.data()};
  slot_sums_.each(common, last, [&](int32_t value) { add(value - first + 1, value); });
}

void TestSearch::add(int32_t bin, int32_t value) noexcept {
  Entry& entry = entries_[static_cast<size_t>(n_++)];
  entry.bin = bin;
  entry.count = slot_sums_.count(value);
  entry.sums = slot_sums_.sums(value);
}

double TestSearch::weight(const double* sums) const noexcept {
  return node_.code == nullptr ? sums[0] : std::accumulate(sums, sums + node_.width, 0.0);
}

// By the share of a class, or for numbers by the mean; equal ones in the order of their bins.
void TestSearch::sort_entries(int32_t order) noexcept {
  const auto end = entries_.begin() + n_;
  for (auto entry = entries_.begin(); entry != end; ++entry)
    entry->key = entry->sums[order] / weight(entry->sums);
  std::sort(entries_.begin(), end, [](const Entry& a, const Entry& b) {
    return a.key < b.key || (a.key == b.key && a.bin < b.bin);
  });
}

// ------------------------------------------------------------------ stumps

Sampler TestSearch::sampler(int64_t total) noexcept {
  return {total, options_.random ? n_stumps(node_.n_rows) : total, *random_};
}

template <class Offer>
void TestSearch::each_stump(int32_t column, Offer&& offer) {
  const auto large = [&](int64_t n_left) {
    return !counting_ || std::min(n_left, node_.n_rows - n_left) >= options_.min_rows;
  };
  const auto offer_large = [&](const Proposal& proposal, const double* left, int64_t n_left) {
    if (large(n_left)) offer(proposal, left);
  };
  if (bins_.cuts()[column].categorical)
    each_set({.column = column}, offer_large);
  else
    each_cut({.column = column}, offer_large);
}

// Cuts between values, missing ones on either side; and values against missing ones.
template <class Offer>
void TestSearch::each_cut(Proposal proposal, Offer&& offer) {
  const int32_t n_values = n_ - has_missing_, last = has_missing_ ? n_values : n_values - 1;
  const int32_t width = node_.width;
  const Entry& missing = entries_[static_cast<size_t>(n_ - 1)];
  double *left = sides_.data(), *joined = left + width;
  std::fill_n(left, width, 0.0);
  int64_t n_left = 0;
  Sampler sampled = sampler(last);
  for (int32_t i = 0; i < last; ++i) {
    const Entry& entry = entries_[static_cast<size_t>(i)];
    for (int32_t c = 0; c < width; ++c) left[c] += entry.sums[c];
    n_left += entry.count;
    if (!sampled.take()) continue;
    proposal.left = i + 1;
    proposal.missing_left = false;
    offer(proposal, left, n_left);
    if (!has_missing_ || i + 1 == n_values) continue;
    for (int32_t c = 0; c < width; ++c) joined[c] = left[c] + missing.sums[c];
    proposal.missing_left = true;
    offer(proposal, joined, n_left + missing.count);
  }
}

// Categories in the order of the share of each class; with two classes, or numbers, one order will do.
template <class Offer>
void TestSearch::each_set(Proposal proposal, Offer&& offer) {
  const int32_t width = node_.width;
  const bool numbers = node_.code == nullptr;
  const auto n_classes = std::count_if(node_.total, node_.total + width, [](double n) { return n > 0.0; });
  int64_t n_orders = numbers || n_classes == 2 ? 1 : n_classes;
  double* left = sides_.data();
  Sampler sampled = sampler(n_orders * (n_ - 1));
  for (proposal.order = numbers ? 1 : 0; n_orders > 0; ++proposal.order) {
    if (!numbers && node_.total[proposal.order] == 0.0) continue;
    --n_orders;
    sort_entries(proposal.order);
    std::fill_n(left, width, 0.0);
    int64_t n_left = 0;
    for (int32_t i = 0; i + 1 < n_; ++i) {
      const Entry& entry = entries_[static_cast<size_t>(i)];
      for (int32_t c = 0; c < width; ++c) left[c] += entry.sums[c];
      n_left += entry.count;
      proposal.left = i + 1;
      if (sampled.take()) offer(proposal, left, n_left);
    }
  }
}

// The price is the same for all tests of a column: the best one has the largest fall.
template <class Of>
void TestSearch::try_stumps(int32_t column, double price, const Of& of) {
  const int32_t width = node_.width;
  const double *total = node_.total, before = node_.impurity, size = weight(total);
  double* right = sides_.data() + 2 * width;
  Proposal found;
  double drop = 0.0, impurities[2] = {};
  each_stump(column, [&](const Proposal& proposal, const double* left) {
    for (int32_t c = 0; c < width; ++c) right[c] = total[c] - left[c];
    const double a = of(left, width), b = of(right, width);
    const double after = options_.expected ? (weight(left) * a + weight(right) * b) / size : std::max(a, b);
    if (!(before - after > drop + kRounding * before)) return;  // equal but for rounding: the first
    drop = before - after;
    found = proposal;
    impurities[0] = a;
    impurities[1] = b;
  });
  if (found.column >= 0) rate(found, price, drop, impurities);
}

// ------------------------------------------------------------------ tests that wait

void TestSearch::wait_for_stumps(int32_t column, double price) {
  each_stump(column, [&](const Proposal& proposal, const double* left) {
    statistics_.insert(statistics_.end(), left, left + node_.width);
    for (int32_t c = 0; c < node_.width; ++c) statistics_.push_back(node_.total[c] - left[c]);
    waiting_.push_back({proposal, price});
  });
}

void TestSearch::wait_for_all(int32_t column, double price) {
  const std::span<const Entry> entries(entries_.data(), static_cast<size_t>(n_));
  if (counting_ && std::any_of(entries.begin(), entries.end(),
                               [&](const Entry& entry) { return entry.count < options_.min_rows; }))
    return;
  for (const Entry& entry : entries)
    statistics_.insert(statistics_.end(), entry.sums, entry.sums + node_.width);
  waiting_.push_back({{.column = column, .n_outcomes = n_}, price});
  if (!options_.impurity.is_custom()) judge();
}

bool TestSearch::judge() {
  const auto width = static_cast<size_t>(node_.width), n = statistics_.size() / width;
  impurities_.resize(n);
  if (!options_.impurity.evaluate(statistics_.data(), static_cast<int64_t>(n), node_.width,
                                  impurities_.data()))
    return false;
  size_t first = 0;
  for (const auto& [proposal, price] : waiting_) {
    const auto n_outcomes = static_cast<size_t>(proposal.n_outcomes);
    const auto impurities = std::span<const double>(impurities_).subspan(first, n_outcomes);
    rate(proposal, price, fall(impurities, statistics_.data() + first * width), impurities);
    first += n_outcomes;
  }
  waiting_.clear();
  statistics_.clear();
  return true;
}

double TestSearch::fall(std::span<const double> impurities, const double* statistics) const noexcept {
  if (!options_.expected) return node_.impurity - *std::max_element(impurities.begin(), impurities.end());
  double sum = 0.0;
  for (const double impurity : impurities) {
    sum += weight(statistics) * impurity;
    statistics += node_.width;
  }
  return node_.impurity - sum / weight(node_.total);
}

// Takes a test if it is the best so far: least risk, then largest fall, then the first column. What differs
// by rounding only is equal, so that trees keep to few columns.
void TestSearch::rate(const Proposal& proposal, double price, double drop,
                      std::span<const double> impurities) {
  if (!(drop > kRounding * node_.impurity)) return;
  const double risk = price / drop;
  const auto order = [](double a, double b) {  // -1: a is less
    if (std::abs(a - b) <= kRounding * std::max(a, b)) return 0;
    return a < b ? -1 : 1;
  };
  if (best_.found()) {
    const int by_risk = order(risk, best_.risk), by_drop = order(best_.drop, drop);
    if (by_risk > 0 || (by_risk == 0 && by_drop > 0)) return;
    if (by_risk == 0 && by_drop == 0 && proposal.column >= best_.proposal.column) return;
  }
  best_.proposal = proposal;
  best_.risk = risk;
  best_.drop = drop;
  best_.impurities.assign(impurities.begin(), impurities.end());
}

}  // namespace anytime
