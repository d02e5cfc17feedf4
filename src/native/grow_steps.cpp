#include "grow_steps.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "threads.hpp"
#include "wide.hpp"

namespace anytime {
namespace {

constexpr int64_t kRowsPerThread = 4096;
constexpr int64_t kBlock = 64;  // rows worked on together

// exp to about 1e-15 for x in [-700, 700], nearest end beyond; without branches, for vectors.
inline double exponential(double x) noexcept {
  x = std::min(std::max(x, -700.0), 700.0);
  constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52: what is added and taken off again is rounded
  const double shifted = x * 1.4426950408889634 + kRounder;
  const double n = shifted - kRounder;
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double p = 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  // n stands in the low bits of `shifted`: move it to the exponent.
  return p * std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
}

ANYTIME_WIDE void logistic(const double* score, const double* y, const double* weight, int64_t n,
                           float* gradient, float* hessian) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    const double p = 1.0 / (1.0 + exponential(-score[i]));
    gradient[i] = static_cast<float>(weight[i] * (p - y[i]));
    hessian[i] = static_cast<float>(weight[i] * p * (1.0 - p));
  }
}

// scores: (n_outputs, kBlock); becomes the probabilities.
ANYTIME_WIDE void softmax(double* scores, int32_t n_outputs) noexcept {
  double top[kBlock], sum[kBlock];
  std::fill_n(top, kBlock, -std::numeric_limits<double>::infinity());
  std::fill_n(sum, kBlock, 0.0);
  for (int32_t k = 0; k < n_outputs; ++k) {
    for (int64_t i = 0; i < kBlock; ++i) top[i] = std::max(top[i], scores[k * kBlock + i]);
  }
  for (int32_t k = 0; k < n_outputs; ++k) {
    double* score = scores + k * kBlock;
    for (int64_t i = 0; i < kBlock; ++i) {
      score[i] = exponential(score[i] - top[i]);
      sum[i] += score[i];
    }
  }
  for (int32_t k = 0; k < n_outputs; ++k) {
    for (int64_t i = 0; i < kBlock; ++i) scores[k * kBlock + i] /= sum[i];
  }
}

struct Derivatives {
  StepLoss loss;
  const Scores<const double>& scores;
  const double *labels, *weight;
  float *gradient, *hessian;

  // Rows [first, first + count), at most kBlock; `room` holds n_outputs * kBlock numbers.
  void block(int64_t first, int64_t count, double* room) const noexcept;
};

void Derivatives::block(int64_t first, int64_t count, double* room) const noexcept {
  const int64_t n = scores.n;
  const int32_t n_outputs = scores.n_outputs;
  double w[kBlock], y[kBlock] = {};
  for (int64_t i = 0; i < kBlock; ++i) w[i] = weight != nullptr && i < count ? weight[first + i] : 1.0;
  for (int32_t k = 0; k < n_outputs; ++k) {
    const double* from = scores.at + first * scores.row_step + k * scores.output_step;
    for (int64_t i = 0; i < count; ++i) room[k * kBlock + i] = from[i * scores.row_step];
    std::fill(room + k * kBlock + count, room + (k + 1) * kBlock, 0.0);
  }
  if (loss == StepLoss::kSoftmax) softmax(room, n_outputs);
  const double factor = static_cast<double>(n_outputs) / std::max(1, n_outputs - 1);
  for (int32_t k = 0; k < n_outputs; ++k) {
    float *g = gradient + k * n + first, *h = hessian + k * n + first;
    const double* s = room + k * kBlock;
    if (loss == StepLoss::kSoftmax) {
      for (int64_t i = 0; i < count; ++i) {
        g[i] = static_cast<float>(w[i] * (s[i] - (labels[first + i] == k ? 1.0 : 0.0)));
        h[i] = static_cast<float>(w[i] * factor * s[i] * (1.0 - s[i]));
      }
      continue;
    }
    for (int64_t i = 0; i < count; ++i) y[i] = labels[(first + i) * n_outputs + k];
    if (loss == StepLoss::kLogistic) {
      logistic(s, y, w, count, g, h);
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      g[i] = static_cast<float>(w[i] * (s[i] - y[i]));
      h[i] = static_cast<float>(w[i]);
    }
  }
}

}  // namespace

void loss_derivatives(StepLoss loss, const Scores<const double>& scores, const double* labels,
                      const double* weight, float* gradient, float* hessian, int threads) {
  const int64_t n = scores.n;
  const int32_t n_outputs = scores.n_outputs;
  for (int64_t i = 0; loss == StepLoss::kSoftmax && i < n; ++i) {
    if (!(labels[i] >= 0.0 && labels[i] < n_outputs))
      throw std::invalid_argument("y holds a class that has no score");
  }
  const Derivatives at{loss, scores, labels, weight, gradient, hessian};
  Team team(n < 2 * kRowsPerThread ? 1 : threads);
  const size_t width = static_cast<size_t>(n_outputs) * kBlock;
  std::vector<double> rooms(team.size() * width);
  team.each((n + kRowsPerThread - 1) / kRowsPerThread, true, [&](int64_t task, size_t part) noexcept {
    const int64_t end = std::min(n, (task + 1) * kRowsPerThread);
    for (int64_t first = task * kRowsPerThread; first < end; first += kBlock)
      at.block(first, std::min(kBlock, end - first), rooms.data() + part * width);
  });
}

template <class T>
void largest_parts(const Scores<const T>& parts, std::span<const int64_t> rows, double* largest,
                   int threads) {
  for (const int64_t row : rows)
    if (row < 0 || row >= parts.n) throw std::invalid_argument("rows holds a number that is no row");
  Team team(static_cast<int64_t>(rows.size()) < 2 * kRowsPerThread ? 1 : threads);
  team.share(parts.n_outputs, 1, [&](int64_t first, int64_t last) noexcept {
    for (int64_t k = first; k < last; ++k) {
      const T* part = parts.at + k * parts.output_step;
      T most = 0;
      for (const int64_t row : rows) most = std::max(most, std::abs(part[row * parts.row_step]));
      largest[k] = static_cast<double>(most);
    }
  });
}

template <class T>
void leaf_sums(const Scores<const T>& parts, const int32_t* leaf, std::span<const int64_t> rows,
               int64_t n_leaves, const double* scale, double* sums, int threads) {
  for (const int64_t row : rows) {
    if (row < 0 || row >= parts.n) throw std::invalid_argument("rows holds a number that is no row");
    if (leaf[row] < 0 || leaf[row] >= n_leaves)
      throw std::invalid_argument("leaf holds a number that is no leaf");
  }
  constexpr double kWhole = 0x1.8p52;  // a float next to it has no fraction: adding and taking it off rounds
  const int64_t width = parts.n_outputs;
  Team team(static_cast<int64_t>(rows.size()) < 2 * kRowsPerThread ? 1 : threads);
  team.share(width, 1, [&](int64_t first, int64_t last) noexcept {
    for (int64_t k = first; k < last; ++k) {
      const T* part = parts.at + k * parts.output_step;
      for (int64_t l = 0; l < n_leaves; ++l) sums[l * width + k] = 0.0;
      for (const int64_t row : rows)
        sums[leaf[row] * width + k] +=
            static_cast<double>(part[row * parts.row_step]) * scale[k] + kWhole - kWhole;
    }
  });
}

template void largest_parts(const Scores<const float>&, std::span<const int64_t>, double*, int);
template void largest_parts(const Scores<const double>&, std::span<const int64_t>, double*, int);
template void leaf_sums(const Scores<const float>&, const int32_t*, std::span<const int64_t>, int64_t,
                        const double*, double*, int);
template void leaf_sums(const Scores<const double>&, const int32_t*, std::span<const int64_t>, int64_t,
                        const double*, double*, int);

void update_scores(const Scores<double>& scores, const int32_t* leaf, int64_t n_leaves, const double* values,
                   double rate, int32_t output, int threads) {
  const int64_t n = scores.n;
  Team team(n < 2 * kRowsPerThread ? 1 : threads);
  std::atomic<bool> bad{false};
  team.share(n, kRowsPerThread, [&](int64_t first, int64_t last) noexcept {
    uint32_t most = 0;  // a negative number is a large one
    for (int64_t i = first; i < last; ++i) most = std::max(most, static_cast<uint32_t>(leaf[i]));
    if (first < last && most >= n_leaves) bad = true;
  });
  if (bad) throw std::invalid_argument("leaf holds a number that is no leaf");
  const int32_t width = output < 0 ? scores.n_outputs : 1;
  team.share(n, kRowsPerThread, [&](int64_t first, int64_t last) noexcept {
    for (int32_t k = 0; k < width; ++k) {
      double* to = scores.at + (output < 0 ? k : output) * scores.output_step;
      for (int64_t i = first; i < last; ++i)
        to[i * scores.row_step] += rate * values[int64_t{leaf[i]} * width + k];
    }
  });
}

}  // namespace anytime
