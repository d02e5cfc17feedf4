#include "coded.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "threads.hpp"
#include "wide.hpp"

namespace anytime {
namespace {

constexpr int64_t kRowsPerTask = 256;
constexpr float kFirstSquare = 1e-6F;  // of AdaGrad, so that a first step is finite

struct Active {
  int32_t row;  // of the weights
  float value;
};

// What one row of x holds.
size_t active_of(const double* x, const CodedColumns& columns, Active* out) noexcept {
  size_t n = 0;
  for (size_t c = 0; c < columns.sizes.size(); ++c) {
    const double value = x[c];
    if (columns.sizes[c] == 0) {
      if (value == 0.0 || value != value) continue;
      const double scale = columns.scales.empty() ? 1.0 : columns.scales[c];
      out[n++] = {static_cast<int32_t>(columns.starts[c]), static_cast<float>(value / scale)};
    } else if (value >= 0.0 && value < columns.sizes[c]) {
      out[n++] = {static_cast<int32_t>(columns.starts[c]) + static_cast<int32_t>(value), 1.0F};
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

// Rows of x to learn from: what each holds, read once for all epochs.
struct LearnedRows {
  std::vector<int64_t> row;   // of x
  std::vector<size_t> first;  // of its cells; one more than there are rows
  std::vector<Active> cells;
};

// Weights and the squares of their gradients so far, side by side: a row of the first, then one of the
// second. Rows are filled up to whole vectors with outputs that stay at 0.
class Steps {
 public:
  Steps(int64_t n_rows, int64_t n_outputs)
      : stride_(static_cast<size_t>((n_outputs + 7) / 8 * 8)),
        numbers_(2 * stride_ * static_cast<size_t>(n_rows), 0.0F) {
    for (size_t first = stride_; first < numbers_.size(); first += 2 * stride_)
      std::fill_n(numbers_.data() + first, stride_, kFirstSquare);
  }
  size_t stride() const noexcept { return stride_; }
  float* at(int64_t row) noexcept { return numbers_.data() + 2 * stride_ * static_cast<size_t>(row); }

 private:
  size_t stride_;
  std::vector<float> numbers_;
};

ANYTIME_WIDE void add_scores(const Active* active, size_t n, Steps& steps, float* __restrict score) noexcept {
  const size_t stride = steps.stride();
  for (size_t a = 0; a < n; ++a) {
    const float* __restrict row = steps.at(active[a].row);
    const float value = active[a].value;
    for (size_t k = 0; k < stride; ++k) score[k] += value * row[k];
  }
}

// A step of AdaGrad for all weights of a row of x; `pull` is the gradient by its scores.
ANYTIME_WIDE void take_steps(const Active* active, size_t n, const float* __restrict pull, const float* decay,
                             float rate, Steps& steps) noexcept {
  const size_t stride = steps.stride();
  for (size_t a = 0; a < n; ++a) {
    float* __restrict weight = steps.at(active[a].row), * __restrict square = weight + stride;
    const float value = active[a].value, penalty = decay[active[a].row];
    for (size_t k = 0; k < stride; ++k) {
      const float g = value * pull[k] + penalty * weight[k];
      square[k] += g * g;
      weight[k] -= rate * g / std::sqrt(square[k]);
    }
  }
}

}  // namespace

void check_coded(const CodedColumns& columns, int64_t n_weights) {
  if (columns.sizes.size() != columns.starts.size())
    throw std::invalid_argument("sizes and starts have different lengths");
  if (n_weights > std::numeric_limits<int32_t>::max())
    throw std::invalid_argument("there are more than 2^31 - 1 rows of weights");
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
        const float* row = weights + int64_t{active[a].row} * n_outputs;
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
  const auto outputs = static_cast<size_t>(n_outputs);
  std::vector<Active> held(static_cast<size_t>(width) + 1);
  std::vector<float> decay(static_cast<size_t>(n_weights) + 1, 0.0F);
  LearnedRows rows{{}, {0}, {}};
  for (int64_t i = 0; i < n_rows; ++i) {
    if (weight[i] == 0.0) continue;
    const size_t n = active_of(x + i * width, columns, held.data());
    for (size_t a = 0; a < n; ++a) decay[static_cast<size_t>(held[a].row)] += 1.0F;
    rows.row.push_back(i);
    rows.cells.insert(rows.cells.end(), held.begin(), held.begin() + static_cast<std::ptrdiff_t>(n));
    rows.first.push_back(rows.cells.size());
  }
  // a row of weights is visited as often as it is active: each visit takes its share of the penalty
  for (float& d : decay) d = d > 0.0F ? static_cast<float>(options.l2) / d : 0.0F;
  Steps steps(n_weights + 1, n_outputs);  // the last row is the bias, without a penalty
  for (int64_t r = 0; r < n_weights; ++r) std::copy_n(weights + r * n_outputs, outputs, steps.at(r));
  std::copy_n(bias, outputs, steps.at(n_weights));
  const Active always{static_cast<int32_t>(n_weights), 1.0F};
  const auto rate = static_cast<float>(options.rate);
  std::vector<float> score(steps.stride());
  std::vector<int64_t> order(rows.row.size());
  for (size_t r = 0; r < order.size(); ++r) order[r] = static_cast<int64_t>(r);
  Shuffler shuffler(options.seed);
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    shuffler.shuffle(order);
    for (const int64_t place : order) {
      const auto r = static_cast<size_t>(place);
      const int64_t i = rows.row[r];
      const Active* active = rows.cells.data() + rows.first[r];
      const size_t n = rows.first[r + 1] - rows.first[r];
      for (size_t k = 0; k < outputs; ++k)
        score[k] = static_cast<float>(offset[i * n_outputs + static_cast<int64_t>(k)]);
      std::fill(score.begin() + n_outputs, score.end(), 0.0F);
      add_scores(&always, 1, steps, score.data());
      add_scores(active, n, steps, score.data());
      const float top = *std::max_element(score.begin(), score.begin() + n_outputs);
      float total = 0.0F;
      for (size_t k = 0; k < outputs; ++k) total += score[k] = std::exp(score[k] - top);
      const auto share = static_cast<float>(weight[i]);
      for (size_t k = 0; k < outputs; ++k) score[k] *= share / total;
      score[static_cast<size_t>(y[i])] -= share;  // now the gradient by the scores
      take_steps(active, n, score.data(), decay.data(), rate, steps);
      take_steps(&always, 1, score.data(), decay.data(), rate, steps);
    }
  }
  for (int64_t r = 0; r < n_weights; ++r) std::copy_n(steps.at(r), outputs, weights + r * n_outputs);
  std::copy_n(steps.at(n_weights), outputs, bias);
}

}  // namespace anytime
