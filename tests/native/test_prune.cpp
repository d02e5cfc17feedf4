// Minimum cuts against trying every pruning, and the primal-dual method on any number of threads.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "checking.hpp"
#include "prune.hpp"
#include "prune_cut.hpp"
#include "prune_dual.hpp"

using namespace anytime;

namespace {

int below(Random& random, int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); }

// Random trees, rows with random leaves, whole prices and gains.
struct Problem {
  std::vector<int32_t> parent, node_groups, leaf;
  std::vector<int64_t> tree_start{0}, group_start{0};
  std::vector<double> prices, weight;
  std::vector<int64_t> gain;  // of nodes

  Problem(Random& random, int trees, int splits, int rows, int groups) {
    for (int g = 0; g < groups; ++g) prices.push_back(below(random, 4));
    std::vector<std::vector<int32_t>> leaves;
    for (int t = 0; t < trees; ++t) leaves.push_back(grow(random, splits, groups));
    for (int i = 0; i < rows; ++i) {
      for (const auto& own : leaves)
        leaf.push_back(own[static_cast<size_t>(below(random, static_cast<int>(own.size())))]);
      weight.push_back(below(random, 3));
    }
    weight.back() = 1.0;
  }

  std::vector<int32_t> grow(Random& random, int splits, int groups) {
    const auto root = static_cast<int32_t>(parent.size());
    std::vector<int32_t> children{-1}, leaves;  // the parents of the nodes to come
    for (size_t next = 0; next < children.size(); ++next) {
      const auto node = static_cast<int32_t>(parent.size());
      parent.push_back(children[next]);
      const bool is_split = splits > 0 && (node == root || below(random, 3) > 0);
      gain.push_back(is_split ? below(random, 30) - 3 : 0);
      if (is_split) {
        --splits;
        std::set<int32_t> needs;
        for (int k = below(random, 3); k >= 0; --k) needs.insert(below(random, groups));
        node_groups.insert(node_groups.end(), needs.begin(), needs.end());
        for (int c = 2 + below(random, 2); c > 0; --c) children.push_back(node);
      } else {
        leaves.push_back(node);
      }
      group_start.push_back(static_cast<int64_t>(node_groups.size()));
    }
    tree_start.push_back(static_cast<int64_t>(parent.size()));
    return leaves;
  }

  PruneGraph graph() const {
    return PruneGraph({.parent = parent,
                       .tree_start = tree_start,
                       .group_start = group_start,
                       .node_groups = node_groups,
                       .prices = prices,
                       .leaf = leaf,
                       .weight = weight});
  }

  // Gains of the kept nodes less what the rows pay; every row walks up every tree.
  int64_t worth(const std::vector<bool>& kept) const {
    int64_t sum = 0;
    for (size_t h = 0; h < gain.size(); ++h) sum += kept[h] ? gain[h] : 0;
    const size_t trees = tree_start.size() - 1;
    for (size_t i = 0; i < weight.size(); ++i) {
      std::set<int32_t> needs;
      for (size_t t = 0; t < trees; ++t) {
        for (int32_t h = leaf[i * trees + t]; h >= 0; h = parent[static_cast<size_t>(h)]) {
          const auto at = static_cast<size_t>(h);
          if (kept[at])
            needs.insert(node_groups.begin() + group_start[at], node_groups.begin() + group_start[at + 1]);
        }
      }
      for (const int32_t g : needs) sum -= static_cast<int64_t>(weight[i] * prices[static_cast<size_t>(g)]);
    }
    return sum;
  }
};

// The best pruning with the fewest splits: the splits that all best prunings keep.
std::vector<bool> by_trying(const Problem& problem, const PruneGraph& graph) {
  const auto splits = graph.nodes();
  int64_t best = -1;
  std::vector<bool> common;
  for (uint32_t set = 0; set < (uint32_t{1} << splits.size()); ++set) {
    std::vector<bool> kept(problem.parent.size(), false);
    bool is_pruning = true;
    for (size_t s = 0; s < splits.size(); ++s) {
      if ((set >> s & 1u) == 0) continue;
      kept[static_cast<size_t>(splits[s])] = true;
      const int32_t up = graph.up()[s];
      is_pruning = is_pruning && (up < 0 || (set >> up & 1u) != 0);
    }
    if (!is_pruning) continue;
    const int64_t worth = problem.worth(kept);
    if (worth > best) common = kept;
    if (worth == best)
      for (size_t h = 0; h < kept.size(); ++h) common[h] = common[h] && kept[h];
    best = std::max(best, worth);
  }
  return common;
}

std::vector<int64_t> gains_of(const Problem& problem, const PruneGraph& graph) {
  std::vector<int64_t> out;
  for (const int32_t h : graph.nodes()) out.push_back(problem.gain[static_cast<size_t>(h)]);
  return out;
}

void test_cut_is_the_best_of_all_prunings() {
  Random random(1);
  for (int round = 0; round < 150; ++round) {
    const Problem problem(random, 1 + below(random, 3), 4, 1 + below(random, 8), 1 + below(random, 5));
    const PruneGraph graph = problem.graph();
    const auto gain = gains_of(problem, graph);
    const auto best = by_trying(problem, graph);
    std::vector<Fate> fate(gain.size(), Fate::kOpen);
    cut(graph, {gain, problem.prices}, fate);
    for (size_t s = 0; s < fate.size(); ++s)
      CHECK((fate[s] == Fate::kInternal) == best[static_cast<size_t>(graph.nodes()[s])]);
    // Some of it known beforehand.
    std::vector<Fate> known(fate);
    for (size_t s = known.size(); s-- > 0;) {
      const bool forget = below(random, 2) > 0;
      if (forget) known[s] = Fate::kOpen;
    }
    for (size_t s = 0; s < known.size(); ++s) {  // a node below an open or pruned one cannot be known to stay
      const int32_t up = graph.up()[s];
      if (up >= 0 && known[static_cast<size_t>(up)] != Fate::kInternal && known[s] == Fate::kInternal)
        known[s] = Fate::kOpen;
    }
    cut(graph, {gain, problem.prices}, known);
    CHECK(known == fate);
  }
}

void test_links_are_first_uses() {
  Random random(2);
  const Problem problem(random, 3, 6, 20, 4);
  const PruneGraph graph = problem.graph();
  int64_t links = 0;
  for (int32_t s = 0; s < graph.n_splits(); ++s) {
    std::set<std::pair<int32_t, int32_t>> own;
    graph.each_pair(s, [&](int32_t group, int32_t row) {
      CHECK(own.emplace(group, row).second);
      ++links;
      for (int32_t up = graph.up()[static_cast<size_t>(s)]; up >= 0; up = graph.up()[static_cast<size_t>(up)])
        graph.each_pair(up, [&](int32_t g, int32_t i) { CHECK(g != group || i != row); });
    });
  }
  CHECK(links == graph.n_links());
  for (const PruneBlock& block : graph.blocks())
    CHECK(problem.prices[static_cast<size_t>(block.group)] > 0.0);
}

void test_dual_is_the_same_on_any_number_of_threads() {
  Random random(3);
  const Problem problem(random, 8, 40, 900, 6);
  const PruneGraph graph = problem.graph();
  CHECK(graph.n_links() > 10000);
  std::vector<double> gain;
  for (const int64_t g : gains_of(problem, graph))
    gain.push_back(std::max<double>(0.0, 1e-3 * static_cast<double>(g)));
  for (const DualStep step : {DualStep::kShares, DualStep::kSqrt, DualStep::kPolyak, DualStep::kConstant}) {
    DualTask task{
        .gain = gain, .all_pruned = 10.0, .lam = 0.01, .step = step, .tolerance = 0.0, .max_iterations = 30};
    const DualAnswer one = prune_dual(graph, task);
    task.threads = 3;
    const DualAnswer three = prune_dual(graph, task);
    CHECK(one.bound <= one.value);
    CHECK(one.kept == three.kept && one.state == three.state);
    CHECK(one.value == three.value && one.bound == three.bound);
  }
}

}  // namespace

void test_prune() {
  test_links_are_first_uses();
  test_cut_is_the_best_of_all_prunings();
  test_dual_is_the_same_on_any_number_of_threads();
}
