// Purchases by neighbours: two columns that tell only together, and the same decisions in any company.
#include <cmath>
#include <memory>
#include <vector>

#include "checking.hpp"
#include "neighbours.hpp"

using namespace anytime;

namespace {

constexpr int64_t kMuch = int64_t{1} << 60;

std::shared_ptr<const CostTable> unit_prices(size_t d) {
  std::vector<int32_t> column_group(d);
  for (size_t j = 0; j < d; ++j) column_group[j] = static_cast<int32_t>(j);
  return std::make_shared<const CostTable>(std::vector<int64_t>(d, 1), std::vector<int64_t>(d + 1, 0),
                                           std::vector<int32_t>{}, column_group);
}

// Networks without weights, over as many groups as inputs.
MaskedNets sized(int64_t folds, int64_t inputs, int64_t first, int64_t second, int64_t outputs) {
  MaskedNets nets{};
  nets.n_folds = folds;
  nets.n_inputs = nets.n_groups = inputs;
  nets.first = first;
  nets.second = second;
  nets.n_outputs = outputs;
  return nets;
}

// The label is whether the first two columns differ; the third is right three times of five.
Neighbours exclusive_or(int64_t look_ahead) {
  const float odds = std::log(1.5f);
  MaskedNets nets = sized(1, 3, 6, 6, 2);
  nets.w1 = {1, -1, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 0, 0, 0, 0, 1, -1};
  nets.w1.resize(6 * 6, 0.0f);
  nets.b1 = {-1, -1, -1, -1, 0, 0};
  nets.w2.resize(36, 0.0f);
  for (size_t i = 0; i < 6; ++i) nets.w2[i * 7] = 1.0f;
  nets.b2.resize(6, 0.0f);
  nets.w3 = {0, -40, 0, -40, 0, 40, 0, 40, 0, odds, 0, -odds};
  nets.b3.resize(2, 0.0f);
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  for (const int one : {-1, 1}) {
    for (const int other : {-1, 1}) {
      const int label = one != other;
      for (const int right : {1, 1, 1, -1, -1}) {
        for (const int value : {one, other, right * (2 * label - 1)})
          inputs.push_back(static_cast<float>(value));
        labels.push_back(label);
      }
    }
  }
  const std::vector<int32_t> group{0, 1, 2}, fold(20, 0);
  return Neighbours(unit_prices(3), std::move(nets), inputs, group, 3, fold, labels, {},
                    {.n_neighbours = 5, .floor = 0.0, .look_ahead = look_ahead});
}

void test_pair() {
  const std::vector<float> x{1, 0, 0};
  std::vector<uint8_t> owned(3, 0);
  const std::vector<uint8_t> nothing(3, 0);
  for (const int64_t look_ahead : {12, 0}) {
    const Neighbours neighbours = exclusive_or(look_ahead);
    owned[0] = 0;
    const NeighbourRow fresh{x.data(), owned.data(), nothing.data(), kMuch, -1};
    Purchase found;
    std::vector<double> gains(3);
    neighbours.choose({&fresh, 1}, {&found, 1}, gains.data(), 1);
    CHECK(std::abs(gains[0]) < 1e-5 && std::abs(gains[1]) < 1e-5 && std::abs(gains[2] - 0.0201) < 1e-4);
    CHECK(found.group == (look_ahead > 0 ? 0 : 2) && found.price == (look_ahead > 0 ? 2 : 1));
    owned[0] = 1;
    neighbours.choose({&fresh, 1}, {&found, 1}, nullptr, 1);
    CHECK(found.group == 1 && std::abs(found.gain - std::log(2.0)) < 1e-4);
  }
}

// Many rows with many sets of groups, alone and together, on one thread and on three: the same.
void test_company() {
  Random random(5);
  const size_t n = 60, d = 5, m = 40;
  MaskedNets nets = sized(2, 5, 7, 3, 3);
  nets.w1.resize(2 * 10 * 7), nets.b1.resize(14), nets.w2.resize(2 * 7 * 3), nets.b2.resize(6);
  nets.w3.resize(2 * 3 * 3), nets.b3.resize(6);
  for (auto* part : {&nets.w1, &nets.b1, &nets.w2, &nets.b2, &nets.w3, &nets.b3})
    for (float& weight : *part) weight = static_cast<float>(normal(random));
  std::vector<float> inputs(n * d), x(m * d);
  for (auto* numbers : {&inputs, &x})
    for (float& value : *numbers) value = static_cast<float>(normal(random));
  std::vector<int32_t> fold(n), labels(n);
  for (size_t i = 0; i < n; ++i)
    fold[i] = static_cast<int32_t>(i % 2), labels[i] = static_cast<int32_t>(i % 3);
  const std::vector<int32_t> group{0, 1, 2, 3, 4};
  const Neighbours neighbours(unit_prices(d), nets, inputs, group, 4, fold, labels, {},
                              {.n_neighbours = 9, .floor = 0.05, .look_ahead = 4});
  std::vector<uint8_t> owned(m * d);
  for (uint8_t& has : owned) has = normal(random) > 0.3;
  const std::vector<uint8_t> nothing(d, 0);
  std::vector<NeighbourRow> rows;
  for (size_t i = 0; i < m; ++i)
    rows.push_back({x.data() + i * d, owned.data() + i * d, nothing.data(), kMuch, -1});
  std::vector<Purchase> together(m), threaded(m);
  neighbours.choose(rows, together, nullptr, 1);
  neighbours.choose(rows, threaded, nullptr, 3);
  std::vector<double> scores(m * 3), alone(3);
  neighbours.scores(rows, scores.data(), 2);
  for (size_t i = 0; i < m; ++i) {
    Purchase single;
    neighbours.choose({&rows[i], 1}, {&single, 1}, nullptr, 1);
    for (const Purchase& other : {together[i], threaded[i]})
      CHECK(single.group == other.group && single.price == other.price && single.gain == other.gain);
    neighbours.scores({&rows[i], 1}, alone.data(), 1);
    for (size_t c = 0; c < 3; ++c) CHECK(alone[c] == scores[i * 3 + c]);
  }
}

}  // namespace

void test_neighbours() {
  test_pair();
  test_company();
}
