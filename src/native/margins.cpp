#include "margins.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace anytime {
namespace {

void check_size(size_t found, size_t expected, const char* name) {
  if (found == expected) return;
  throw std::invalid_argument(std::string(name) + " has " + std::to_string(found) + " entries, expected " +
                              std::to_string(expected));
}

void check_finite(std::span<const double> numbers, const char* name) {
  if (!std::ranges::all_of(numbers, [](double x) { return std::isfinite(x); }))
    throw std::invalid_argument(std::string(name) + " must be finite");
}

uint64_t mixed(uint64_t hash, uint64_t with) noexcept {  // splitmix64
  uint64_t z = hash + with + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Margins::Margins(std::shared_ptr<const CostTable> table, std::span<const double> start,
                 std::span<const double> contributions, std::span<const double> coordinates,
                 std::span<const uint8_t> candidate, const MarginRules& rules)
    : table_(std::move(table)),
      start_(start.begin(), start.end()),
      contributions_(contributions.begin(), contributions.end()),
      coordinates_(coordinates.begin(), coordinates.end()),
      candidate_(candidate.begin(), candidate.end()),
      columns_(static_cast<size_t>(table_->n_groups())),
      rules_(rules) {
  const size_t n = start.size(), n_groups = columns_.size();
  if (n == 0) throw std::invalid_argument("there must be reference points");
  if (rules.n_neighbours < 1) throw std::invalid_argument("n_neighbours must be at least 1");
  check_size(contributions.size(), n * n_groups, "contributions");
  check_size(coordinates.size(), n * static_cast<size_t>(table_->n_columns()), "coordinates");
  check_size(candidate.size(), n_groups, "candidate");
  check_finite(start, "start");
  check_finite(contributions, "contributions");
  check_finite(coordinates, "coordinates");
  for (int32_t j = 0; j < table_->n_columns(); ++j)
    columns_[static_cast<size_t>(table_->group_of(j))].push_back(j);
  for (int32_t g = 0; g < table_->n_groups(); ++g)
    if (candidate_[static_cast<size_t>(g)] && table_->closure(g).size() > 1) dependent_.push_back(g);

  by_group_.resize(contributions_.size());
  for (size_t l = 0; l < n; ++l)
    for (size_t g = 0; g < n_groups; ++g) by_group_[g * n + l] = contributions_[l * n_groups + g];

  // Before the first purchase all rows are alike, and all points are their neighbours.
  MarginScratch room = scratch();
  room.near.resize(n);
  for (size_t l = 0; l < n; ++l) room.near[l] = static_cast<int32_t>(l);
  count_right(start_.data(), room);
  first_ = best(room);
  first_right_ = room.right;
}

MarginScratch Margins::scratch() const {
  const size_t n = start_.size(), n_groups = columns_.size();
  MarginScratch room;
  room.margins.resize(n);
  room.distances.resize(n);
  room.sorted.resize(n);
  room.near.reserve(n);
  room.added.reserve(n_groups);
  room.right.resize(n_groups + 1);
  room.has.resize(n_groups);
  return room;
}

void Margins::check(const MarginRow& row, MarginScratch& scratch) const {
  const int32_t owned = *row.owned, n_groups = table_->n_groups();
  if (owned < 0 || owned > n_groups) throw std::invalid_argument("a row has more groups than there are");
  std::ranges::fill(scratch.has, uint8_t{0});
  for (int32_t i = 0; i < owned; ++i) {
    const int32_t g = row.order[i];
    if (g < 0 || g >= n_groups || std::exchange(scratch.has[static_cast<size_t>(g)], uint8_t{1}))
      throw std::invalid_argument("a row has a group twice, or one that does not exist");
  }
  const int32_t next = *row.next;
  const bool sound = next == kUndecided || next == kFinished ||
                     (next >= 0 && next < n_groups && candidate_[static_cast<size_t>(next)]);
  if (!sound) throw std::invalid_argument("the next group of a row is none to choose from");
}

void Margins::choose(const MarginRow& row, MarginScratch& scratch) const noexcept {
  if (*row.next != kUndecided) return;
  MarginRow known = row;
  prepare(known, scratch);
  decide(known, scratch);
}

void Margins::proceed(const MarginRow& row, int64_t purchases, MarginScratch& scratch) const noexcept {
  if (purchases < 1 || *row.next == kFinished) return;
  MarginRow known = row;
  prepare(known, scratch);
  for (int64_t t = 0; t < purchases; ++t) {
    decide(known, scratch);
    if (*known.next == kFinished) return;
    buy(known, scratch);
  }
}

// What the row has, and its sums: kept with it, or made again in the order in which they came about.
void Margins::prepare(MarginRow& row, MarginScratch& scratch) const noexcept {
  const bool kept = row.margins != nullptr && row.distances != nullptr;
  if (!kept) {
    row.margins = scratch.margins.data();
    row.distances = scratch.distances.data();
  }
  if (!kept || *row.owned == 0) {
    std::ranges::copy(start_, row.margins);
    std::fill_n(row.distances, start_.size(), 0.0);
  }
  std::ranges::fill(scratch.has, uint8_t{0});
  for (int32_t i = 0; i < *row.owned; ++i) {
    scratch.has[static_cast<size_t>(row.order[i])] = 1;
    if (!kept) add(row, row.order[i]);
  }
}

void Margins::decide(const MarginRow& row, MarginScratch& scratch) const noexcept {
  if (*row.next != kUndecided) return;
  const bool fresh = *row.owned == 0;
  if (!fresh && !rules_.refresh && *row.estimate > rules_.enough) {
    *row.next = kFinished;
    return;
  }
  if (fresh) {
    scratch.right = first_right_;
  } else {
    find_neighbours(row, scratch);
    count_right(row.margins, scratch);
  }
  const double size = static_cast<double>(fresh ? start_.size() : scratch.near.size());
  if (fresh || rules_.refresh) *row.estimate = static_cast<double>(scratch.right.back()) / size;
  *row.next = kFinished;
  if (!fresh && *row.estimate > rules_.enough) return;
  const int32_t chosen = fresh ? first_ : best(scratch);
  if (chosen == kFinished) return;
  *row.next = rules_.random ? any(row, scratch) : chosen;
  *row.promise = static_cast<double>(scratch.right[static_cast<size_t>(*row.next)]) / size;
}

void Margins::buy(const MarginRow& row, MarginScratch& scratch) const noexcept {
  for (const int32_t g : table_->closure(*row.next)) {
    if (scratch.has[static_cast<size_t>(g)]) continue;
    scratch.has[static_cast<size_t>(g)] = 1;
    row.order[(*row.owned)++] = g;
    add(row, g);
  }
  *row.next = kUndecided;
  // Where neighbours are not found anew, their share on the right side is what it was said to become.
  if (!rules_.refresh) *row.estimate = *row.promise;
}

void Margins::add(const MarginRow& row, int32_t group) const noexcept {
  const size_t n = start_.size(), g = static_cast<size_t>(group);
  const double* added = by_group_.data() + g * n;
  for (size_t l = 0; l < n; ++l) row.margins[l] += added[l];
  for (const int32_t j : columns_[g]) {
    const double here = row.coordinates[j];
    if (std::isnan(here)) continue;
    const double* there = coordinates_.data() + static_cast<size_t>(j) * n;
    for (size_t l = 0; l < n; ++l) {
      const double apart = here - there[l];
      row.distances[l] += apart * apart;
    }
  }
}

void Margins::find_neighbours(const MarginRow& row, MarginScratch& scratch) const noexcept {
  scratch.near.clear();
  if (rules_.neighbourhood != Neighbourhood::kNearest) {
    const double reach = rules_.neighbourhood == Neighbourhood::kExact ? 0.0 : rules_.radius * rules_.radius;
    for (size_t l = 0; l < start_.size(); ++l)
      if (row.distances[l] <= reach) scratch.near.push_back(static_cast<int32_t>(l));
  }
  if (scratch.near.empty()) find_nearest(row.distances, scratch);
}

// The n_neighbours least distances; of equal ones those of the first points.
void Margins::find_nearest(const double* distances, MarginScratch& scratch) const noexcept {
  const size_t n = start_.size(), k = std::min(n, static_cast<size_t>(rules_.n_neighbours));
  std::copy_n(distances, n, scratch.sorted.begin());
  const auto last = scratch.sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(scratch.sorted.begin(), last, scratch.sorted.end());
  const double bound = *last;
  size_t nearer = 0;
  for (size_t l = 0; l < n; ++l) nearer += distances[l] < bound;
  size_t at_bound = k - nearer;
  for (size_t l = 0; l < n; ++l) {
    if (distances[l] < bound) {
      scratch.near.push_back(static_cast<int32_t>(l));
    } else if (distances[l] == bound && at_bound > 0) {
      scratch.near.push_back(static_cast<int32_t>(l));
      --at_bound;
    }
  }
}

// right[g]: neighbours on the right side once the row has group g and what it requires; right[G]: now.
void Margins::count_right(const double* margins, MarginScratch& scratch) const noexcept {
  const size_t n_groups = columns_.size();
  std::ranges::fill(scratch.right, 0);
  int64_t* right = scratch.right.data();
  for (const int32_t l : scratch.near) {
    const double margin = margins[l];
    const double* added = contributions_.data() + static_cast<size_t>(l) * n_groups;
    right[n_groups] += margin > 0.0;
    for (size_t g = 0; g < n_groups; ++g) right[g] += margin + added[g] > 0.0;
  }
  for (const int32_t g : dependent_) {
    scratch.added.clear();
    for (const int32_t h : table_->closure(g))
      if (!scratch.has[static_cast<size_t>(h)]) scratch.added.push_back(h);
    if (scratch.added.size() < 2) continue;
    int64_t count = 0;
    for (const int32_t l : scratch.near) {
      const double* added = contributions_.data() + static_cast<size_t>(l) * n_groups;
      double margin = margins[l];
      for (const int32_t h : scratch.added) margin += added[h];
      count += margin > 0.0;
    }
    right[g] = count;
  }
}

int64_t Margins::missing_price(int32_t group, const std::vector<uint8_t>& has) const noexcept {
  int64_t ticks = 0;
  for (const int32_t h : table_->closure(group))
    if (!has[static_cast<size_t>(h)]) ticks += table_->own_price(h);
  return ticks;
}

// The candidate of most accuracy for its price; of equals the cheapest, then the first.
int32_t Margins::best(const MarginScratch& scratch) const noexcept {
  const double size = static_cast<double>(scratch.near.size());
  int32_t found = kFinished;
  double most = 0.0;
  int64_t price = 0;
  for (int32_t g = 0; g < table_->n_groups(); ++g) {
    if (!candidate_[static_cast<size_t>(g)] || scratch.has[static_cast<size_t>(g)]) continue;
    const int64_t ticks = missing_price(g, scratch.has);
    const double share = static_cast<double>(scratch.right[static_cast<size_t>(g)]) / size;
    const double value = share - rules_.tick_weight * static_cast<double>(ticks);
    if (found == kFinished || value > most || (value == most && ticks < price)) {
      found = g;
      most = value;
      price = ticks;
    }
  }
  return found;
}

// A candidate drawn by what is known of the row, so that it does not depend on the company it comes in.
int32_t Margins::any(const MarginRow& row, const MarginScratch& scratch) const noexcept {
  uint64_t hash = mixed(rules_.seed, 0);
  for (int32_t i = 0; i < *row.owned; ++i)
    for (const int32_t j : columns_[static_cast<size_t>(row.order[i])])
      hash = mixed(hash, std::bit_cast<uint64_t>(row.coordinates[j]));
  const auto open = [&](int32_t g) {
    return candidate_[static_cast<size_t>(g)] && !scratch.has[static_cast<size_t>(g)];
  };
  uint64_t left = 0;
  for (int32_t g = 0; g < table_->n_groups(); ++g) left += open(g);
  uint64_t drawn = hash % left;
  for (int32_t g = 0; g < table_->n_groups(); ++g)
    if (open(g) && drawn-- == 0) return g;
  return kFinished;
}

}  // namespace anytime
