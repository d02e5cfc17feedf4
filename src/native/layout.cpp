#include "layout.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace anytime {
namespace {

constexpr size_t kMaxSetWords = size_t{1} << 24;  // bit sets beyond 64 MB: such trees are walked as they came
constexpr size_t kMaxNamed = size_t{1} << 26;     // and likewise columns that name too many categories in all
constexpr size_t kSlotsPerLine = 8;

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

class Builder {
 public:
  Builder(const Forest& forest, Layout& out) : forest_(forest), out_(out) {}

  void build() {
    number_columns();
    rank_thresholds();
    rank_categories();
    choose_width();
    out_.set_bits.assign(1, 0);  // word 0 is read, and ignored, at numeric nodes
    for (int32_t t = 0; t < forest_.n_trees(); ++t) place_tree(t);
    for (int32_t s = 0; s < forest_.n_stages(); ++s) {
      int64_t steps = out_.work.back();
      for (int32_t t = forest_.first_tree(s); t < forest_.first_tree(s + 1); ++t) {
        steps += out_.trees[static_cast<size_t>(t)].depth + 1;
      }
      out_.work.push_back(steps);
    }
  }

 private:
  static uint64_t key(const PlainNode& node) {
    return static_cast<uint64_t>(node.feature) * 8 + static_cast<uint64_t>(reading_of(node));
  }
  uint32_t column_of(const PlainNode& node) const { return numbers_.at(key(node)); }

  void number_columns() {
    out_.columns_needed.assign(1, 0);
    out_.work.assign(1, 0);
    for (int32_t s = 0; s < forest_.n_stages(); ++s) {
      const int64_t begin = forest_.tree_start()[static_cast<size_t>(forest_.first_tree(s))];
      const int64_t end = forest_.tree_start()[static_cast<size_t>(forest_.first_tree(s + 1))];
      for (int64_t i = begin; i < end; ++i) {
        const PlainNode& node = forest_.nodes()[static_cast<size_t>(i)];
        if (node.is_leaf()) continue;
        if (numbers_.try_emplace(key(node), static_cast<uint32_t>(out_.columns.size())).second) {
          out_.columns.push_back({node.feature, reading_of(node), 0, 0});
        }
      }
      out_.columns_needed.push_back(static_cast<int32_t>(out_.columns.size()));
    }
  }

  void rank_thresholds() {
    std::vector<std::vector<double>> found(out_.columns.size());
    for (const PlainNode& node : forest_.nodes()) {
      if (!node.is_leaf() && !node.is_categorical()) found[column_of(node)].push_back(node.threshold);
    }
    for (size_t c = 0; c < found.size(); ++c) {
      sort_unique(found[c]);
      if (out_.columns[c].reading == Reading::kCategory) continue;
      out_.columns[c].first = static_cast<uint32_t>(out_.thresholds.size());
      out_.columns[c].count = static_cast<uint32_t>(found[c].size());
      out_.thresholds.insert(out_.thresholds.end(), found[c].begin(), found[c].end());
    }
  }

  void rank_categories() {
    std::vector<std::vector<int32_t>> sets(out_.columns.size());
    for (const PlainNode& node : forest_.nodes()) {
      if (!node.is_leaf() && node.is_categorical()) sets[column_of(node)].push_back(node.category_set);
    }
    for (size_t c = 0; c < sets.size(); ++c) {
      if (out_.columns[c].reading != Reading::kCategory) continue;
      sort_unique(sets[c]);
      std::vector<int32_t> named;
      for (const int32_t set : sets[c]) {
        const auto members = forest_.members(set);
        named.insert(named.end(), members.begin(), members.end());
        if (named.size() > 2 * size_t{kMaxCategory}) sort_unique(named);
      }
      sort_unique(named);
      if (out_.categories.size() + named.size() > kMaxNamed) {
        unranked_.insert(static_cast<uint32_t>(c));
        continue;
      }
      out_.columns[c].first = static_cast<uint32_t>(out_.categories.size());
      out_.columns[c].count = static_cast<uint32_t>(named.size());
      out_.categories.insert(out_.categories.end(), named.begin(), named.end());
    }
  }

  void choose_width() {
    constexpr size_t kMaxRanks = 0xFFFF - 2;
    out_.wide_ranks = out_.columns.size() > 0x10000 / kLanes;
    for (const Column& column : out_.columns) out_.wide_ranks |= column.count > kMaxRanks;
  }

  void place_tree(int32_t t) {
    const auto first = static_cast<size_t>(forest_.tree_start()[static_cast<size_t>(t)]);
    const auto end = static_cast<size_t>(forest_.tree_start()[static_cast<size_t>(t) + 1]);
    Tree tree{.root = static_cast<uint32_t>(first), .depth = depth_of(first, end), .output = forest_.tree_output()[static_cast<size_t>(t)], .form = Form::kNarrow};
    bool categorical = false;
    for (size_t i = first; i < end; ++i) {
      categorical |= !forest_.nodes()[i].is_leaf() && forest_.nodes()[i].is_categorical();
    }
    if (categorical && !make_sets(first, end)) {
      tree.form = Form::kPlain;
    } else if (categorical || out_.wide_ranks) {
      tree.form = Form::kWide;
      tree.root = place_nodes(out_.wide, first);
    } else {
      tree.root = place_nodes(out_.narrow, first);
    }
    out_.trees.push_back(tree);
  }

  int32_t depth_of(size_t first, size_t end) const {
    std::vector<int32_t> depth(end - first, 0);
    int32_t deepest = 0;
    for (size_t i = first; i < end; ++i) {  // a child stands after its parent
      const PlainNode& node = forest_.nodes()[i];
      deepest = std::max(deepest, depth[i - first]);
      if (node.is_leaf()) continue;
      depth[static_cast<size_t>(node.left) - first] = depth[i - first] + 1;
      depth[static_cast<size_t>(node.right) - first] = depth[i - first] + 1;
    }
    return deepest;
  }

  // Level by level, two siblings side by side, the root in slot 1 of its cache line.
  template <class Node>
  uint32_t place_nodes(Slots<Node>& slots, size_t first) {
    const size_t base = slots.nodes.size();
    std::vector<size_t> queue{first};  // queue[i] stands in slot base + 1 + i
    for (size_t i = 0; i < queue.size(); ++i) {
      const PlainNode& node = forest_.nodes()[queue[i]];
      if (node.is_leaf()) continue;
      queue.push_back(static_cast<size_t>(node.left));
      queue.push_back(static_cast<size_t>(node.right));
    }
    const size_t size = (queue.size() + kSlotsPerLine) / kSlotsPerLine * kSlotsPerLine;
    const auto width = static_cast<size_t>(forest_.value_width());
    slots.nodes.resize(base + size, Node{});
    slots.values.resize((base + size) * width, 0);
    auto next = static_cast<uint32_t>(base + 2);
    for (size_t i = 0; i < queue.size(); ++i) {
      const PlainNode& node = forest_.nodes()[queue[i]];
      const auto slot = static_cast<uint32_t>(base + 1 + i);
      if (!node.is_leaf()) {
        fill(slots.nodes[slot], node, next);
        next += 2;
        continue;
      }
      fill_leaf(slots.nodes[slot], slot);
      for (size_t k = 0; k < width; ++k) {
        slots.values[slot * width + k] = forest_.to_units(forest_.values()[queue[i] * width + k]);
      }
    }
    return static_cast<uint32_t>(base + 1);
  }

  uint32_t rank_of(const PlainNode& node) const {
    const Column& column = out_.columns[column_of(node)];
    const auto begin = out_.thresholds.begin() + column.first;
    return static_cast<uint32_t>(std::lower_bound(begin, begin + column.count, node.threshold) - begin);
  }

  void fill(NarrowNode& slot, const PlainNode& node, uint32_t left) const {
    slot = {static_cast<uint16_t>(column_of(node) * kLanes), static_cast<uint16_t>(rank_of(node)), left};
  }
  void fill(WideNode& slot, const PlainNode& node, uint32_t left) const {
    slot = {column_of(node) * kLanes, 0, left, 0};
    if (node.is_categorical()) {
      slot.set = sets_.at(set_key(node));
    } else {
      slot.rank = rank_of(node);
    }
  }
  static void fill_leaf(NarrowNode& slot, uint32_t self) { slot = {0, kLastRank<uint16_t>, self}; }
  static void fill_leaf(WideNode& slot, uint32_t self) { slot = {0, kLastRank<uint32_t>, self, 0}; }

  using SetKey = std::tuple<uint32_t, int32_t, uint8_t, uint8_t>;
  SetKey set_key(const PlainNode& node) const {
    return {column_of(node), node.category_set, node.members_left, node.default_left};
  }

  // Ranks of a categorical column: its named values in order, then any other value, then NaN.
  bool make_sets(size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      const PlainNode& node = forest_.nodes()[i];
      if (node.is_leaf() || !node.is_categorical() || sets_.contains(set_key(node))) continue;
      if (unranked_.contains(column_of(node))) return false;
      const Column& column = out_.columns[column_of(node)];
      const size_t words = (column.count + size_t{2} + 31) / 32;
      if (out_.set_bits.size() + words > kMaxSetWords) return false;
      const size_t base = out_.set_bits.size();
      out_.set_bits.resize(base + words, node.members_left ? ~uint32_t{0} : 0);
      const auto named = out_.categories.begin() + column.first;
      for (const int32_t member : forest_.members(node.category_set)) {
        flip(base, static_cast<size_t>(std::lower_bound(named, named + column.count, member) - named));
      }
      if (node.members_left == node.default_left) flip(base, column.count + size_t{1});
      sets_.emplace(set_key(node), static_cast<uint32_t>(base));
    }
    return true;
  }
  void flip(size_t base, size_t bit) { out_.set_bits[base + bit / 32] ^= uint32_t{1} << (bit % 32); }

  const Forest& forest_;
  Layout& out_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
  std::map<SetKey, uint32_t> sets_;
  std::set<uint32_t> unranked_;
};

}  // namespace

Layout::Layout(const Forest& forest) { Builder(forest, *this).build(); }

}  // namespace anytime
