// The rest of a boosting step: derivatives of common losses, and adding a tree's answers to the scores.
#pragma once

#include <cstdint>
#include <span>

namespace anytime {

// Scores (n, n_outputs) in any layout: that of row i for output k is at[i * row_step + k * output_step].
template <class T>
struct Scores {
  T* at;
  int64_t n;
  int32_t n_outputs;
  int64_t row_step, output_step;
};

enum class StepLoss { kSquared, kLogistic, kSoftmax };

// First and second derivatives by the scores. `labels` holds targets (squared, n *
// n_outputs), 0 or 1 (logistic, n) or classes (softmax, n). Output k of `gradient` and `hessian` stands in
// row k of (n_outputs, n). The second derivative of softmax is p (1 - p), times n_outputs / (n_outputs - 1)
// as if one score were fixed.
void loss_derivatives(StepLoss loss, const Scores<const double>& scores, const double* labels,
                      const double* weight, float* gradient, float* hessian, int threads);

// largest[k] = the largest absolute value of parts[i, k] over the `rows`, 0 where there are none. Throws
// std::invalid_argument if a row is none.
template <class T>
void largest_parts(const Scores<const T>& parts, std::span<const int64_t> rows, double* largest, int threads);

// sums[l, k] = the sum over the `rows` in leaf l of parts[i, k] * scale[k], each rounded to a whole number.
// The sums are exact, whatever the order of the rows, where all those numbers together stay below 2^51.
// Throws std::invalid_argument if a row is none, or its leaf is none of the n_leaves.
template <class T>
void leaf_sums(const Scores<const T>& parts, const int32_t* leaf, std::span<const int64_t> rows,
               int64_t n_leaves, const double* scale, double* sums, int threads);

// scores[i, output] += rate * values[leaf[i]]; all outputs at once when output is -1. Throws
// std::invalid_argument, and changes nothing, if a number is none of the n_leaves leaves.
void update_scores(const Scores<double>& scores, const int32_t* leaf, int64_t n_leaves, const double* values,
                   double rate, int32_t output, int threads);

}  // namespace anytime
