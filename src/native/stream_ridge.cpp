#include "stream_ridge.hpp"

#include <algorithm>
#include <utility>

namespace anytime {
namespace {

double dot(const double* a, const double* b, int64_t n) noexcept {
  double sum = 0.0;
  for (int64_t j = 0; j < n; ++j) sum += a[j] * b[j];
  return sum;
}

}  // namespace

StreamRidge::StreamRidge(double penalty, int64_t n_features, int64_t n_outputs)
    : StreamBank(n_features, n_outputs), penalty_(penalty), gain_(static_cast<size_t>(n_features + 1)) {}

void StreamRidge::append(int64_t n) {
  if (n > 0 && (starts_.empty() || seen_ > 0)) {  // a new generation, which has seen nothing
    starts_.push_back(n_learners_);
    add_inverse(inverses_);
    seen_ = 0;
  }
  n_learners_ += n;
  weights_.resize(static_cast<size_t>(n_learners_ * size()));
  means_.append(n, size());
}

// That of a generation that has seen nothing.
void StreamRidge::add_inverse(std::vector<double>& to) const {
  const auto k = static_cast<size_t>(n_features() + 1), at = to.size();
  to.resize(at + k * k);
  for (size_t j = 0; j < k; ++j) to[at + j * (k + 1)] = 1.0 / penalty_;
}

void StreamRidge::restart(std::span<const bool> learners) {
  const int64_t square = (n_features() + 1) * (n_features() + 1);
  std::vector<int64_t> starts;
  std::vector<double> inverses;
  size_t generation = 0;
  for (int64_t i = 0; i < n_learners_; ++i) {
    const bool fresh = learners[static_cast<size_t>(i)];
    while (generation + 1 < starts_.size() && starts_[generation + 1] <= i) ++generation;
    if (starts_[generation] == i || fresh != learners[static_cast<size_t>(i - 1)]) {
      starts.push_back(i);
      if (fresh) {
        add_inverse(inverses);
      } else {
        const auto from = inverses_.begin() + static_cast<int64_t>(generation) * square;
        inverses.insert(inverses.end(), from, from + square);
      }
    }
    if (!fresh) continue;
    std::fill_n(weights_.begin() + i * size(), size(), 0.0);
    means_.restart(i);
  }
  starts_ = std::move(starts);
  inverses_ = std::move(inverses);
}

void StreamRidge::predict(const StreamRows& rows, double* out, Team&) const {
  const int64_t m = n_outputs(), k = n_features() + 1;
  std::vector<double> z;
  with_constant(rows.x, rows.n, n_features(), z);
  for (int64_t i = 0; i < n_learners_; ++i) {
    for (int64_t row = 0; row < rows.n; ++row) {
      for (int64_t o = 0; o < m; ++o) {
        out[(i * rows.n + row) * m + o] = dot(weights_.data() + (i * m + o) * k, z.data() + row * k, k);
      }
    }
  }
}

// gain = P z / (1 / weight + z P z); w += gain (target - w z); P -= gain (P z)^T.
void StreamRidge::learn_row(const double* z, double weight, const double* targets, int64_t stride) {
  const int64_t m = n_outputs(), k = n_features() + 1;
  for (size_t g = 0; g < starts_.size(); ++g) {
    double* inverse = inverses_.data() + static_cast<int64_t>(g) * k * k;
    for (int64_t j = 0; j < k; ++j) gain_[static_cast<size_t>(j)] = dot(inverse + j * k, z, k);
    const double scale = 1.0 / (1.0 / weight + dot(gain_.data(), z, k));
    const int64_t end = g + 1 < starts_.size() ? starts_[g + 1] : n_learners_;
    for (int64_t i = starts_[g]; i < end; ++i) {
      for (int64_t o = 0; o < m; ++o) {
        double* w = weights_.data() + (i * m + o) * k;
        const double move = scale * (targets[i * stride + o] - dot(w, z, k));
        for (int64_t j = 0; j < k; ++j) w[j] += move * gain_[static_cast<size_t>(j)];
      }
    }
    for (int64_t a = 0; a < k; ++a) {
      const double by = gain_[static_cast<size_t>(a)];
      // (by * gain) first: the matrix stays symmetric to the last bit.
      for (int64_t b = 0; b < k; ++b) inverse[a * k + b] -= by * gain_[static_cast<size_t>(b)] * scale;
    }
  }
}

void StreamRidge::update(const StreamRows& rows, const double* targets, Team&) {
  const int64_t m = n_outputs(), k = n_features() + 1;
  with_constant(rows.x, rows.n, n_features(), rows_);
  for (int64_t row = 0; row < rows.n; ++row) {
    const double weight = rows.weight_of(row);
    if (weight == 0.0) continue;
    learn_row(rows_.data() + row * k, weight, targets + row * m, rows.n * m);
    ++seen_;
  }
  for (int64_t i = 0; i < n_learners_; ++i) means_.add(i, weights_.data() + i * size());
}

}  // namespace anytime
