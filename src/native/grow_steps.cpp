#include "grow_steps.hpp"

#include <algorithm>
#include <cmath>

#include "threads.hpp"

namespace anytime {
namespace {

constexpr int64_t kRowsPerThread = 4096;

void softmax_row(const double* score, int32_t n_outputs, int64_t label, double weight, int64_t n,
                 float* gradient, float* hessian) noexcept {
  const double top = *std::max_element(score, score + n_outputs);
  const double factor = static_cast<double>(n_outputs) / std::max(1, n_outputs - 1);
  double sum = 0.0;
  for (int32_t k = 0; k < n_outputs; ++k) sum += std::exp(score[k] - top);
  for (int32_t k = 0; k < n_outputs; ++k) {
    const double p = std::exp(score[k] - top) / sum;
    gradient[k * n] = static_cast<float>(weight * (p - (k == label ? 1.0 : 0.0)));
    hessian[k * n] = static_cast<float>(weight * factor * p * (1.0 - p));
  }
}

}  // namespace

void loss_derivatives(StepLoss loss, const double* scores, int64_t n, int32_t n_outputs, const double* labels,
                      const double* weight, float* gradient, float* hessian, int threads) {
  Team team(n < 2 * kRowsPerThread ? 1 : threads);
  team.share(n, kRowsPerThread, [&](int64_t first, int64_t last) noexcept {
    for (int64_t i = first; i < last; ++i) {
      const double w = weight != nullptr ? weight[i] : 1.0;
      const double* score = scores + i * n_outputs;
      if (loss == StepLoss::kSoftmax) {
        softmax_row(score, n_outputs, static_cast<int64_t>(labels[i]), w, n, gradient + i, hessian + i);
        continue;
      }
      for (int32_t k = 0; k < n_outputs; ++k) {
        const double y = labels[i * n_outputs + k];
        const double p = loss == StepLoss::kSquared ? score[k] : 1.0 / (1.0 + std::exp(-score[k]));
        gradient[k * n + i] = static_cast<float>(w * (p - y));
        hessian[k * n + i] = static_cast<float>(loss == StepLoss::kSquared ? w : w * p * (1.0 - p));
      }
    }
  });
}

void update_scores(double* scores, int64_t n, int32_t n_outputs, const int32_t* leaf, const double* values,
                   double rate, int32_t output, int threads) {
  Team team(n < 2 * kRowsPerThread ? 1 : threads);
  team.share(n, kRowsPerThread, [&](int64_t first, int64_t last) noexcept {
    for (int64_t i = first; i < last; ++i) {
      if (output >= 0) {
        scores[i * n_outputs + output] += rate * values[leaf[i]];
        continue;
      }
      const double* value = values + int64_t{leaf[i]} * n_outputs;
      for (int32_t k = 0; k < n_outputs; ++k) scores[i * n_outputs + k] += rate * value[k];
    }
  });
}

}  // namespace anytime
