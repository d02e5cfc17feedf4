#include "stream_nets.hpp"

#include <algorithm>
#include <cmath>

#include "threads.hpp"

namespace anytime {
namespace {

constexpr double kLeak = 0.01;
constexpr int64_t kAlone = 1 << 15;  // multiplications below which threads are not worth calling

double dot(const double* a, const double* b, int64_t n) noexcept {
  double sum = 0.0;
  for (int64_t j = 0; j < n; ++j) sum += a[j] * b[j];
  return sum;
}

void add(double by, const double* from, double* to, int64_t n) noexcept {
  for (int64_t j = 0; j < n; ++j) to[j] += by * from[j];
}

}  // namespace

StreamNets::StreamNets(Activation activation, int64_t hidden, StepMethod method, double step,
                       int64_t n_features, int64_t n_outputs)
    : StreamBank(n_features, n_outputs),
      activation_(activation),
      n_units_(activation == Activation::none ? n_features : hidden),
      stepper_(method, step) {}

void StreamNets::append(int64_t n) {
  n_learners_ += n;
  parameters_.resize(static_cast<size_t>(n_learners_ * size()));
  stepper_.append(n, size() - frozen());
  means_.append(n, size());
}

// The features of a row and a 1, (k + 1).
void StreamNets::features(int64_t learner, const double* z, double* units) const noexcept {
  const int64_t k = n_features() + 1;
  if (activation_ == Activation::none) {
    std::copy_n(z, k, units);
    return;
  }
  const double* hidden = parameters_.data() + learner * size();
  for (int64_t u = 0; u < n_units_; ++u) {
    const double sum = dot(hidden + u * k, z, k);
    switch (activation_) {
      case Activation::cosine:
        units[u] = std::cos(sum);
        break;
      case Activation::sigmoid:
        units[u] = 1.0 / (1.0 + std::exp(-sum));
        break;
      default:
        units[u] = sum > 0.0 ? sum : kLeak * sum;
    }
  }
  units[n_units_] = 1.0;
}

void StreamNets::outputs(int64_t learner, const double* units, double* out) const noexcept {
  const double* w = parameters_.data() + learner * size() + hidden_size();
  for (int64_t o = 0; o < n_outputs(); ++o) out[o] = dot(w + o * (n_units_ + 1), units, n_units_ + 1);
}

void StreamNets::predict(const StreamRows& rows, double* out, Team&) const {
  const int64_t m = n_outputs();
  std::vector<double> z, units(static_cast<size_t>(n_units_ + 1));
  with_constant(rows.x, rows.n, n_features(), z);
  for (int64_t i = 0; i < n_learners_; ++i) {
    for (int64_t row = 0; row < rows.n; ++row) {
      features(i, z.data() + row * (n_features() + 1), units.data());
      outputs(i, units.data(), out + (i * rows.n + row) * m);
    }
  }
}

void StreamNets::answer(const StreamRows& rows, double* out, Team& team) {
  const int64_t m = n_outputs(), k = n_units_ + 1;
  with_constant(rows.x, rows.n, n_features(), rows_);
  units_.resize(static_cast<size_t>(n_learners_ * rows.n * k));
  team.each(n_learners_, n_learners_ * rows.n * size() >= kAlone, [&](int64_t i, size_t) noexcept {
    for (int64_t row = 0; row < rows.n; ++row) {
      double* units = units_.data() + (i * rows.n + row) * k;
      features(i, rows_.data() + row * (n_features() + 1), units);
      outputs(i, units, out + (i * rows.n + row) * m);
    }
  });
}

void StreamNets::update(const StreamRows& rows, const double* targets, Team& team) {
  std::vector<double> unused(static_cast<size_t>(n_learners_ * rows.n * n_outputs()));
  answer(rows, unused.data(), team);
  learn(rows, targets, team);
}

// Of 1/2 |target - h|^2, the mean over the rows, in all parameters.
void StreamNets::gradient(int64_t learner, const StreamRows& rows, const double* targets, const double* units,
                          double* out) const noexcept {
  const int64_t m = n_outputs(), k = n_units_ + 1, d = n_features() + 1;
  const double* w = parameters_.data() + learner * size() + hidden_size();
  std::fill(out, out + size(), 0.0);
  double total = 0.0;
  for (int64_t row = 0; row < rows.n; ++row) total += rows.weight_of(row);
  for (int64_t row = 0; row < rows.n; ++row, units += k, targets += m) {
    const double share = rows.weight_of(row) / total;
    if (share == 0.0) continue;
    const double* z = rows_.data() + row * d;
    for (int64_t o = 0; o < m; ++o) {
      const double miss = share * (dot(w + o * k, units, k) - targets[o]);
      add(miss, units, out + hidden_size() + o * k, k);
      if (activation_ != Activation::sigmoid && activation_ != Activation::leaky_relu) continue;
      for (int64_t u = 0; u < n_units_; ++u) {
        const double unit = units[u];
        const double slope = activation_ == Activation::sigmoid ? unit * (1.0 - unit)
                             : unit > 0.0                       ? 1.0
                                                                : kLeak;
        add(miss * w[o * k + u] * slope, z, out + u * d, d);
      }
    }
  }
}

void StreamNets::learn(const StreamRows& rows, const double* targets, Team& team) {
  const int64_t m = n_outputs(), k = n_units_ + 1;
  bool any = false;
  for (int64_t row = 0; row < rows.n; ++row) any = any || rows.weight_of(row) != 0.0;
  if (!any) return;
  gradient_.resize(team.size() * static_cast<size_t>(size()));
  team.each(n_learners_, n_learners_ * rows.n * size() >= kAlone, [&](int64_t i, size_t part) noexcept {
    double* slopes = gradient_.data() + static_cast<int64_t>(part) * size();
    gradient(i, rows, targets + i * rows.n * m, units_.data() + i * rows.n * k, slopes);
    double* own = parameters_.data() + i * size();
    stepper_.apply(i, own + frozen(), slopes + frozen());
    means_.add(i, own);
  });
}

}  // namespace anytime
