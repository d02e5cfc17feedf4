// Rounds of EXP3.G: exponential weights over experts of which a round shows only some.
//
// The state is one total of estimated losses per expert. In round t expert i is drawn with probability
// p(i) = (1 - gamma_t) q(i) + gamma_t u(i), where q(i) is proportional to exp(-eta_t total(i)) and u is
// uniform over the round's explorers. What was seen is divided by the chance of seeing it, so that estimates
// are unbiased.
#pragma once

#include <cstdint>
#include <span>

namespace anytime {

// n rounds, in their order. `losses` (n, K) is read only where the drawn expert shows it; null: nothing is
// learned.
struct Rounds {
  std::span<const double> chance;       // (n) uniform on [0, 1)
  std::span<const double> learning;     // (n) eta_t
  std::span<const double> exploration;  // (n) gamma_t
  const double* losses = nullptr;
  int32_t* played = nullptr;  // (n) out: the expert drawn
};

// Experts that ask show all losses, the others none; the first that asks is the explorer, and every round has
// one. `asks` is (n, K); `seen` (n) out: the chance that the round is seen. If `charged` >= 0, experts that
// ask are charged that much in every round, seen or not.
void play_requests(const Rounds& rounds, const bool* asks, double charged, std::span<double> totals,
                   double* seen);

// General graphs: `which[t]` says which of the `shows` (G, K, K) holds in round t, where shows[i, j] means
// that playing i shows the loss of j. `explorers` (G, K), at least one in each graph, together see every
// expert.
void play_graphs(const Rounds& rounds, std::span<const int32_t> which, const bool* shows,
                 const bool* explorers, std::span<double> totals);

}  // namespace anytime
