// Rounds of boosting on a stream: all learners answer, partial sums and gradients follow, all learners learn.
//
// Hu, "Anytime Prediction and Learning", Algorithms 6 and 7: y_i = project(y_(i-1) - eta_i h_i); learner i is
// fitted to the gradient of the loss at y_(i-1), in Algorithm 7 plus what learners before it left unfitted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stream.hpp"

namespace anytime {

enum class StreamLoss { squared, logistic, hinge, absolute, softmax };
enum class Averaging { last, theory, post, all };
enum class Gate { none, skip, shrink };

struct RoundRules {
  StreamLoss loss = StreamLoss::squared;
  double rho = 0.0;
  bool residual = false;  // Algorithm 7
  Averaging averaging = Averaging::last;
  std::span<const double> start;      // (m) y_0
  std::span<const double> steps;      // (N) eta_i
  std::span<const double> low, high;  // (m) a box; empty: none
  double radius = 0.0;                // of a ball; 0: none
  Gate gate = Gate::none;
  int64_t warm_up = 0;           // learner i, from 1, is left out before it has seen warm_up * i rows
  std::span<const double> open;  // (N) what gates are multiplied with; empty: 1
  int64_t batch = 1;             // rows of a round
};

// What is known of the learners' edges: E = sum |q - h|^2, S = sum |q|^2, P = sum <q, h>, Q = sum |h|^2 of
// targets and outputs, (4, N) each.
struct EdgeSums {
  double* all = nullptr;
  double* recent = nullptr;  // multiplied with `discount` at every row
  double discount = 1.0;
  std::span<const int64_t> rows;  // (N) seen by each learner before
};

// Discounted losses of all prefixes, and the weight behind each, (N + 1) each; null: nobody asks.
struct PrefixSums {
  double* losses = nullptr;
  double* weights = nullptr;
};

struct StreamTruth {
  const double* y = nullptr;  // (n, width): numbers, or the class: above 0 or not, 0 to m - 1 of softmax
  int64_t width = 1;
};

// Rounds over the rows, in order. `out` (n, m): what was answered before learning; `prefixes`, unless null,
// (n, N + 1, m): what every prefix of learners answered. Sums of prefixes fade like those of edges.
void run_rounds(StreamBank& bank, const StreamRows& rows, const StreamTruth& truth, const RoundRules& rules,
                const EdgeSums& edges, const PrefixSums& paid, Team& team, double* out, double* prefixes);
// What rounds over the rows would answer now; nothing is learned.
void read_rounds(StreamBank& bank, const StreamRows& rows, const RoundRules& rules, const EdgeSums& edges,
                 Team& team, double* out, double* prefixes);

}  // namespace anytime
