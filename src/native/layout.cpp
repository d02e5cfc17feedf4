#include "layout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace anytime {
namespace {

// Trees whose categories ask for more memory than this are walked as they came.
constexpr size_t kMaxSetWords = size_t{1} << 24;
constexpr size_t kMaxNamed = size_t{1} << 26;
constexpr size_t kMaxSmallColumns = 256;
constexpr size_t kMaxMediumColumns = 0x10000 / kHalf;
constexpr size_t kMaxSmallSlots = 0x10000;
constexpr size_t kMaxNumbered = 256;
// Leaves of a tree that is scanned: beyond, a walk is as quick.
constexpr size_t kMostScanned8 = 256, kMostScanned16 = 128;
constexpr uint32_t kMostBuckets = 1024, kBucketsPerThreshold = 4;
constexpr size_t kLeastKeys = 8;                   // fewer thresholds are found as quickly without
constexpr size_t kMostKeys = kPerColumn<uint8_t>;  // more take several columns of ranks, keys fill one
static_assert(kMostKeys < 4 * kKeyTable);
constexpr double kMostOpen = 0.05;  // of the values: more of them without a rank by their keys do not pay
constexpr uint32_t kLeastStepsSaved = 2;  // for which a look into the buckets pays
constexpr int32_t kExtraSteps = 2;        // with which three in four walks of a boosted tree are over

constexpr double kSaved = 6.0;  // nanoseconds by which a visit is quicker with ranks than without, measured

Reading reading_of(const PlainNode& node) {
  if (node.is_categorical()) return Reading::kCategory;
  if (node.missing == kMissingNever) return Reading::kNanIsZero;
  if (node.missing == kMissingNan) return node.default_left ? Reading::kNanLeft : Reading::kNanRight;
  return node.default_left ? Reading::kNanOrZeroLeft : Reading::kNanOrZeroRight;
}

template <class T>
void sort_unique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// Where a numeric node's comparison takes place.
struct Place {
  uint32_t column;
  uint32_t rank;
};

template <class Node>
struct SlotsDraft {
  LineVector<Node> nodes;
  std::vector<int64_t> values;
  std::vector<ScanNode<typename Node::Rank>> scan;

  Slots<Node> frozen() { return {std::move(nodes), std::move(values), std::move(scan)}; }
};

// A Layout while it grows.
struct Draft {
  std::vector<Search> searches;
  std::vector<Early> early;
  std::vector<double> thresholds;
  std::vector<uint16_t> buckets;
  std::vector<uint16_t> keys;
  std::vector<int32_t> categories;
  std::vector<int32_t> searches_needed;
  std::vector<int64_t> work;
  std::vector<int64_t> scan_work;
  std::vector<int64_t> visits;
  std::vector<Tree> trees;
  std::vector<uint32_t> roots;
  SlotsDraft<SmallNode> small;
  SlotsDraft<MediumNode> medium;
  SlotsDraft<LargeNode> large;
  std::vector<uint32_t> set_bits;
  bool small_ranks = true;
  uint32_t least_columns = 1;
};

class Builder {
 public:
  explicit Builder(const Forest& forest) : forest_(forest) {}

  Draft build() {
    number_searches();
    collect_thresholds();
    collect_categories();
    choose_ranks();
    collect_early();
    out_.set_bits.assign(1, 0);  // word 0 is read, and ignored, at numeric nodes
    for (int32_t t = 0; t < forest_.n_trees(); ++t) place_tree(static_cast<size_t>(t));
    add_up_work();
    return std::move(out_);
  }

 private:
  void add_up_work() {
    out_.work.assign(1, 0);
    out_.scan_work.assign(1, 0);
    out_.visits.assign(1, 0);
    for (int32_t s = 0; s < forest_.n_stages(); ++s) {
      int64_t steps = out_.work.back(), scan = out_.scan_work.back(), visits = out_.visits.back();
      for (auto t = static_cast<size_t>(forest_.first_tree(s));
           t < static_cast<size_t>(forest_.first_tree(s + 1)); ++t) {
        steps += out_.trees[t].depth + 1;
        scan += Layout::cost(out_.trees[t], true);
        visits += balanced_depth(t) + 1;
      }
      out_.work.push_back(steps);
      out_.scan_work.push_back(scan);
      out_.visits.push_back(visits);
    }
  }

  // Steps that a balanced tree with as many leaves would take.
  int32_t balanced_depth(size_t t) const {
    const auto leaves = static_cast<uint64_t>(forest_.tree_start()[t + 1] - forest_.tree_start()[t] + 1) / 2;
    return static_cast<int32_t>(std::bit_width(leaves - 1));
  }

  static uint64_t key(const PlainNode& node) {
    return static_cast<uint64_t>(node.feature) * 8 + static_cast<uint64_t>(reading_of(node));
  }
  const PlainNode& node(size_t i) const { return forest_.nodes()[i]; }
  const Search& search_of(size_t i) const { return out_.searches[numbers_[i]]; }

  void number_searches() {
    std::unordered_map<uint64_t, uint32_t> known;
    numbers_.assign(forest_.nodes().size(), 0);
    out_.searches_needed.assign(1, 0);
    for (int32_t s = 0; s < forest_.n_stages(); ++s) {
      const auto begin =
          static_cast<size_t>(forest_.tree_start()[static_cast<size_t>(forest_.first_tree(s))]);
      const auto end =
          static_cast<size_t>(forest_.tree_start()[static_cast<size_t>(forest_.first_tree(s + 1))]);
      for (size_t i = begin; i < end; ++i) {
        if (node(i).is_leaf()) continue;
        const auto [at, is_new] =
            known.try_emplace(key(node(i)), static_cast<uint32_t>(out_.searches.size()));
        if (is_new) {
          out_.searches.push_back({.feature = node(i).feature,
                                   .reading = reading_of(node(i)),
                                   .first = 0,
                                   .count = 0,
                                   .column = 0,
                                   .columns = 0});
        }
        numbers_[i] = at->second;
      }
      out_.searches_needed.push_back(static_cast<int32_t>(out_.searches.size()));
    }
  }

  void collect_thresholds() {
    std::vector<std::vector<double>> found(out_.searches.size());
    out_.buckets.assign(1, 0);
    for (size_t i = 0; i < numbers_.size(); ++i) {
      if (!node(i).is_leaf() && !node(i).is_categorical()) found[numbers_[i]].push_back(node(i).threshold);
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].empty()) continue;
      sort_unique(found[i]);
      append(out_.searches[i], out_.thresholds, found[i]);
      make_buckets(out_.searches[i], found[i]);
      make_keys(out_.searches[i], found[i]);
      const size_t beyond = (size_t{1} << out_.searches[i].steps) - 1;
      out_.thresholds.insert(out_.thresholds.end(), beyond, std::numeric_limits<double>::infinity());
    }
  }

  void make_buckets(Search& search, const std::vector<double>& thresholds) {
    const auto whole = static_cast<uint32_t>(std::bit_width(thresholds.size()));
    const uint32_t n = std::min(std::bit_ceil(kBucketsPerThreshold * search.count), kMostBuckets);
    std::vector<uint16_t> before(n + 1, 0);
    search.bucket = 0;  // the one of all searches that have no other
    search.steps = whole;
    if (whole <= kLeastStepsSaved || thresholds.size() >= kLastRank<uint16_t>) return;
    Search cut = search;
    cut.low = thresholds.front();
    cut.scale = n / (thresholds.back() - thresholds.front());
    cut.last_bucket = n - 1.0;
    if (!std::isfinite(cut.scale)) return;
    for (const double threshold : thresholds) ++before[static_cast<size_t>(cut.bucket_of(threshold)) + 1];
    cut.steps = static_cast<uint32_t>(std::bit_width(*std::max_element(before.begin(), before.end())));
    if (cut.steps + kLeastStepsSaved > whole) return;
    std::partial_sum(before.begin(), before.end(), before.begin());
    cut.bucket = static_cast<uint32_t>(out_.buckets.size());
    out_.buckets.insert(out_.buckets.end(), before.begin(), before.end() - 1);
    search = cut;
  }

  // Where equal keys would often leave the order open, a search does without.
  void make_keys(Search& search, const std::vector<double>& thresholds) {
    const size_t count = thresholds.size();
    if (count < kLeastKeys || count > kMostKeys) return;
    Search keyed = search;
    keyed.key_low = thresholds.front();
    const double width = thresholds.back() - thresholds.front();
    keyed.key_scale = width > 0.0 ? (Search::kLastKey - 1.0) / width : 1.0;
    if (!std::isfinite(keyed.key_scale) || !std::isfinite(width)) return;
    std::vector<uint16_t> keys(4 * kKeyTable, kNoKey);
    std::transform(thresholds.begin(), thresholds.end(), keys.begin(),
                   [&](double threshold) { return keyed.key_of(threshold); });
    double open = 0.0;  // of the values, if as many lie between any two thresholds
    for (size_t i = 1; i < count; ++i) open += 1.0 / std::max(1, keys[i] - keys[i - 1]);
    if (open > kMostOpen * static_cast<double>(count)) return;
    keyed.keys = static_cast<uint32_t>(out_.keys.size());
    keyed.key_step = count < kKeyTable ? 1 : count < 2 * kKeyTable ? 2 : 4;
    for (size_t table = 0; table < keyed.key_step; ++table) {
      const size_t place =
          (table + keyed.key_step - 1) % keyed.key_step;  // within a step; the pivots' is the last
      for (size_t i = 0; i < kKeyTable; ++i) out_.keys.push_back(keys[i * keyed.key_step + place]);
    }
    search = keyed;
  }

  void collect_categories() {
    std::vector<std::vector<int32_t>> sets(out_.searches.size());
    for (size_t i = 0; i < numbers_.size(); ++i) {
      if (!node(i).is_leaf() && node(i).is_categorical()) sets[numbers_[i]].push_back(node(i).category_set);
    }
    for (size_t i = 0; i < sets.size(); ++i) {
      sort_unique(sets[i]);
      std::vector<int32_t> named;
      for (const int32_t set : sets[i]) {
        const auto members = forest_.members(set);
        named.insert(named.end(), members.begin(), members.end());
        if (named.size() > 2 * size_t{kMaxCategory}) sort_unique(named);
      }
      sort_unique(named);
      // What is left without its numbers is recognised by its columns, which stay none.
      if (named.size() > kPerColumn<uint16_t> || out_.categories.size() + named.size() > kMaxNamed) continue;
      if (!sets[i].empty()) append(out_.searches[i], out_.categories, named);
    }
  }

  template <class T>
  static void append(Search& search, std::vector<T>& all, const std::vector<T>& found) {
    search.first = static_cast<uint32_t>(all.size());
    search.count = static_cast<uint32_t>(found.size());
    search.columns = 1;
    all.insert(all.end(), found.begin(), found.end());
  }

  void choose_ranks() {
    out_.small_ranks = number_columns(kPerColumn<uint8_t>) <= kMaxSmallColumns;
    for (const Search& search : out_.searches) {
      out_.small_ranks &= search.reading != Reading::kCategory || search.count <= kPerColumn<uint8_t>;
    }
    per_column_ = out_.small_ranks ? kPerColumn<uint8_t> : kPerColumn<uint16_t>;
    n_columns_ = number_columns(per_column_);
  }

  void collect_early() {
    for (const Search& search : out_.searches) {
      const bool numeric = search.reading != Reading::kCategory && search.columns == 1;
      Early early{.many = numeric ? forest_.n_stages() : 0, .stage = {}};
      std::fill_n(early.stage, kFew, Early::kNever);
      out_.early.push_back(early);
    }
    for (int32_t s = 0; s < forest_.n_stages(); ++s) {
      const int64_t begin = forest_.tree_start()[static_cast<size_t>(forest_.first_tree(s))];
      const int64_t end = forest_.tree_start()[static_cast<size_t>(forest_.first_tree(s + 1))];
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        if (!node(i).is_leaf() && out_.early[numbers_[i]].many > s) add_early(out_.early[numbers_[i]], i, s);
      }
    }
  }

  void add_early(Early& early, size_t i, int32_t stage) const {
    const uint32_t rank = place_of(i).rank;
    int at = 0;
    while (at < kFew && early.stage[at] != Early::kNever && early.rank[at] < rank) ++at;
    if (at < kFew && early.stage[at] != Early::kNever && early.rank[at] == rank) return;
    if (early.stage[kFew - 1] != Early::kNever) {
      early.many = stage;
      return;
    }
    std::copy_backward(early.stage + at, early.stage + kFew - 1, early.stage + kFew);
    std::copy_backward(early.rank + at, early.rank + kFew - 1, early.rank + kFew);
    early.stage[at] = stage;
    early.rank[at] = rank;
  }

  size_t number_columns(uint32_t per_column) {
    size_t next = 0;
    for (Search& search : out_.searches) {
      if (search.reading != Reading::kCategory) search.columns = (search.count + per_column - 1) / per_column;
      search.column = static_cast<uint32_t>(next);
      next += search.columns;
    }
    return next;
  }

  void place_tree(size_t t) {
    const auto first = static_cast<size_t>(forest_.tree_start()[t]);
    const auto end = static_cast<size_t>(forest_.tree_start()[t + 1]);
    bool categorical = false;
    for (size_t i = first; i < end; ++i) {
      categorical |= !node(i).is_leaf() && node(i).is_categorical();
    }
    const int32_t depth = depth_of(first, end), sure = balanced_depth(t) + kExtraSteps;
    Tree tree{.root = static_cast<uint32_t>(first),
              .value = 0,
              .depth = depth,
              .sure_steps = depth <= sure + 1 ? depth : sure,
              .output = forest_.tree_output()[t],
              .form = Form::kPlain,
              .numbered = false};
    if (categorical && !make_sets(first, end)) {
      // stays plain
    } else if (!categorical && out_.small_ranks && end - first < kMaxSmallSlots) {
      place_nodes(out_.small, tree, first, Form::kSmall);
    } else if (!categorical && !out_.small_ranks && n_columns_ <= kMaxMediumColumns) {
      place_nodes(out_.medium, tree, first, Form::kMedium);
    } else {
      place_nodes(out_.large, tree, first, Form::kLarge);
    }
    out_.trees.push_back(tree);
    out_.roots.push_back(tree.root);
  }

  int32_t depth_of(size_t first, size_t end) const {
    std::vector<int32_t> depth(end - first, 0);
    int32_t deepest = 0;
    for (size_t i = first; i < end; ++i) {  // a child stands after its parent
      deepest = std::max(deepest, depth[i - first]);
      if (node(i).is_leaf()) continue;
      depth[static_cast<size_t>(node(i).left) - first] = depth[i - first] + 1;
      depth[static_cast<size_t>(node(i).right) - first] = depth[i - first] + 1;
    }
    return deepest;
  }

  // Slot of every node of a tree, from 1: siblings side by side, and each cache line filled with the nearest
  // descendants of the pair it begins with, so that a walk touches few lines.
  std::vector<std::pair<size_t, size_t>> arrange(size_t root, size_t slots_per_line) const {
    std::vector<std::pair<size_t, size_t>> placed{{root, 1}};
    std::deque<size_t> seeds{root};  // nodes whose children have no place yet
    for (size_t next = 2; !seeds.empty();) {
      std::deque<size_t> near{seeds.front()};
      seeds.pop_front();
      while (!near.empty()) {
        const PlainNode& parent = node(near.front());
        near.pop_front();
        if (parent.is_leaf()) continue;
        for (const int32_t child : {parent.left, parent.right}) {
          placed.emplace_back(static_cast<size_t>(child), next++);
          near.push_back(static_cast<size_t>(child));
        }
        if (next % slots_per_line != 0) continue;
        seeds.insert(seeds.end(), near.begin(), near.end());
        near.clear();
      }
    }
    return placed;
  }

  template <class Node>
  void place_nodes(SlotsDraft<Node>& slots, Tree& tree, size_t first, Form form) {
    constexpr size_t kSlotsPerLine = 64 / sizeof(Node);
    const auto placed = arrange(first, kSlotsPerLine);
    const size_t base = slots.nodes.size(), leaves = (placed.size() + 1) / 2;
    const auto width = static_cast<size_t>(forest_.value_width());
    tree.root = static_cast<uint32_t>(base + 1);
    tree.value = static_cast<uint32_t>(slots.values.size() / width);
    tree.form = form;
    tree.numbered = form == Form::kSmall && leaves <= kMaxNumbered;
    if (tree.numbered) out_.least_columns = std::max(out_.least_columns, static_cast<uint32_t>(leaves));
    slots.nodes.resize(base + (placed.size() + kSlotsPerLine) / kSlotsPerLine * kSlotsPerLine, Node{});
    slots.values.resize((tree.value + (tree.numbered ? leaves : placed.size())) * width, 0);

    std::vector<size_t> slot_of(placed.size());
    for (const auto& [at, slot] : placed) slot_of[at - first] = slot;
    uint32_t leaf = 0;
    for (const auto& [at, slot] : placed) {
      Node& out = slots.nodes[base + slot];
      if (!node(at).is_leaf()) {
        fill(out, at, static_cast<uint32_t>(slot_of[static_cast<size_t>(node(at).left) - first] - slot));
        continue;
      }
      fill_leaf(out, tree.numbered ? leaf : 0);
      const size_t value = tree.value + (tree.numbered ? leaf : slot - 1);
      for (size_t k = 0; k < width; ++k) {
        slots.values[value * width + k] = forest_.to_units(forest_.values()[at * width + k]);
      }
      ++leaf;
    }
    if constexpr (!std::is_same_v<Node, LargeNode>) place_scan(slots, tree, base, placed, first);
  }

  // A leaf's number in a scan is where its values stand.
  template <class Node>
  void place_scan(SlotsDraft<Node>& slots, Tree& tree, size_t base,
                  const std::vector<std::pair<size_t, size_t>>& placed, size_t first) {
    using Rank = typename Node::Rank;
    const size_t leaves = (placed.size() + 1) / 2;
    if (leaves > (sizeof(Rank) == 1 ? kMostScanned8 : kMostScanned16)) return;
    std::vector<Rank> leftmost(placed.size());
    for (const auto& [at, slot] : placed) {
      if (!node(at).is_leaf()) continue;
      leftmost[at - first] = static_cast<Rank>(tree.numbered ? slots.nodes[base + slot].column : slot - 1);
    }
    for (size_t i = placed.size(); i-- > 0;) {  // a child stands after its parent
      if (!node(first + i).is_leaf())
        leftmost[i] = leftmost[static_cast<size_t>(node(first + i).left) - first];
    }
    tree.scanned = true;
    tree.scan = static_cast<uint32_t>(slots.scan.size());
    tree.scan_count = static_cast<uint16_t>(leaves - 1);
    tree.first_leaf = leftmost[0];
    for (size_t i = 0; i < placed.size(); ++i) {
      const PlainNode& inner = node(first + i);
      if (inner.is_leaf()) continue;
      const Place place = place_of(first + i);
      slots.scan.push_back({static_cast<Rank>(place.column), static_cast<Rank>(place.rank), leftmost[i],
                            leftmost[static_cast<size_t>(inner.right) - first]});
    }
  }

  Place place_of(size_t i) const {
    const Search& search = search_of(i);
    const auto begin = out_.thresholds.begin() + search.first;
    const auto rank =
        static_cast<uint32_t>(std::lower_bound(begin, begin + search.count, node(i).threshold) - begin);
    return {search.column + rank / per_column_, rank % per_column_};
  }

  void fill(SmallNode& slot, size_t i, uint32_t down) const {
    const Place place = place_of(i);
    slot = {static_cast<uint8_t>(place.column), static_cast<uint8_t>(place.rank),
            static_cast<uint16_t>(down)};
  }
  void fill(MediumNode& slot, size_t i, uint32_t down) const {
    const Place place = place_of(i);
    slot = {static_cast<uint16_t>(place.column * kHalf), static_cast<uint16_t>(place.rank), down};
  }
  void fill(LargeNode& slot, size_t i, uint32_t down) const {
    if (node(i).is_categorical()) {
      slot = {search_of(i).column, 0, down, sets_.at(set_key(i))};
      return;
    }
    const Place place = place_of(i);
    slot = {place.column, place.rank, down, 0};
  }
  static void fill_leaf(SmallNode& slot, uint32_t leaf) {
    slot = {static_cast<uint8_t>(leaf), kLastRank<uint8_t>, 0};
  }
  static void fill_leaf(MediumNode& slot, uint32_t) { slot = {0, kLastRank<uint16_t>, 0}; }
  static void fill_leaf(LargeNode& slot, uint32_t) { slot = {0, kLastRank<uint32_t>, 0, 0}; }

  using SetKey = std::tuple<uint32_t, int32_t, uint8_t, uint8_t>;
  SetKey set_key(size_t i) const {
    return {search_of(i).column, node(i).category_set, node(i).members_left, node(i).default_left};
  }

  // Ranks of a categorical column: its named values in order, then any other value, then NaN.
  bool make_sets(size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      if (node(i).is_leaf() || !node(i).is_categorical()) continue;
      const Search& search = search_of(i);
      if (search.columns == 0) return false;
      if (sets_.contains(set_key(i))) continue;
      const size_t base = out_.set_bits.size(), words = (search.count + size_t{2} + 31) / 32;
      if (base + words > kMaxSetWords) return false;
      out_.set_bits.resize(base + words, node(i).members_left ? ~uint32_t{0} : 0);
      const auto named = out_.categories.begin() + search.first;
      for (const int32_t member : forest_.members(node(i).category_set)) {
        flip(base, static_cast<size_t>(std::lower_bound(named, named + search.count, member) - named));
      }
      if (node(i).members_left == node(i).default_left) flip(base, search.count + size_t{1});
      sets_.emplace(set_key(i), static_cast<uint32_t>(base));
    }
    return true;
  }
  void flip(size_t base, size_t bit) { out_.set_bits[base + bit / 32] ^= uint32_t{1} << (bit % 32); }

  const Forest& forest_;
  Draft out_;
  uint32_t per_column_ = 0;
  size_t n_columns_ = 0;
  std::vector<uint32_t> numbers_;  // per inner node, its search
  std::map<SetKey, uint32_t> sets_;
};

}  // namespace

Layout::Layout(const Forest& forest) {
  Draft draft = Builder(forest).build();
  searches = std::move(draft.searches);
  early = std::move(draft.early);
  thresholds = std::move(draft.thresholds);
  buckets = std::move(draft.buckets);
  keys = std::move(draft.keys);
  categories = std::move(draft.categories);
  searches_needed = std::move(draft.searches_needed);
  work = std::move(draft.work);
  scan_work = std::move(draft.scan_work);
  visits = std::move(draft.visits);
  trees = std::move(draft.trees);
  roots = std::move(draft.roots);
  small = draft.small.frozen();
  medium = draft.medium.frozen();
  large = draft.large.frozen();
  set_bits = std::move(draft.set_bits);
  small_ranks = draft.small_ranks;
  least_columns = draft.least_columns;
}

size_t Layout::columns_for(int32_t stages) const noexcept {
  const int32_t needed = searches_needed[static_cast<size_t>(stages)];
  if (needed == 0) return least_columns;
  const Search& last = searches[static_cast<size_t>(needed) - 1];
  return std::max(least_columns, last.column + last.columns);
}

bool Layout::is_short(int64_t typical_visits, int32_t end, double search) const noexcept {
  return kSaved * static_cast<double>(typical_visits) < search * searches_needed[static_cast<size_t>(end)];
}

bool Layout::is_short(int32_t from, int32_t to, double search) const noexcept {
  return is_short(visits[static_cast<size_t>(to)] - visits[static_cast<size_t>(from)], to, search);
}

}  // namespace anytime
