#include "prune.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <unordered_map>

namespace anytime {
namespace {

uint64_t hash_of(std::span<const int32_t> values) noexcept {
  uint64_t hash = 0x9E3779B97F4A7C15u;
  for (const int32_t v : values) {
    hash = (hash ^ static_cast<uint32_t>(v)) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 31;
  }
  return hash;
}

}  // namespace

PruneGraph::PruneGraph(const PruneArrays& arrays) : price_(arrays.prices.begin(), arrays.prices.end()) {
  const auto kept = merge_rows(arrays);
  if (n_pairs() > std::numeric_limits<int32_t>::max())
    throw std::invalid_argument("more than 2^31 pairs of a group and a cost row; use fewer cost rows");
  order_rows(arrays, kept);
  find_first_uses(arrays);
  sort_blocks();
}

// One of each set of rows that reach the same leaf in every tree; none of weight 0.
std::vector<int32_t> PruneGraph::merge_rows(const PruneArrays& arrays) {
  const size_t trees = arrays.tree_start.size() - 1, n = arrays.leaf.size() / trees;
  std::vector<int32_t> kept;
  std::unordered_multimap<uint64_t, int32_t> seen;  // hash -> place in kept
  seen.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const double weight = arrays.weight.empty() ? 1.0 : arrays.weight[i];
    if (weight == 0.0) continue;
    n_cost_ += weight;
    const auto leaves = arrays.leaf.subspan(i * trees, trees);
    const uint64_t hash = hash_of(leaves);
    const auto [begin, end] = seen.equal_range(hash);
    const auto same = std::find_if(begin, end, [&](const auto& entry) {
      return std::ranges::equal(arrays.leaf.subspan(kept[entry.second] * trees, trees), leaves);
    });
    if (same != end) {
      weight_[same->second] += weight;
      continue;
    }
    seen.emplace(hash, static_cast<int32_t>(kept.size()));
    kept.push_back(static_cast<int32_t>(i));
    weight_.push_back(weight);
  }
  return kept;
}

// Splits, and the rows of every tree in depth-first order.
void PruneGraph::order_rows(const PruneArrays& arrays, std::span<const int32_t> kept) {
  const size_t trees = arrays.tree_start.size() - 1, n = kept.size(), n_nodes = arrays.parent.size();
  std::vector<int32_t> count(n_nodes, 0), split(n_nodes, -1);
  std::vector<double> reach(n_nodes, 0.0);
  std::vector<int64_t> begin(n_nodes), next(n_nodes);  // next: where the next child's rows begin
  for (size_t i = 0; i < n; ++i) {
    for (const int32_t leaf : arrays.leaf.subspan(kept[i] * trees, trees)) {
      ++count[leaf];
      reach[leaf] += weight_[i];
    }
  }
  for (size_t h = n_nodes; h-- > 0;) {
    const int32_t parent = arrays.parent[h];
    if (parent < 0) continue;
    count[parent] += count[h];
    reach[parent] += reach[h];
    split[parent] = 0;
  }
  for (size_t h = 0, t = 0; h < n_nodes; ++h) {
    const int32_t parent = arrays.parent[h];
    begin[h] = next[h] = parent < 0 ? static_cast<int64_t>(n * t++) : next[parent];
    if (parent >= 0) next[parent] += count[h];
    if (split[h] < 0) continue;
    split[h] = n_splits();
    node_.push_back(static_cast<int32_t>(h));
    up_.push_back(parent < 0 ? -1 : split[parent]);
    first_.push_back(begin[h]);
    size_.push_back(count[h]);
    reach_.push_back(reach[h]);
  }
  order_.resize(trees * n);
  for (size_t i = 0; i < n; ++i) {
    for (const int32_t leaf : arrays.leaf.subspan(kept[i] * trees, trees))
      order_[begin[leaf]++] = static_cast<int32_t>(i);
  }
}

// A block for every group with a price that a split needs and no split above it does.
void PruneGraph::find_first_uses(const PruneArrays& arrays) {
  const size_t words = (price_.size() + 63) / 64;
  std::vector<uint64_t> needed;  // groups by split of one tree, with those of the splits above
  int32_t root = 0;
  for (int32_t s = 0; s < n_splits(); ++s) {
    if (up_[s] < 0) {
      needed.clear();
      root = s;
    }
    needed.resize((s - root + 1) * words, 0);
    uint64_t* own = needed.data() + (s - root) * words;
    if (up_[s] >= 0) std::copy_n(needed.data() + (up_[s] - root) * words, words, own);
    for (int64_t k = arrays.group_start[node_[s]]; k < arrays.group_start[node_[s] + 1]; ++k) {
      const int32_t group = arrays.node_groups[k];
      const uint64_t bit = uint64_t{1} << (group & 63);
      const bool is_first = (own[group / 64] & bit) == 0;
      own[group / 64] |= bit;
      if (is_first && size_[s] > 0 && price_[group] > 0.0) blocks_.push_back({s, group, 0});
    }
  }
}

void PruneGraph::sort_blocks() {
  std::ranges::stable_sort(blocks_, {}, &PruneBlock::group);
  group_block_.assign(price_.size() + 1, 0);
  split_block_.assign(up_.size() + 1, 0);
  for (PruneBlock& block : blocks_) {
    block.link = n_links_;
    n_links_ += size_[block.split];
    ++group_block_[block.group + 1];
    ++split_block_[block.split + 1];
  }
  std::partial_sum(group_block_.begin(), group_block_.end(), group_block_.begin());
  std::partial_sum(split_block_.begin(), split_block_.end(), split_block_.begin());
  split_blocks_.resize(blocks_.size());
  std::vector<int32_t> next(split_block_.begin(), split_block_.end() - 1);
  for (size_t b = 0; b < blocks_.size(); ++b)
    split_blocks_[next[blocks_[b].split]++] = static_cast<int32_t>(b);
}

}  // namespace anytime
