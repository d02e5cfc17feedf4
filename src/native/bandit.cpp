#include "bandit.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace anytime {
namespace {

// exp(-eta total(i)), the largest of them 1; returns their sum.
double weigh(std::span<const double> totals, double eta, std::span<double> weights) noexcept {
  const double least = *std::min_element(totals.begin(), totals.end());
  double sum = 0.0;
  for (size_t i = 0; i < totals.size(); ++i) {
    weights[i] = std::exp(-eta * (totals[i] - least));
    sum += weights[i];
  }
  return sum;
}

// The index at which the running sum of the weights passes `amount`; the last with any weight if rounding
// hides it.
size_t reached(std::span<const double> weights, double amount) noexcept {
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0.0) continue;
    if (amount < weights[i]) return i;
    amount -= weights[i];
    last = i;
  }
  return last;
}

// The number of the expert who is `rank`-th among those marked.
size_t marked(const bool* marks, size_t rank) noexcept {
  for (size_t i = 0;; ++i) {
    if (marks[i] && rank-- == 0) return i;
  }
}

}  // namespace

void play_requests(const Rounds& rounds, const bool* asks, double charged, std::span<double> totals,
                   double* seen) {
  const size_t k = totals.size();
  std::vector<double> weights(k);
  for (size_t t = 0; t < rounds.chance.size(); ++t, asks += k) {
    const double gamma = rounds.exploration[t];
    const double sum = weigh(totals, rounds.learning[t], weights);
    double asking = 0.0;
    for (size_t i = 0; i < k; ++i) asking += asks[i] ? weights[i] : 0.0;
    const double chance = (1.0 - gamma) * asking / sum + gamma;

    const bool explores = rounds.chance[t] < gamma;
    const size_t drawn =
        explores ? marked(asks, 0) : reached(weights, (rounds.chance[t] - gamma) / (1.0 - gamma) * sum);
    rounds.played[t] = static_cast<int32_t>(drawn);
    seen[t] = chance;
    if (rounds.losses == nullptr) continue;

    const double* loss = rounds.losses + t * k;
    for (size_t i = 0; i < k; ++i) {
      if (charged >= 0.0 && asks[i]) {
        totals[i] += charged;
      } else if (asks[drawn]) {
        totals[i] += loss[i] / chance;
      }
    }
  }
}

void play_graphs(const Rounds& rounds, std::span<const int32_t> which, const bool* shows,
                 const bool* explorers, std::span<double> totals) {
  const size_t k = totals.size();
  std::vector<double> weights(k), chance(k);
  for (size_t t = 0; t < rounds.chance.size(); ++t) {
    const bool* graph = shows + static_cast<size_t>(which[t]) * k * k;
    const bool* explorer = explorers + static_cast<size_t>(which[t]) * k;
    const auto n_explorers = static_cast<size_t>(std::count(explorer, explorer + k, true));
    const double gamma = rounds.exploration[t];
    const double sum = weigh(totals, rounds.learning[t], weights);

    size_t drawn;
    if (rounds.chance[t] < gamma) {
      const double share = rounds.chance[t] / gamma * static_cast<double>(n_explorers);
      drawn = marked(explorer, std::min(static_cast<size_t>(share), n_explorers - 1));
    } else {
      drawn = reached(weights, (rounds.chance[t] - gamma) / (1.0 - gamma) * sum);
    }
    rounds.played[t] = static_cast<int32_t>(drawn);
    if (rounds.losses == nullptr) continue;

    std::fill(chance.begin(), chance.end(), 0.0);
    for (size_t i = 0; i < k; ++i) {
      double p = (1.0 - gamma) * weights[i] / sum;
      if (explorer[i]) p += gamma / static_cast<double>(n_explorers);
      for (size_t j = 0; j < k; ++j) chance[j] += graph[i * k + j] ? p : 0.0;
    }
    const double* loss = rounds.losses + t * k;
    for (size_t j = 0; j < k; ++j) {
      if (graph[drawn * k + j]) totals[j] += loss[j] / chance[j];
    }
  }
}

}  // namespace anytime
