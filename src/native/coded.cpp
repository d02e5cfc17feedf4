#include "coded.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "threads.hpp"

namespace anytime {
namespace {

constexpr int64_t kRowsPerTask = 256;
constexpr float kFirstSquare = 1e-6F;  // of AdaGrad, so that a first step is finite

struct Active {
  int64_t row;  // of the weights
  float value;
};

// What one row of x holds.
size_t active_of(const double* x, const CodedColumns& columns, Active* out) noexcept {
  size_t n = 0;
  for (size_t c = 0; c < columns.sizes.size(); ++c) {
    const double value = x[c];
    if (columns.sizes[c] == 0) {
      if (value != 0.0 && value == value) out[n++] = {columns.starts[c], static_cast<float>(value)};
    } else if (value >= 0.0 && value < columns.sizes[c]) {
      out[n++] = {columns.starts[c] + static_cast<int64_t>(value), 1.0F};
    }
  }
  return n;
}

// A permutation of [0, n) by splitmix64.
class Shuffler {
 public:
  explicit Shuffler(uint64_t seed) : state_(seed) {}
  void shuffle(std::vector<int64_t>& order) noexcept {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next() % i]);
  }

 private:
  uint64_t next() noexcept {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

}  // namespace

void check_coded(const CodedColumns& columns, int64_t n_weights) {
  if (columns.sizes.size() != columns.starts.size())
    throw std::invalid_argument("sizes and starts have different lengths");
  for (size_t c = 0; c < columns.sizes.size(); ++c) {
    const int64_t rows = std::max(columns.sizes[c], 1), start = columns.starts[c];
    if (columns.sizes[c] < 0 || start < 0 || start > n_weights - rows)
      throw std::invalid_argument("a column asks for weights that are not there");
  }
}

void coded_scores(const double* x, int64_t n_rows, const CodedColumns& columns, const float* weights,
                  const float* bias, int64_t n_outputs, int threads, double* out) {
  const auto width = static_cast<int64_t>(columns.sizes.size());
  Team team(threads);
  std::vector<std::vector<Active>> scratch(team.size(), std::vector<Active>(static_cast<size_t>(width) + 1));
  const int64_t tasks = (n_rows + kRowsPerTask - 1) / kRowsPerTask;
  team.each(tasks, true, [&](int64_t task, size_t part) noexcept {
    Active* active = scratch[part].data();
    const int64_t last = std::min(n_rows, (task + 1) * kRowsPerTask);
    for (int64_t i = task * kRowsPerTask; i < last; ++i) {
      const size_t n = active_of(x + i * width, columns, active);
      double* sum = out + i * n_outputs;
      for (int64_t k = 0; k < n_outputs; ++k) sum[k] = bias[k];
      for (size_t a = 0; a < n; ++a) {
        const float* row = weights + active[a].row * n_outputs;
        const double value = active[a].value;
        for (int64_t k = 0; k < n_outputs; ++k) sum[k] += value * row[k];
      }
    }
  });
}

void coded_softmax_fit(const double* x, int64_t n_rows, const CodedColumns& columns, const double* offset,
                       const int32_t* y, const double* weight, int64_t n_outputs, const CodedOptions& options,
                       int64_t n_weights, float* weights, float* bias) {
  const auto width = static_cast<int64_t>(columns.sizes.size());
  const auto n_numbers = static_cast<size_t>(n_weights * n_outputs);
  std::vector<Active> active(static_cast<size_t>(width) + 1);
  std::vector<float> squares(n_numbers, kFirstSquare), decay(static_cast<size_t>(n_weights), 0.0F);
  std::vector<float> bias_squares(static_cast<size_t>(n_outputs), kFirstSquare);
  std::vector<float> score(static_cast<size_t>(n_outputs));
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n_rows; ++i) {
    if (weight[i] == 0.0) continue;
    order.push_back(i);
    const size_t n = active_of(x + i * width, columns, active.data());
    for (size_t a = 0; a < n; ++a) decay[static_cast<size_t>(active[a].row)] += 1.0F;
  }
  // a row of weights is visited as often as it is active: each visit takes its share of the penalty
  for (float& d : decay) d = d > 0.0F ? static_cast<float>(options.l2) / d : 0.0F;
  const auto rate = static_cast<float>(options.rate);
  Shuffler shuffler(options.seed);
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    shuffler.shuffle(order);
    for (const int64_t i : order) {
      const size_t n = active_of(x + i * width, columns, active.data());
      const double* before = offset + i * n_outputs;
      for (int64_t k = 0; k < n_outputs; ++k)
        score[static_cast<size_t>(k)] = static_cast<float>(before[k]) + bias[k];
      for (size_t a = 0; a < n; ++a) {
        const float* row = weights + active[a].row * n_outputs;
        for (int64_t k = 0; k < n_outputs; ++k) score[static_cast<size_t>(k)] += active[a].value * row[k];
      }
      const float top = *std::max_element(score.begin(), score.end());
      float total = 0.0F;
      for (float& s : score) total += s = std::exp(s - top);
      const auto share = static_cast<float>(weight[i]);
      for (float& s : score) s *= share / total;
      score[static_cast<size_t>(y[i])] -= share;  // now the gradient by the scores
      for (size_t a = 0; a < n; ++a) {
        const auto first = static_cast<size_t>(active[a].row * n_outputs);
        const float value = active[a].value, penalty = decay[static_cast<size_t>(active[a].row)];
        float *row = weights + first, *square = squares.data() + first;
        for (int64_t k = 0; k < n_outputs; ++k) {
          const float g = value * score[static_cast<size_t>(k)] + penalty * row[k];
          square[k] += g * g;
          row[k] -= rate * g / std::sqrt(square[k]);
        }
      }
      for (int64_t k = 0; k < n_outputs; ++k) {
        const float g = score[static_cast<size_t>(k)];
        bias_squares[static_cast<size_t>(k)] += g * g;
        bias[k] -= rate * g / std::sqrt(bias_squares[static_cast<size_t>(k)]);
      }
    }
  }
}

}  // namespace anytime
