// A nearly best pruning: prices are split among the trees, each tree is pruned by itself, and the split is
// mended.
//
// Multiplier beta of a link is the part of the pair's price that the split's tree is charged. For any beta >=
// 0
//   D(beta) = sum over trees of their best pruning at these charges + sum over pairs of min(0, price - sum
//   beta)
// is at most the value of the best pruning, and its maximum is that value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "prune.hpp"

namespace anytime {

// Splits that stay internal, one entry each.
using Kept = std::vector<uint8_t>;

enum class DualStep : uint8_t {
  kShares,    // beta = price * share; shares rise exponentially with how often the split has wanted to stay
  kSqrt,      // subgradient steps of first / sqrt(iteration)
  kPolyak,    // subgradient steps of (best value - D) / |subgradient|^2
  kConstant,  // subgradient steps of one length
};

struct DualTask {
  std::span<const double> gain;  // of every split; what keeping it saves, prices apart
  double all_pruned = 0.0;       // value when nothing is kept
  double lam = 0.0;
  DualStep step = DualStep::kShares;
  double first = 1.0;  // length of the first step; of kShares: how fast shares follow
  double tolerance = 1e-3;
  int64_t max_iterations = 1000;
  std::span<const double> start = {};  // what DualAnswer.state was, or nothing
  int threads = 1;
};

struct DualAnswer {
  Kept kept;
  double value = 0.0, bound = 0.0;
  int64_t iterations = 0;
  std::vector<double> state;  // kShares: how often splits wanted to stay; else beta / lam
};

DualAnswer prune_dual(const PruneGraph& graph, const DualTask& task);

// Best prunings of the trees when split s is charged charge[s] for all its pairs: V(h) = min(error as a leaf,
// sum of V of the children + charge). Ties are pruned. Returns the sum of the gains, charges paid.
double prune_trees(const PruneGraph& graph, std::span<const double> gain, std::span<const double> charge,
                   std::span<uint8_t> kept);

// Mean over the cost rows of the prices of the groups they need.
double feature_cost(const PruneGraph& graph, std::span<const uint8_t> kept, int threads);

// Charges of the kept splits, on the mean over the cost rows: a pair that n of them need charges each its
// price by n^power. With 1 they share what `kept` costs more than `paid`; the larger, the more do those owe
// who need alone. Pairs that a split of `paid` needs are free.
std::vector<double> charges(const PruneGraph& graph, std::span<const uint8_t> kept,
                            std::span<const uint8_t> paid, double power, int threads);

}  // namespace anytime
