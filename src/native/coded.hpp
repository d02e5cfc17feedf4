// Linear scores over columns of which some hold numbers and some codes of categories, and their training.
//
// A column of numbers has one row of weights; one of categories has a row for each code. A value that is
// missing (NaN), zero, or a code that is not known adds nothing: rows with few active columns are cheap.
#pragma once

#include <cstdint>
#include <span>

namespace anytime {

struct CodedColumns {
  std::span<const int32_t> sizes;       // categories of each column; 0: numbers
  std::span<const int64_t> starts;      // the first row of weights of each column
  std::span<const double> scales = {};  // by which numbers are divided; none: 1
};

// Throws std::invalid_argument unless every row of weights that a column can ask for is one of n_weights.
void check_coded(const CodedColumns& columns, int64_t n_weights);

// out (n, K) = bias + the weights of what each row of x (n, c) holds, in the order of the columns.
void coded_scores(const double* x, int64_t n_rows, const CodedColumns& columns, const float* weights,
                  const float* bias, int64_t n_outputs, int threads, double* out);

struct CodedOptions {
  int64_t epochs = 10;
  double rate = 0.1;  // of AdaGrad
  double l2 = 0.0;    // times half the squared weights, beside the sum of the losses of all rows
  uint64_t seed = 0;
};

// Multinomial logistic regression beside scores that are there already: sum_i weight_i * softmax
// loss(offset_i + scores_i)
// + l2 / 2 |weights|^2, by AdaGrad over shuffled rows. One thread, the same bits for the same seed. Rows of
// weight 0 are passed over; y is the class of each row.
void coded_softmax_fit(const double* x, int64_t n_rows, const CodedColumns& columns, const double* offset,
                       const int32_t* y, const double* weight, int64_t n_outputs, const CodedOptions& options,
                       int64_t n_weights, float* weights, float* bias);

}  // namespace anytime
