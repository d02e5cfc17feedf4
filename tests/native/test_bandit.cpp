// Rounds of EXP3.G: who is drawn, what is learned, and that estimates are right on average.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "bandit.hpp"
#include "checking.hpp"

using namespace anytime;

namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr int kGrid = 10'000;  // chances, evenly spread

struct Outcome {
  int32_t played = -1;
  double seen = 0.0;
};

// One round of requests among three experts of whom the last asks.
Outcome request(double chance, const double* losses, std::vector<double>& totals) {
  const double eta = 0.5, gamma = 0.2;
  const bool asks[] = {false, false, true};
  Outcome out;
  const Rounds round{{&chance, 1}, {&eta, 1}, {&gamma, 1}, losses, &out.played};
  play_requests(round, asks, -1.0, totals, &out.seen);
  return out;
}

void test_silent_rounds_change_nothing() {
  const double losses[] = {kMissing, kMissing, kMissing};
  std::vector<double> totals{0.0, 1.0, 2.0};
  const Outcome out = request(0.21, losses, totals);  // just past the explorer: the first expert
  CHECK(out.played == 0);
  CHECK(totals == (std::vector<double>{0.0, 1.0, 2.0}));
}

void test_requests_are_estimated_right_on_average() {
  const double losses[] = {0.3, 1.0, 0.7};
  std::vector<double> mean(3, 0.0);
  int seen = 0;
  double chance = 0.0;
  for (int i = 0; i < kGrid; ++i) {
    std::vector<double> totals{0.0, 1.0, 2.0};
    const Outcome out = request((i + 0.5) / kGrid, losses, totals);
    seen += out.played == 2;
    chance = out.seen;
    for (size_t j = 0; j < 3; ++j) mean[j] += (totals[j] - static_cast<double>(j)) / kGrid;
  }
  CHECK(chance >= 0.2);
  CHECK(std::abs(static_cast<double>(seen) / kGrid - chance) < 1e-3);
  for (size_t j = 0; j < 3; ++j) CHECK(std::abs(mean[j] - losses[j]) < 2e-3);
}

// 0 shows 1, 1 shows 0 and 2, 2 shows itself; 0 and 1 explore.
void test_graphs_are_estimated_right_on_average() {
  const bool shows[] = {false, true, false, true, false, true, false, false, true};
  const bool explorers[] = {true, true, false};
  const double losses[] = {0.3, 1.0, 0.7}, eta = 0.5, gamma = 0.3;
  const int32_t which = 0;
  std::vector<double> mean(3, 0.0);
  for (int i = 0; i < kGrid; ++i) {
    const double chance = (i + 0.5) / kGrid;
    std::vector<double> totals{0.0, 1.0, 2.0};
    int32_t played = -1;
    const Rounds round{{&chance, 1}, {&eta, 1}, {&gamma, 1}, losses, &played};
    play_graphs(round, {&which, 1}, shows, explorers, totals);
    for (size_t j = 0; j < 3; ++j) mean[j] += (totals[j] - static_cast<double>(j)) / kGrid;
  }
  for (size_t j = 0; j < 3; ++j) CHECK(std::abs(mean[j] - losses[j]) < 2e-3);
}

// Totals far apart: weights vanish, and chances at the very end still draw an expert.
void test_vanished_weights_are_never_drawn() {
  const double eta = 1.0, gamma = 0.0, chance = std::nextafter(1.0, 0.0);
  const bool asks[] = {false, true};
  std::vector<double> totals{0.0, 1e6};
  int32_t played = -1;
  double seen = -1.0;
  const Rounds round{{&chance, 1}, {&eta, 1}, {&gamma, 1}, nullptr, &played};
  play_requests(round, asks, -1.0, totals, &seen);
  CHECK(played == 0);
  CHECK(seen == 0.0);
}

}  // namespace

void test_bandit() {
  test_silent_rounds_change_nothing();
  test_requests_are_estimated_right_on_average();
  test_graphs_are_estimated_right_on_average();
  test_vanished_weights_are_never_drawn();
}
