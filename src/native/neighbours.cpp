#include "neighbours.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "threads.hpp"
#include "wide.hpp"

namespace anytime {
namespace {

constexpr int64_t kBeginning = 2000;    // points by which the first purchase is decided
constexpr size_t kTogether = 64;        // rows with the same groups that one thread takes
constexpr size_t kMostKept = 1u << 22;  // losses that a thread keeps of points for rows with the same groups
constexpr size_t kFew = 8;              // rows for which it is not worth to keep them
constexpr int64_t kRowsAtOnce = 4, kVector = 16;

void check_size(size_t found, size_t expected, const char* name) {
  if (found == expected) return;
  throw std::invalid_argument(std::string(name) + " has " + std::to_string(found) + " entries, expected " +
                              std::to_string(expected));
}

void check_finite(std::span<const float> numbers, const char* name) {
  if (!std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); }))
    throw std::invalid_argument(std::string(name) + " must be finite");
}

// sums (k) += factor times terms (k)
ANYTIME_WIDE void add_scaled(float factor, const float* __restrict terms, int64_t k,
                             float* __restrict sums) noexcept {
  for (int64_t c = 0; c < k; ++c) sums[c] += factor * terms[c];
}

typedef float Eight __attribute__((vector_size(32)));  // numbers that are multiplied and added in one go

// out (4, k) = bias + left (4, m) times right (m, k), k a multiple of kVector; each sum from first to last
ANYTIME_WIDE void layer(const float* __restrict left, int64_t m, const float* __restrict right,
                        const float* __restrict bias, int64_t k, float* __restrict out) noexcept {
  for (int64_t from = 0; from < k; from += kVector) {
    Eight a0, b0, a, b;
    std::memcpy(&a0, bias + from, sizeof a0);
    std::memcpy(&b0, bias + from + 8, sizeof b0);
    Eight a1 = a0, b1 = b0, a2 = a0, b2 = b0, a3 = a0, b3 = b0;
    for (int64_t j = 0; j < m; ++j) {
      std::memcpy(&a, right + j * k + from, sizeof a);
      std::memcpy(&b, right + j * k + from + 8, sizeof b);
      const float l0 = left[j], l1 = left[m + j], l2 = left[2 * m + j], l3 = left[3 * m + j];
      a0 += l0 * a;
      b0 += l0 * b;
      a1 += l1 * a;
      b1 += l1 * b;
      a2 += l2 * a;
      b2 += l2 * b;
      a3 += l3 * a;
      b3 += l3 * b;
    }
    const Eight sums[] = {a0, b0, a1, b1, a2, b2, a3, b3};
    for (int64_t r = 0; r < kRowsAtOnce; ++r)
      std::memcpy(out + r * k + from, sums + 2 * r, kVector * sizeof(float));
  }
}

ANYTIME_WIDE void rectify(float* values, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) values[i] = std::max(values[i], 0.0f);
}

// Rows of `from` numbers become rows of `to`; those that are filled in are 0.
std::vector<float> widened(const std::vector<float>& values, int64_t from, int64_t to) {
  const auto rows = static_cast<int64_t>(values.size()) / from;
  std::vector<float> out(static_cast<size_t>(rows * to), 0.0f);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(values.begin() + r * from, from, out.begin() + r * to);
  return out;
}

ANYTIME_WIDE void add_squares(float here, const float* __restrict there, int64_t n,
                              float* __restrict distances) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    const float apart = here - there[i];
    distances[i] += apart * apart;
  }
}

}  // namespace

// ---------------------------------------------------------------------- networks

void MaskedNets::check() const {
  for (const int64_t size : {n_folds, first, second, n_outputs})
    if (size < 1) throw std::invalid_argument("a network needs folds, units and outputs");
  const auto of = [&](int64_t rows, int64_t columns) {
    return static_cast<size_t>(n_folds) * static_cast<size_t>(rows) * static_cast<size_t>(columns);
  };
  check_size(w1.size(), of(n_inputs + n_groups, first), "w1");
  check_size(b1.size(), of(1, first), "b1");
  check_size(w2.size(), of(first, second), "w2");
  check_size(b2.size(), of(1, second), "b2");
  check_size(w3.size(), of(second, n_outputs), "w3");
  check_size(b3.size(), of(1, n_outputs), "b3");
  for (const auto* part : {&w1, &b1, &w2, &b2, &w3, &b3}) check_finite(*part, "weights");
}

void MaskedNets::add_group(int64_t fold, int32_t group, std::span<const int32_t> own, const float* inputs,
                           float* sums) const noexcept {
  const float* weights = w1.data() + fold * (n_inputs + n_groups) * first;
  for (const int32_t j : own) add_scaled(inputs[j], weights + j * first, first, sums);
  add_scaled(1.0f, weights + (n_inputs + group) * first, first, sums);
}

// Units that are filled in have no weights before or behind them: they add nothing.
void MaskedNets::prepare() {
  wide_second = (second + kVector - 1) / kVector * kVector;
  wide_outputs = (n_outputs + kVector - 1) / kVector * kVector;
  w2 = widened(w2, second, wide_second);
  b2 = widened(b2, second, wide_second);
  w3 = widened(widened(w3, n_outputs, wide_outputs), second * wide_outputs, wide_second * wide_outputs);
  b3 = widened(b3, n_outputs, wide_outputs);
}

void MaskedNets::leave(int64_t fold, float* hidden, int64_t n, float* room, float* out) const noexcept {
  const float* v2 = w2.data() + fold * first * wide_second;
  const float* v3 = w3.data() + fold * wide_second * wide_outputs;
  const float *a2 = b2.data() + fold * wide_second, *a3 = b3.data() + fold * wide_outputs;
  for (int64_t i = 0; i < n; i += kRowsAtOnce) {
    rectify(hidden + i * first, kRowsAtOnce * first);
    layer(hidden + i * first, first, v2, a2, wide_second, room);
    rectify(room, kRowsAtOnce * wide_second);
    layer(room, wide_second, v3, a3, wide_outputs, out + i * wide_outputs);
  }
}

// ---------------------------------------------------------------------- reference points

struct Neighbours::Outlook {
  GroupSets singles, larger;
  std::vector<double> gains, larger_gains;
};

struct Neighbours::Room {
  Room(const Neighbours& of, bool keeps)
      : distances(of.fold_.size()), sorted(of.fold_.size()), seen(keeps ? of.fold_.size() : 0, 0) {
    const auto groups = static_cast<size_t>(of.table_->n_groups()),
               first = static_cast<size_t>(of.nets_.first);
    near.reserve(static_cast<size_t>(std::max(of.n_near(), kBeginning)));
    added.resize(groups * first);
    base.resize(first);
    layers.resize(static_cast<size_t>(kRowsAtOnce * of.nets_.wide_second));
    if (keeps && of.fold_.size() * (groups + 1) <= kMostKept)
      kept = std::make_unique_for_overwrite<float[]>(of.fold_.size() * (groups + 1));
  }
  void fit(size_t n_sets, size_t first, size_t outputs) {
    const size_t rows = (n_sets + 1 + kRowsAtOnce) / kRowsAtOnce * kRowsAtOnce;
    if (hidden.size() < rows * first) hidden.resize(rows * first);
    if (out.size() < rows * outputs) out.resize(rows * outputs);
    if (each.size() < n_sets + 1) each.resize(n_sets + 1);
  }

  std::vector<float> distances, sorted, added, base, layers, hidden, out, each;
  std::vector<int32_t> near;
  std::unique_ptr<float[]>
      kept;  // losses of points for the single groups of `of_set`, where they were `seen`
  std::vector<uint8_t> of_set, seen;
  std::vector<double> squares;
};

Neighbours::Neighbours(std::shared_ptr<const CostTable> table, MaskedNets nets, std::span<const float> inputs,
                       std::span<const int32_t> input_group, int64_t n_measured,
                       std::span<const int32_t> fold, std::span<const int32_t> labels,
                       std::span<const float> values, const NeighbourRules& rules)
    : table_(std::move(table)),
      nets_(std::move(nets)),
      inputs_(inputs.begin(), inputs.end()),
      fold_(fold.begin(), fold.end()),
      labels_(labels.begin(), labels.end()),
      values_(values.begin(), values.end()),
      inputs_of_(static_cast<size_t>(table_->n_groups())),
      rules_(rules) {
  nets_.check();
  nets_.prepare();
  const size_t n = fold_.size(), m = static_cast<size_t>(nets_.n_inputs);
  if (n == 0) throw std::invalid_argument("there must be reference points");
  if (n > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw std::invalid_argument("there are too many reference points");
  if (rules.n_neighbours < 1 || rules.look_ahead < 0 || !(rules.price_power >= 0.0) ||
      !(rules.floor >= 0.0 && rules.floor < 1.0))
    throw std::invalid_argument("n_neighbours must be at least 1, look_ahead and floor not negative");
  if (nets_.n_groups != table_->n_groups()) throw std::invalid_argument("the networks are of other groups");
  check_size(inputs_.size(), n * m, "inputs");
  check_size(input_group.size(), m, "input_group");
  check_finite(inputs_, "inputs");
  check_finite(values_, "values");
  if (labels_.empty()) {
    check_size(values_.size(), n * static_cast<size_t>(nets_.n_outputs), "values");
  } else {
    check_size(labels_.size(), n, "labels");
    for (const int32_t label : labels_)
      if (label < 0 || label >= nets_.n_outputs) throw std::invalid_argument("there is no such label");
  }
  for (const int32_t f : fold_)
    if (f < 0 || f >= nets_.n_folds) throw std::invalid_argument("there is no such fold");
  for (size_t j = 0; j < m; ++j) {
    table_->check_group(input_group[j]);
    inputs_of_[static_cast<size_t>(input_group[j])].push_back(static_cast<int32_t>(j));
  }
  if (n_measured < 0 || n_measured > nets_.n_inputs)
    throw std::invalid_argument("there are not so many inputs to measure");
  n_measured_ = static_cast<int32_t>(n_measured);
  by_input_.resize(n * static_cast<size_t>(n_measured));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < static_cast<size_t>(n_measured); ++j) by_input_[j * n + i] = inputs_[i * m + j];
}

// Before the first purchase all rows are alike. Pairs and triples are tried whatever single groups gain.
const Neighbours::Outlook& Neighbours::beginning() const {
  std::call_once(begun_, [this] {
    const std::vector<uint8_t> nothing(static_cast<size_t>(table_->n_groups()), 0);
    const NeighbourRow row{nullptr, nothing.data(), nothing.data(), std::numeric_limits<int64_t>::max(), -1};
    Room room(*this, false);
    const int64_t n = n_points(), some = std::min(n, kBeginning);
    for (int64_t i = 0; i < some; ++i) room.near.push_back(static_cast<int32_t>(i * n / some));
    auto outlook = std::make_shared<Outlook>();
    outlook->singles = singles_of(nothing.data());
    measure(row, outlook->singles, false, room, outlook->gains);
    look_ahead(row, room, *outlook);
    beginning_ = std::move(outlook);
  });
  return *beginning_;
}

// ---------------------------------------------------------------------- sets of groups

void Neighbours::append(const uint8_t* owned, std::span<const int32_t> groups, int32_t first,
                        GroupSets& sets) const {
  int64_t price = 0;
  for (const int32_t g : table_->closed_union(groups)) {
    if (owned[g]) continue;
    sets.members.push_back(g);
    price += table_->own_price(g);
  }
  sets.start.push_back(sets.members.size());
  sets.first.push_back(first);
  sets.price.push_back(price);
}

GroupSets Neighbours::singles_of(const uint8_t* owned) const {
  GroupSets sets;
  for (int32_t g = 0; g < table_->n_groups(); ++g)
    if (!owned[g] && !inputs_of_[static_cast<size_t>(g)].empty()) append(owned, {&g, 1}, g, sets);
  return sets;
}

bool Neighbours::can_have(const NeighbourRow& row, const GroupSets& sets, size_t set) const noexcept {
  if (sets.price[set] > row.left) return false;
  return std::ranges::none_of(sets.of(set), [&](int32_t g) { return row.barred[g] != 0; });
}

bool Neighbours::can_have_any(const NeighbourRow& row, const GroupSets& sets) const noexcept {
  for (size_t s = 0; s < sets.size(); ++s)
    if (can_have(row, sets, s)) return true;
  return false;
}

// Of what does harm, the cheaper is the better.
double Neighbours::rate(double gain, int64_t price) const noexcept {
  const double weighed = std::pow(static_cast<double>(std::max<int64_t>(price, 1)), rules_.price_power);
  return gain > 0 ? gain / weighed : gain * weighed;
}

// ---------------------------------------------------------------------- losses

float Neighbours::loss(int32_t point, const float* out) const noexcept {
  const auto k = static_cast<size_t>(nets_.n_outputs);
  if (labels_.empty()) {
    float sum = 0.0f;
    for (size_t c = 0; c < k; ++c) {
      const float off = out[c] - values_[static_cast<size_t>(point) * k + c];
      sum += off * off;
    }
    return sum;
  }
  const float top = *std::max_element(out, out + k);
  float sum = 0.0f;
  for (size_t c = 0; c < k; ++c) sum += std::exp(out[c] - top);
  const float true_class = std::exp(out[labels_[static_cast<size_t>(point)]] - top) / sum;
  return -std::log(std::max(true_class + static_cast<float>(rules_.floor), 1e-30f));
}

// out (1 + sets): the loss of a point by what a row owns, and with each of the sets.
void Neighbours::losses(int32_t point, const uint8_t* owned, const GroupSets& sets, Room& room,
                        float* out) const {
  const auto i = static_cast<size_t>(point), first = static_cast<size_t>(nets_.first);
  const int64_t fold = fold_[i];
  const float* inputs = inputs_.data() + i * static_cast<size_t>(nets_.n_inputs);
  std::copy_n(nets_.b1.data() + fold * nets_.first, first, room.base.data());
  for (int32_t g = 0; g < table_->n_groups(); ++g) {
    float* sums = room.added.data() + static_cast<size_t>(g) * first;
    if (owned[g]) {
      sums = room.base.data();
    } else {
      std::fill_n(sums, first, 0.0f);
    }
    nets_.add_group(fold, g, inputs_of_[static_cast<size_t>(g)], inputs, sums);
  }
  room.fit(sets.size(), first, static_cast<size_t>(nets_.wide_outputs));
  float* hidden = room.hidden.data();
  std::ranges::copy(room.base, hidden);
  for (size_t s = 0; s < sets.size(); ++s) {
    float* sums = hidden + (s + 1) * first;
    std::ranges::copy(room.base, sums);
    for (const int32_t g : sets.of(s))
      add_scaled(1.0f, room.added.data() + static_cast<size_t>(g) * first, nets_.first, sums);
  }
  nets_.leave(fold, hidden, static_cast<int64_t>(sets.size()) + 1, room.layers.data(), room.out.data());
  for (size_t s = 0; s <= sets.size(); ++s)
    out[s] = loss(point, room.out.data() + s * static_cast<size_t>(nets_.wide_outputs));
}

// By how much each set lowers the mean loss of the points near a row; room.squares: the mean square of that.
void Neighbours::measure(const NeighbourRow& row, const GroupSets& sets, bool keep, Room& room,
                         std::vector<double>& gains) const {
  gains.assign(sets.size(), 0.0);
  room.squares.assign(sets.size(), 0.0);
  room.fit(sets.size(), static_cast<size_t>(nets_.first), static_cast<size_t>(nets_.wide_outputs));
  for (const int32_t point : room.near) {
    const float* each = room.each.data();
    if (keep && room.kept != nullptr) {
      float* kept =
          room.kept.get() + static_cast<size_t>(point) * (static_cast<size_t>(table_->n_groups()) + 1);
      if (!std::exchange(room.seen[static_cast<size_t>(point)], uint8_t{1}))
        losses(point, row.owned, sets, room, kept);
      each = kept;
    } else {
      losses(point, row.owned, sets, room, room.each.data());
    }
    for (size_t s = 0; s < sets.size(); ++s) {
      const double fall = static_cast<double>(each[0]) - static_cast<double>(each[s + 1]);
      gains[s] += fall;
      room.squares[s] += fall * fall;
    }
  }
  const double size = static_cast<double>(room.near.size());
  for (double& gain : gains) gain /= size;
  for (double& square : room.squares) square /= size;
}

// The points nearest to a row on what it owns; of equal ones the first.
void Neighbours::find_near(const NeighbourRow& row, Room& room) const {
  const size_t n = fold_.size();
  std::ranges::fill(room.distances, 0.0f);
  for (int32_t g = 0; g < table_->n_groups(); ++g) {
    if (!row.owned[g]) continue;
    for (const int32_t j : inputs_of_[static_cast<size_t>(g)])
      if (j < n_measured_)
        add_squares(row.inputs[j], by_input_.data() + static_cast<size_t>(j) * n, static_cast<int64_t>(n),
                    room.distances.data());
  }
  if (row.own >= 0) room.distances[static_cast<size_t>(row.own)] = std::numeric_limits<float>::infinity();
  const size_t k = static_cast<size_t>(n_near());
  std::ranges::copy(room.distances, room.sorted.begin());
  const auto last = room.sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(room.sorted.begin(), last, room.sorted.end());
  const float bound = *last;
  size_t at_bound = k;
  for (const float distance : room.distances) at_bound -= distance < bound;
  room.near.clear();
  for (size_t i = 0; i < n; ++i) {
    if (room.distances[i] < bound) {
      room.near.push_back(static_cast<int32_t>(i));
    } else if (room.distances[i] == bound && at_bound > 0) {
      room.near.push_back(static_cast<int32_t>(i));
      --at_bound;
    }
  }
}

// ---------------------------------------------------------------------- a decision

void Neighbours::look(const NeighbourRow& row, const GroupSets& singles, Room& room, Outlook& outlook) const {
  outlook.singles = singles;
  outlook.larger = {};
  outlook.larger_gains.clear();
  find_near(row, room);
  measure(row, singles, true, room, outlook.gains);
  const Purchase best = pick(row, outlook);
  if (best.group < 0 || rules_.look_ahead < 2) return;
  const auto s = static_cast<size_t>(std::ranges::find(singles.first, best.group) - singles.first.begin());
  const double variance = room.squares[s] - best.gain * best.gain;
  if (best.gain * best.gain * static_cast<double>(room.near.size()) <= variance || best.gain <= 0.0)
    look_ahead(row, room, outlook);
}

// Pairs of the most promising groups, and the best of these with each of the others.
void Neighbours::look_ahead(const NeighbourRow& row, Room& room, Outlook& outlook) const {
  const GroupSets& singles = outlook.singles;
  const auto rate_of = [&](size_t s) { return rate(outlook.gains[s], singles.price[s]); };
  std::vector<size_t> best;
  for (size_t s = 0; s < singles.size(); ++s)
    if (can_have(row, singles, s)) best.push_back(s);
  std::ranges::stable_sort(best, [&](size_t a, size_t b) { return rate_of(a) > rate_of(b); });
  if (best.size() > static_cast<size_t>(rules_.look_ahead))
    best.resize(static_cast<size_t>(rules_.look_ahead));
  const auto cheapest = [&](std::initializer_list<size_t> members) {  // of equal ones the one that gains more
    return singles.first[*std::ranges::min_element(members, [&](size_t a, size_t b) {
      if (singles.price[a] != singles.price[b]) return singles.price[a] < singles.price[b];
      return outlook.gains[a] != outlook.gains[b] ? outlook.gains[a] > outlook.gains[b] : a < b;
    })];
  };
  std::vector<std::pair<size_t, size_t>> pairs;
  GroupSets sets;
  for (size_t a = 0; a < best.size(); ++a) {
    for (size_t b = a + 1; b < best.size(); ++b) {
      const int32_t both[] = {singles.first[best[a]], singles.first[best[b]]};
      append(row.owned, both, cheapest({best[a], best[b]}), sets);
      pairs.emplace_back(best[a], best[b]);
    }
  }
  if (pairs.empty()) return;
  measure(row, sets, false, room, outlook.larger_gains);
  size_t leading = 0;
  for (size_t p = 1; p < pairs.size(); ++p) {
    const auto of = [&](size_t q) { return rate(outlook.larger_gains[q], sets.price[q]); };
    if (of(p) > of(leading)) leading = p;
  }
  const auto [one, other] = pairs[leading];
  GroupSets triples;
  for (const size_t third : best) {
    if (third == one || third == other) continue;
    const int32_t all[] = {singles.first[one], singles.first[other], singles.first[third]};
    append(row.owned, all, cheapest({one, other, third}), triples);
  }
  std::vector<double> gains;
  measure(row, triples, false, room, gains);
  for (size_t t = 0; t < triples.size(); ++t) {
    for (const int32_t g : triples.of(t)) sets.members.push_back(g);
    sets.start.push_back(sets.members.size());
    sets.first.push_back(triples.first[t]);
    sets.price.push_back(triples.price[t]);
    outlook.larger_gains.push_back(gains[t]);
  }
  outlook.larger = std::move(sets);
}

// The affordable set of the largest gain per price; of equals the cheaper, then the earlier. What is free
// comes first. A row that can have nothing names what it would like best, and what bars it is for others to
// say.
Purchase Neighbours::pick(const NeighbourRow& row, const Outlook& outlook) const noexcept {
  Purchase found;
  double most = 0.0;
  const auto consider = [&](const GroupSets& sets, const std::vector<double>& gains, size_t s) {
    const double here =
        sets.price[s] > 0 ? rate(gains[s], sets.price[s]) : std::numeric_limits<double>::infinity();
    if (found.group >= 0 && (here < most || (here == most && sets.price[s] >= found.price))) return;
    most = here;
    found = {sets.first[s], sets.price[s], gains[s]};
  };
  for (size_t s = 0; s < outlook.singles.size(); ++s)
    if (can_have(row, outlook.singles, s)) consider(outlook.singles, outlook.gains, s);
  for (size_t s = 0; s < outlook.larger.size(); ++s)
    if (can_have(row, outlook.larger, s)) consider(outlook.larger, outlook.larger_gains, s);
  if (found.group >= 0) return found;
  NeighbourRow rich = row;
  rich.left = std::numeric_limits<int64_t>::max();
  for (size_t s = 0; s < outlook.singles.size(); ++s)
    if (can_have(rich, outlook.singles, s)) consider(outlook.singles, outlook.gains, s);
  if (found.group >= 0) return found;
  for (size_t s = 0; s < outlook.singles.size(); ++s) consider(outlook.singles, outlook.gains, s);
  return found;
}

void Neighbours::choose(std::span<const NeighbourRow> rows, std::span<Purchase> out, double* gains,
                        int threads) const {
  const auto n_groups = static_cast<size_t>(table_->n_groups());
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto compare = [&](size_t a, size_t b) {
    return std::memcmp(rows[a].owned, rows[b].owned, n_groups);
  };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return compare(a, b) < 0; });
  std::vector<size_t> starts;
  for (size_t i = 0; i < order.size(); ++i)
    if (i == 0 || i - starts.back() == kTogether || compare(order[i - 1], order[i]) != 0) starts.push_back(i);
  starts.push_back(order.size());

  Team team(threads);
  std::vector<std::unique_ptr<Room>> rooms;
  for (size_t part = 0; part < team.size(); ++part)
    rooms.push_back(std::make_unique<Room>(*this, rows.size() > kFew));
  const std::vector<uint8_t> nothing(n_groups, 0);
  const auto decide = [&](int64_t task, size_t part) {
    const auto begin = starts[static_cast<size_t>(task)], end = starts[static_cast<size_t>(task) + 1];
    Room& room = *rooms[part];
    const uint8_t* owned = rows[order[begin]].owned;
    const bool fresh = std::memcmp(owned, nothing.data(), n_groups) == 0;
    const GroupSets singles = fresh ? GroupSets{} : singles_of(owned);
    if (!room.seen.empty() && !std::ranges::equal(room.of_set, std::span(owned, n_groups))) {
      room.of_set.assign(owned, owned + n_groups);
      std::ranges::fill(room.seen, uint8_t{0});
    }
    Outlook outlook;
    for (size_t i = begin; i < end; ++i) {
      const NeighbourRow& row = rows[order[i]];
      if (!fresh && gains == nullptr &&
          !can_have_any(row, singles)) {  // whatever it names, it does not get it
        outlook.singles = singles;
        outlook.larger = {};
        outlook.gains.assign(singles.size(), 0.0);
        out[order[i]] = pick(row, outlook);
        continue;
      }
      if (!fresh) look(row, singles, room, outlook);
      const Outlook& known = fresh ? beginning() : outlook;
      out[order[i]] = pick(row, known);
      if (gains == nullptr) continue;
      double* own = gains + order[i] * n_groups;
      std::fill_n(own, n_groups, std::numeric_limits<double>::quiet_NaN());
      for (size_t s = 0; s < known.singles.size(); ++s) own[known.singles.first[s]] = known.gains[s];
    }
  };
  std::atomic<bool> no_memory{false};
  team.each(static_cast<int64_t>(starts.size()) - 1, true, [&](int64_t task, size_t part) noexcept {
    try {
      decide(task, part);
    } catch (const std::bad_alloc&) {
      no_memory.store(true, std::memory_order_relaxed);
    }
  });
  if (no_memory.load(std::memory_order_relaxed)) throw std::bad_alloc();
}

void Neighbours::nearest(std::span<const NeighbourRow> rows, int32_t* near, int threads) const {
  Team team(threads);
  std::vector<std::unique_ptr<Room>> rooms;
  for (size_t part = 0; part < team.size(); ++part) rooms.push_back(std::make_unique<Room>(*this, false));
  team.each(static_cast<int64_t>(rows.size()), true, [&](int64_t i, size_t part) noexcept {
    find_near(rows[static_cast<size_t>(i)], *rooms[part]);
    std::ranges::copy(rooms[part]->near, near + i * n_near());
  });
}

void Neighbours::scores(std::span<const NeighbourRow> rows, double* out, int threads) const {
  const auto first = static_cast<size_t>(nets_.first), k = static_cast<size_t>(nets_.wide_outputs);
  Team team(threads);
  constexpr int64_t kChunk = 64;
  const auto n = static_cast<int64_t>(rows.size());
  struct Layers {
    std::vector<float> hidden, layers, out;
  };
  std::vector<Layers> rooms(team.size());
  for (Layers& room : rooms) {
    room.hidden.resize(kChunk * first);
    room.layers.resize(static_cast<size_t>(kRowsAtOnce * nets_.wide_second));
    room.out.resize(kChunk * k);
  }
  team.each((n + kChunk - 1) / kChunk, true, [&](int64_t task, size_t part) noexcept {
    const int64_t begin = task * kChunk, size = std::min(n - begin, kChunk);
    Layers& room = rooms[part];
    std::fill_n(out + begin * nets_.n_outputs, size * nets_.n_outputs, 0.0);
    for (int64_t fold = 0; fold < nets_.n_folds; ++fold) {
      for (int64_t i = 0; i < size; ++i) {
        float* sums = room.hidden.data() + static_cast<size_t>(i) * first;
        const NeighbourRow& row = rows[static_cast<size_t>(begin + i)];
        std::copy_n(nets_.b1.data() + fold * nets_.first, first, sums);
        for (int32_t g = 0; g < table_->n_groups(); ++g)
          if (row.owned[g]) nets_.add_group(fold, g, inputs_of_[static_cast<size_t>(g)], row.inputs, sums);
      }
      nets_.leave(fold, room.hidden.data(), size, room.layers.data(), room.out.data());
      for (int64_t i = 0; i < size; ++i)
        for (int64_t c = 0; c < nets_.n_outputs; ++c)
          out[(begin + i) * nets_.n_outputs + c] +=
              static_cast<double>(room.out[static_cast<size_t>(i) * k + static_cast<size_t>(c)]) /
              static_cast<double>(nets_.n_folds);
    }
  });
}

}  // namespace anytime
