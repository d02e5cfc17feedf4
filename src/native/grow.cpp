#include "grow.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "grow_histogram.hpp"
#include "grow_prices.hpp"
#include "grow_rows.hpp"
#include "grow_split.hpp"
#include "threads.hpp"

namespace anytime {
namespace {

constexpr int64_t kRowsPerThread = 8192, kNumbersPerThread = 16384;
constexpr size_t kHistogramBytes = size_t{256} << 20;  // kept for subtraction
constexpr size_t kPoolBytes = size_t{64} << 20;        // kept from one tree to the next
constexpr double kNever = -std::numeric_limits<double>::infinity();

// Memory of histograms of earlier trees, one pool per thread. Pages that are new to the process cost several
// times as much as the sums that are put into them.
using Histograms = std::vector<std::vector<int64_t>>;

Histograms& pool() {
  thread_local Histograms kept;
  return kept;
}

// Rows to learn from.
struct RowList {
  std::unique_ptr<int32_t[]> rows;
  size_t size = 0;
  bool all = false;  // all rows, in their order

  std::span<const int32_t> span() const noexcept { return {rows.get(), size}; }
};

struct Leaf {
  int32_t node = 0;
  int64_t begin = 0, end = 0;  // of the row list
  int64_t count = 0;           // rows of all peers
  int64_t depth = 0;
  std::vector<int64_t> total{};
  std::vector<int64_t> histogram{};  // empty: not kept. Of several peers each has the sums of its share
  std::vector<Split> splits{};       // best of each column that may split here; empty: none can
  std::vector<int64_t> lefts{};      // with peers: what goes left in each of these splits
  int32_t best = -1;                 // position among the columns
  double score = kNever;
  double floor = 0.0;  // gains up to this may be rounding

  int64_t n_rows() const noexcept { return end - begin; }
};

class Grower {
 public:
  Grower(const Bins& bins, const GrowTargets& targets, RowList rows, std::vector<int32_t> columns,
         const GrowPrices& prices, const GrowOptions& options, Team& team, Peers* peers)
      : bins_(bins),
        options_(options),
        team_(team),
        peers_(peers),
        list_(std::move(rows)),
        columns_(std::move(columns)),
        rows_(targets, bins.n_rows(), list_.span(), list_.all, !targets.newton && options.l2 == 0.0, team,
              peers),
        scale_(options.mean_scale ? 1.0 / static_cast<double>(rows_.count()) : 0.5),
        plan_(bins, rows_, wanted_slots()),
        purse_(prices, options.penalty, bins.cuts().n_columns()) {
    int64_t most_bins = 2;
    for (const int32_t j : columns_) most_bins = std::max<int64_t>(most_bins, bins.cuts()[j].n_bins());
    for (size_t part = 0; part < team.size(); ++part) {
      searches_.emplace_back(rows_.channels(), options_, scale_, most_bins);
      if (!bins.wide()) continue;
      column_sums_.emplace_back(static_cast<size_t>(most_bins) * width());
      touched_.emplace_back(
          static_cast<size_t>(std::min<int64_t>(most_bins, static_cast<int64_t>(list_.size))));
    }
    side_.resize(bins.wide() ? size_t{65536} : size_t{256});
    if (peers != nullptr) {
      if (bins.wide())
        throw std::invalid_argument("columns of more than 256 bins have no histograms to add up");
      share_ = plan_.shares(peers->size());
    }
    shelf_ = std::exchange(pool(), {});
  }
  ~Grower() {
    for (Leaf& leaf : leaves_) shelve(leaf.histogram);
    size_t bytes = 0;
    const auto too_many = std::find_if(shelf_.begin(), shelf_.end(), [&](const auto& histogram) {
      bytes += histogram.capacity() * sizeof(int64_t);
      return bytes > kPoolBytes;
    });
    shelf_.erase(too_many, shelf_.end());
    pool() = std::move(shelf_);
  }
  Grower(const Grower&) = delete;
  Grower& operator=(const Grower&) = delete;

  GrownTree grow(std::span<int32_t> leaf);

 private:
  size_t width() const noexcept { return static_cast<size_t>(rows_.channels().width); }
  std::span<const int32_t> rows_of(const Leaf& leaf) const noexcept {
    return list_.span().subspan(static_cast<size_t>(leaf.begin), static_cast<size_t>(leaf.n_rows()));
  }
  std::vector<uint8_t> wanted_slots() const {
    std::vector<uint8_t> wanted(static_cast<size_t>(bins_.n_slots()));
    for (const int32_t j : columns_) wanted[static_cast<size_t>(bins_.place(j).slot)] = 1;
    return wanted;
  }
  bool may_split(const Leaf& leaf) const noexcept {
    return (options_.max_depth == 0 || leaf.depth < options_.max_depth) &&
           leaf.count >= 2 * std::max<int64_t>(1, options_.min_rows) && !columns_.empty();
  }
  // Which peer adds up the column.
  size_t owner(int32_t column) const noexcept {
    const size_t at = plan_.first(bins_.place(column).slot);
    return static_cast<size_t>(std::upper_bound(share_.begin(), share_.end(), at) - share_.begin()) - 1;
  }

  std::vector<int64_t> sum_rows(std::span<const int32_t> rows) const;
  std::vector<int64_t> root_total(const Leaf& root);
  void split(size_t at);
  int64_t partition(const Leaf& leaf, int32_t slot);
  template <class Value>
  int64_t partition_by(const Leaf& leaf, const Value* values);
  std::vector<int64_t> left_total(const Leaf& parent, const Leaf& left, int32_t slot) const;
  void open_children(Leaf& parent, Leaf& left, Leaf& right);
  void build(Leaf& leaf, int64_t* larger);
  void tell_splits(std::span<Leaf* const> leaves);
  void shelve(std::vector<int64_t>& histogram);
  void search(std::span<Leaf* const> leaves, const std::vector<Split>& above);
  void collect(const Leaf& leaf, int32_t column, size_t part) noexcept;
  void collect_wide(const Leaf& leaf, int32_t column, size_t part) noexcept;
  void mark_left(int32_t column, const Split& split);
  void rate(Leaf& leaf) const noexcept;
  void answer(const Leaf& leaf, double* value) const noexcept;

  const Bins& bins_;
  const GrowOptions& options_;
  Team& team_;
  Peers* peers_;               // null: all rows are here
  std::vector<size_t> share_;  // where the histogram's share of each peer begins
  RowList list_;               // those of a leaf together
  std::unique_ptr<int32_t[]> room_;
  int32_t* moved_ = nullptr;  // scratch of partition
  std::vector<int32_t> columns_;
  GrowRows rows_;
  double scale_;
  HistogramPlan plan_;
  Purse purse_;
  std::vector<SplitSearch> searches_;              // one per thread
  std::vector<std::vector<int64_t>> column_sums_;  // one per thread, all zero between uses
  std::vector<std::vector<int32_t>> touched_;      // one per thread
  std::vector<uint8_t> side_;                      // by slot value: 1 goes left
  std::vector<Leaf> leaves_;
  Histograms shelf_;  // to use again
  size_t kept_ = 0;   // histograms of leaves
  GrownTree tree_;
};

GrownTree Grower::grow(std::span<int32_t> leaf_of_row) {
  moved_ = leaf_of_row.data();  // free until the leaves are known
  if (list_.size > leaf_of_row.size()) {
    room_ = std::make_unique_for_overwrite<int32_t[]>(list_.size);
    moved_ = room_.get();
  }
  tree_.cuts = bins_.shared_cuts();
  tree_.n_outputs = rows_.channels().n_outputs;
  tree_.nodes.emplace_back();
  Leaf root{.end = static_cast<int64_t>(list_.size), .count = rows_.count()};
  if (may_split(root) && options_.max_leaves != 1) {
    if (!bins_.wide()) build(root, nullptr);
    root.total = peers_ == nullptr ? root_total(root) : sum_rows(list_.span());
    Leaf* const open[] = {&root};
    search(open, {});
    kept_ = !root.histogram.empty();
  } else {
    root.total = sum_rows(list_.span());
  }
  leaves_.push_back(std::move(root));
  while (options_.max_leaves == 0 || static_cast<int64_t>(leaves_.size()) < options_.max_leaves) {
    const auto best = std::max_element(leaves_.begin(), leaves_.end(),
                                       [](const Leaf& a, const Leaf& b) { return a.score < b.score; });
    if (!(best->score > options_.min_gain)) break;
    split(static_cast<size_t>(best - leaves_.begin()));
  }
  std::sort(leaves_.begin(), leaves_.end(), [](const Leaf& a, const Leaf& b) { return a.node < b.node; });
  const auto n_outputs = static_cast<size_t>(tree_.n_outputs);
  tree_.values.resize(leaves_.size() * n_outputs);
  tree_.n_leaves = static_cast<int32_t>(leaves_.size());
  for (size_t number = 0; number < leaves_.size(); ++number) {
    tree_.nodes[static_cast<size_t>(leaves_[number].node)].leaf = static_cast<int32_t>(number);
    answer(leaves_[number], tree_.values.data() + number * n_outputs);
  }
  std::fill(leaf_of_row.begin(), leaf_of_row.end(), GrownTree::kNoLeaf);
  team_.each(static_cast<int64_t>(leaves_.size()), true, [&](int64_t number, size_t) noexcept {
    for (const int32_t row : rows_of(leaves_[static_cast<size_t>(number)]))
      leaf_of_row[static_cast<size_t>(row)] = static_cast<int32_t>(number);
  });
  tree_.ticks = purse_.ticks();
  tree_.bought = purse_.bought();
  return std::move(tree_);
}

std::vector<int64_t> Grower::sum_rows(std::span<const int32_t> rows) const {
  std::vector<std::vector<int64_t>> parts(team_.size(), std::vector<int64_t>(width()));
  const auto n = static_cast<int64_t>(rows.size()), stretches = team_.stretches(n, kRowsPerThread);
  team_.each(stretches, true, [&](int64_t stretch, size_t part) noexcept {
    const int64_t last = n * (stretch + 1) / stretches;
    for (int64_t i = n * stretch / stretches; i < last; ++i)
      rows_.add_to(parts[part].data(), rows[static_cast<size_t>(i)]);
  });
  for (size_t part = 1; part < parts.size(); ++part) {
    for (size_t c = 0; c < width(); ++c) parts[0][c] += parts[part][c];
  }
  if (peers_ != nullptr) peers_->sum(parts[0]);
  return parts[0];
}

std::vector<int64_t> Grower::root_total(const Leaf& root) {
  std::fill(side_.begin(), side_.end(), uint8_t{1});
  return left_total(root, root, bins_.place(columns_.front()).slot);
}

void Grower::split(size_t at) {
  Leaf parent = std::move(leaves_[at]);
  const int32_t column = columns_[static_cast<size_t>(parent.best)];
  const Split& chosen = parent.splits[static_cast<size_t>(parent.best)];
  const int32_t slot = bins_.place(column).slot;
  mark_left(column, chosen);
  const int64_t middle = partition(parent, slot);

  const auto first = static_cast<int32_t>(tree_.nodes.size());
  GrownNode& node = tree_.nodes[static_cast<size_t>(parent.node)];
  node.column = column;
  node.left = first;
  node.right = first + 1;
  node.split = chosen;
  tree_.gain += chosen.gain;
  tree_.nodes.resize(tree_.nodes.size() + 2);

  Leaf left{.node = first, .begin = parent.begin, .end = middle, .depth = parent.depth + 1};
  Leaf right{.node = first + 1, .begin = middle, .end = parent.end, .depth = parent.depth + 1};
  left.total =
      peers_ == nullptr
          ? left_total(parent, left, slot)
          : std::vector<int64_t>(parent.lefts.begin() + parent.best * static_cast<int64_t>(width()),
                                 parent.lefts.begin() + (parent.best + 1) * static_cast<int64_t>(width()));
  right.total = parent.total;
  for (size_t c = 0; c < width(); ++c) right.total[c] -= left.total[c];
  left.count = rows_.channels().count(left.total.data());
  right.count = parent.count - left.count;
  const bool bought = purse_.buy(column);
  kept_ -= !parent.histogram.empty();
  if (options_.max_leaves == 0 || static_cast<int64_t>(leaves_.size()) + 1 < options_.max_leaves) {
    open_children(parent, left, right);
  }
  shelve(parent.histogram);
  leaves_[at] = std::move(left);
  leaves_.push_back(std::move(right));
  if (!bought) return;
  for (Leaf& leaf : leaves_) rate(leaf);
}

// Rows of the leaf that go left first, both sides in their order; where the right side begins.
int64_t Grower::partition(const Leaf& leaf, int32_t slot) {
  return bins_.wide() ? partition_by(leaf, bins_.column<uint16_t>(slot))
                      : partition_by(leaf, bins_.column<uint8_t>(slot));
}

template <class Value>
int64_t Grower::partition_by(const Leaf& leaf, const Value* values) {
  const int64_t n = leaf.n_rows(), stretches = team_.stretches(n, kRowsPerThread);
  int32_t* list = list_.rows.get() + leaf.begin;
  int32_t* moved = moved_ + leaf.begin;
  if (stretches == 1) {
    int64_t lefts = 0, rights = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int32_t row = list[i];
      const bool left = side_[values[row]] != 0;
      list[lefts] = row;
      moved[rights] = row;
      lefts += left;
      rights += !left;
    }
    std::copy_n(moved, rights, list + lefts);
    return leaf.begin + lefts;
  }
  // Each stretch apart, the right ones from its end on backwards; then all to their places.
  std::vector<int64_t> lefts(static_cast<size_t>(stretches) + 1), rights(lefts.size());
  const auto begin = [&](int64_t stretch) { return n * stretch / stretches; };
  team_.each(stretches, true, [&](int64_t stretch, size_t) noexcept {
    int64_t front = begin(stretch), back = begin(stretch + 1) - 1;
    for (int64_t i = begin(stretch); i < begin(stretch + 1); ++i) {
      const int32_t row = list[i];
      const bool left = side_[values[row]] != 0;
      moved[left ? front : back] = row;
      front += left;
      back -= !left;
    }
    lefts[static_cast<size_t>(stretch) + 1] = front - begin(stretch);
    rights[static_cast<size_t>(stretch) + 1] = begin(stretch + 1) - front;
  });
  for (size_t i = 1; i < lefts.size(); ++i) lefts[i] += lefts[i - 1], rights[i] += rights[i - 1];
  const int64_t middle = lefts.back();
  team_.each(stretches, true, [&](int64_t stretch, size_t) noexcept {
    const auto s = static_cast<size_t>(stretch);
    int32_t* front = moved + begin(stretch);
    const int64_t to_left = lefts[s + 1] - lefts[s];
    std::copy_n(front, to_left, list + lefts[s]);
    std::reverse_copy(front + to_left, moved + begin(stretch + 1), list + middle + rights[s]);
  });
  return leaf.begin + middle;
}

std::vector<int64_t> Grower::left_total(const Leaf& parent, const Leaf& left, int32_t slot) const {
  if (parent.histogram.empty()) return sum_rows(rows_of(left));
  std::vector<int64_t> total(width());
  const int64_t* sums = plan_.sums(parent.histogram.data(), slot);
  for (int32_t value = 0; value < bins_.slot_size(slot); ++value) {
    if (side_[static_cast<size_t>(value)] == 0) continue;
    for (size_t c = 0; c < width(); ++c) total[c] += sums[static_cast<size_t>(value) * width() + c];
  }
  return total;
}

void Grower::open_children(Leaf& parent, Leaf& left, Leaf& right) {
  Leaf& small = left.count <= right.count ? left : right;
  Leaf& large = left.count <= right.count ? right : left;
  if (!bins_.wide()) {
    const bool subtract = !parent.histogram.empty() && may_split(large);
    if (subtract) large.histogram = std::move(parent.histogram);
    if (subtract && !may_split(small) && peers_ == nullptr && plan_.are_few(rows_of(small))) {
      plan_.take_off(rows_of(small), large.histogram.data());
    } else if (subtract || may_split(small)) {
      build(small, subtract ? large.histogram.data() : nullptr);
    }
    if (!subtract && may_split(large)) build(large, nullptr);
  }
  std::vector<Leaf*> open;
  for (Leaf* child : {&small, &large}) {
    if (may_split(*child)) open.push_back(child);
  }
  search(open, parent.splits);
  for (Leaf* child : {&small, &large}) {
    if (child->best < 0 || kept_ >= kHistogramBytes / (plan_.size() * sizeof(int64_t) + 1))
      shelve(child->histogram);
    kept_ += !child->histogram.empty();
  }
}

void Grower::build(Leaf& leaf, int64_t* larger) {
  if (!shelf_.empty()) {
    leaf.histogram = std::move(shelf_.back());
    shelf_.pop_back();
  }
  leaf.histogram.resize(plan_.size());
  plan_.build(rows_of(leaf), leaf.histogram.data(), peers_ == nullptr ? larger : nullptr, team_);
  if (peers_ == nullptr) return;
  peers_->sum_apart(leaf.histogram, share_);
  const auto rank = static_cast<size_t>(peers_->rank());
  for (size_t i = share_[rank]; larger != nullptr && i < share_[rank + 1]; ++i)
    larger[i] -= leaf.histogram[i];
}

// Keeps the memory of a histogram that is not needed any more for the next one.
void Grower::shelve(std::vector<int64_t>& histogram) {
  if (!histogram.empty()) shelf_.push_back(std::move(histogram));
  histogram.clear();
}

// The best split of every column in the leaves; `above`, those of the parent, say which columns cannot split
// any more.
void Grower::search(std::span<Leaf* const> leaves, const std::vector<Split>& above) {
  int64_t work = 0;
  for (Leaf* leaf : leaves) {
    leaf->splits.resize(columns_.size());
    leaf->floor = searches_[0].floor(leaf->total.data());
    work += bins_.wide() ? leaf->n_rows() * static_cast<int64_t>(columns_.size())
                         : static_cast<int64_t>(plan_.size());
  }
  const auto n = static_cast<int64_t>(columns_.size()), tasks = n * static_cast<int64_t>(leaves.size());
  team_.each(tasks, work > kNumbersPerThread, [&](int64_t task, size_t part) noexcept {
    Leaf& leaf = *leaves[static_cast<size_t>(task / n)];
    const auto at = static_cast<size_t>(task % n);
    if (!above.empty() && !above[at].possible) return;
    const int32_t column = columns_[at];
    if (peers_ != nullptr && owner(column) != static_cast<size_t>(peers_->rank())) return;
    searches_[part].clear();
    if (bins_.wide())
      collect_wide(leaf, column, part);
    else
      collect(leaf, column, part);
    leaf.splits[at] =
        searches_[part].best(bins_.cuts()[column], {.total = leaf.total.data(), .floor = leaf.floor});
  });
  if (peers_ != nullptr) tell_splits(leaves);
  for (Leaf* leaf : leaves) rate(*leaf);
}

// Everyone learns the splits that each peer has found in its columns, and what goes left there.
void Grower::tell_splits(std::span<Leaf* const> leaves) {
  const size_t lefts = width() * sizeof(int64_t), each = sizeof(Split) + lefts;
  Peers::Bytes message;
  for (Leaf* leaf : leaves) {
    leaf->lefts.resize(columns_.size() * width());
    for (size_t at = 0; at < columns_.size(); ++at) {
      if (owner(columns_[at]) != static_cast<size_t>(peers_->rank())) continue;
      const Split& split = leaf->splits[at];
      std::vector<int64_t> total(width());
      if (split.cut >= 0) {
        mark_left(columns_[at], split);
        total = left_total(*leaf, *leaf, bins_.place(columns_[at]).slot);
      }
      const auto* bytes = reinterpret_cast<const std::byte*>(&split);
      message.insert(message.end(), bytes, bytes + sizeof(Split));
      bytes = reinterpret_cast<const std::byte*>(total.data());
      message.insert(message.end(), bytes, bytes + lefts);
    }
  }
  const std::vector<Peers::Bytes> messages = peers_->gather(message);
  std::vector<size_t> read(messages.size());
  for (Leaf* leaf : leaves) {
    for (size_t at = 0; at < columns_.size(); ++at) {
      const size_t peer = owner(columns_[at]);
      const std::byte* from = messages[peer].data() + read[peer];
      read[peer] += each;
      if (read[peer] > messages[peer].size()) throw std::runtime_error("a peer has told too few splits");
      std::memcpy(&leaf->splits[at], from, sizeof(Split));
      std::memcpy(leaf->lefts.data() + at * width(), from + sizeof(Split), lefts);
    }
  }
}

// Which values of the column's slot go left.
void Grower::mark_left(int32_t column, const Split& split) {
  const int32_t slot = bins_.place(column).slot, missing = bins_.cuts()[column].missing();
  for (int32_t value = 0; value < bins_.slot_size(slot); ++value)
    side_[static_cast<size_t>(value)] = split.goes_left(bins_.bin(column, value), missing);
}

// The sums of a column's bins, out of the leaf's histogram.
void Grower::collect(const Leaf& leaf, int32_t column, size_t part) noexcept {
  SplitSearch& search = searches_[part];
  const BinColumn& binned = bins_.cuts()[column];
  const BinPlace& place = bins_.place(column);
  const Channels& channels = rows_.channels();
  const int64_t* sums = plan_.sums(leaf.histogram.data(), place.slot);
  const auto at = [&](int32_t bin) {
    return sums + static_cast<size_t>(bins_.slot_value(column, bin)) * width();
  };
  const auto take = [&](int32_t bin, const int64_t* from) {
    if (channels.count(from) == 0) return;
    if (bin == binned.missing())
      std::copy_n(from, width(), search.missing());
    else
      search.add(bin, from);
  };
  if (place.first < 0) {
    search.add_all(sums, binned.n_values);
    take(binned.missing(), sums + static_cast<size_t>(binned.missing()) * width());
    return;
  }
  int64_t* rest = search.spare();  // the common bin has what the others of the column have not
  std::copy(leaf.total.begin(), leaf.total.end(), rest);
  for (int32_t bin = 0; bin < binned.n_bins(); ++bin) {
    if (bin == binned.common) continue;
    for (size_t c = 0; c < width(); ++c) rest[c] -= at(bin)[c];
  }
  for (int32_t bin = 0; bin < binned.n_bins(); ++bin) take(bin, bin == binned.common ? rest : at(bin));
}

// The same, straight from the rows: with many bins there are no histograms.
void Grower::collect_wide(const Leaf& leaf, int32_t column, size_t part) noexcept {
  SplitSearch& search = searches_[part];
  const BinColumn& binned = bins_.cuts()[column];
  const Channels& channels = rows_.channels();
  std::vector<int64_t>& sums = column_sums_[part];
  std::vector<int32_t>& touched = touched_[part];
  const uint16_t* values = bins_.column<uint16_t>(bins_.place(column).slot);
  size_t n = 0;
  for (const int32_t row : rows_of(leaf)) {
    const uint16_t bin = values[row];
    int64_t* to = sums.data() + bin * width();
    if (channels.count(to) == 0) touched[n++] = bin;
    rows_.add_to(to, row);
  }
  std::sort(touched.begin(), touched.begin() + static_cast<int64_t>(n));
  for (size_t i = 0; i < n; ++i) {
    int64_t* from = sums.data() + static_cast<size_t>(touched[i]) * width();
    if (touched[i] == binned.missing())
      std::copy_n(from, width(), search.missing());
    else
      search.add(touched[i], from);
    std::fill_n(from, width(), 0);
  }
}

void Grower::rate(Leaf& leaf) const noexcept {
  leaf.best = -1;
  leaf.score = kNever;
  for (size_t j = 0; j < leaf.splits.size(); ++j) {
    if (leaf.splits[j].cut < 0) continue;
    const double score = leaf.splits[j].gain - purse_.fee(columns_[j]);
    if (score > leaf.score) leaf.score = score, leaf.best = static_cast<int32_t>(j);
  }
}

void Grower::answer(const Leaf& leaf, double* value) const noexcept {
  const Channels& channels = rows_.channels();
  const int64_t* total = leaf.total.data();
  int32_t winner = 0;
  double most = kNever;
  for (int32_t k = 0; k < channels.n_outputs; ++k) {
    const double weight = channels.weight(total, k), sum = channels.output(total, k);
    const double centre = channels.centre[static_cast<size_t>(k)];
    value[k] = centre + (weight + options_.l2 > 0.0 ? sum / (weight + options_.l2) : 0.0);
    if (sum + centre * weight > most) most = sum + centre * weight, winner = k;
  }
  if (!options_.vote) return;
  for (int32_t k = 0; k < channels.n_outputs; ++k) value[k] = k == winner ? 1.0 : 0.0;
}

RowList checked_rows(const Bins& bins, const std::optional<std::span<const int64_t>>& rows, Team& team) {
  const size_t n = rows ? rows->size() : static_cast<size_t>(bins.n_rows());
  constexpr auto kMost = static_cast<size_t>(std::numeric_limits<int32_t>::max());
  if (n > kMost || static_cast<size_t>(bins.n_rows()) > kMost)
    throw std::invalid_argument("a tree is grown on at most 2**31 - 1 rows");
  RowList list{.rows = std::make_unique_for_overwrite<int32_t[]>(n), .size = n, .all = !rows};
  if (!rows) {
    team.share(static_cast<int64_t>(n), kRowsPerThread, [&](int64_t first, int64_t last) noexcept {
      for (int64_t i = first; i < last; ++i) list.rows[static_cast<size_t>(i)] = static_cast<int32_t>(i);
    });
    return list;
  }
  for (size_t i = 0; i < n; ++i) {
    const int64_t row = (*rows)[i];
    if (row < 0 || row >= bins.n_rows()) {
      throw std::invalid_argument("rows names row " + std::to_string(row) + "; the data have " +
                                  std::to_string(bins.n_rows()));
    }
    list.rows[i] = static_cast<int32_t>(row);
  }
  return list;
}

}  // namespace

double GrownTree::threshold(const GrownNode& node) const noexcept {
  if (node.column < 0 || node.split.categorical) return 0.0;
  const std::vector<double>& thresholds = (*cuts)[node.column].cuts;
  const auto cut = static_cast<size_t>(node.split.cut);
  return cut < thresholds.size() ? thresholds[cut] : std::numeric_limits<double>::infinity();
}

void GrownTree::find_leaves(const Bins& bins, int threads, std::span<int32_t> leaf) const {
  std::fill(leaf.begin(), leaf.end(), kNoLeaf);
  find_other_leaves(bins, threads, leaf);
}

void GrownTree::find_other_leaves(const Bins& bins, int threads, std::span<int32_t> leaf) const {
  if (bins.shared_cuts() != cuts)
    throw std::invalid_argument("the data were not binned by the cuts of the tree's data");
  Team team(bins.n_rows() < 2 * kRowsPerThread ? 1 : threads);
  team.share(bins.n_rows(), kRowsPerThread, [&](int64_t first, int64_t last) noexcept {
    for (int64_t row = first; row < last; ++row) {
      if (leaf[static_cast<size_t>(row)] != kNoLeaf) continue;
      const GrownNode* node = nodes.data();
      while (node->column >= 0) {
        const int32_t bin = bins.bin(node->column, bins.value(row, bins.place(node->column).slot));
        const bool left = node->split.goes_left(bin, (*cuts)[node->column].missing());
        node = nodes.data() + (left ? node->left : node->right);
      }
      leaf[static_cast<size_t>(row)] = node->leaf;
    }
  });
}

GrownTree grow(const Bins& bins, const GrowTargets& targets, std::optional<std::span<const int64_t>> rows,
               std::optional<std::span<const uint8_t>> columns, const GrowPrices& prices,
               const GrowOptions& options, std::span<int32_t> leaf, Peers* peers) {
  std::vector<int32_t> allowed;
  for (int32_t j = 0; j < bins.cuts().n_columns(); ++j) {
    if (!columns || (*columns)[static_cast<size_t>(j)] != 0) allowed.push_back(j);
  }
  Team team(options.threads);
  GrownTree tree =
      Grower(bins, targets, checked_rows(bins, rows, team), std::move(allowed), prices, options, team, peers)
          .grow(leaf);
  if (rows) tree.find_other_leaves(bins, options.threads, leaf);
  return tree;
}

}  // namespace anytime
