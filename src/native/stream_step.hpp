// Steps along a gradient: plain, Adagrad, Adam.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace anytime {

enum class StepMethod { sgd, adagrad, adam };

// What the methods remember of every parameter of every learner.
class Stepper {
 public:
  Stepper(StepMethod method, double step) : method_(method), step_(step) {}

  // Learners of `size` parameters each.
  void append(int64_t n, int64_t size) {
    size_ = size;
    steps_.resize(steps_.size() + static_cast<size_t>(n));
    const size_t all = steps_.size() * static_cast<size_t>(size);
    if (method_ != StepMethod::sgd) squares_.resize(all);
    if (method_ == StepMethod::adam) means_.resize(all);
  }

  // Moves the parameters of a learner against their gradient.
  void apply(int64_t learner, double* parameters, const double* gradient) noexcept {
    const int64_t n = size_;
    const int64_t taken = ++steps_[static_cast<size_t>(learner)];
    double* squares = squares_.data() + (squares_.empty() ? 0 : learner * n);
    if (method_ == StepMethod::sgd) {
      for (int64_t j = 0; j < n; ++j) parameters[j] -= step_ * gradient[j];
    } else if (method_ == StepMethod::adagrad) {
      for (int64_t j = 0; j < n; ++j) {
        squares[j] += gradient[j] * gradient[j];
        parameters[j] -= step_ * gradient[j] / (std::sqrt(squares[j]) + kTiny);
      }
    } else {
      double* means = means_.data() + learner * n;
      const double first = 1.0 - std::pow(kMean, static_cast<double>(taken));
      const double second = std::sqrt(1.0 - std::pow(kSquare, static_cast<double>(taken)));
      const double step = step_ * second / first;
      const double tiny = kTiny * second;
      for (int64_t j = 0; j < n; ++j) {
        means[j] += (1.0 - kMean) * (gradient[j] - means[j]);
        squares[j] += (1.0 - kSquare) * (gradient[j] * gradient[j] - squares[j]);
        parameters[j] -= step * means[j] / (std::sqrt(squares[j]) + tiny);
      }
    }
  }

  // Forgets what it knows of a learner.
  void restart(int64_t learner) noexcept {
    steps_[static_cast<size_t>(learner)] = 0;
    if (!squares_.empty()) std::fill_n(squares_.begin() + learner * size_, size_, 0.0);
    if (!means_.empty()) std::fill_n(means_.begin() + learner * size_, size_, 0.0);
  }

  std::vector<double>& squares() noexcept { return squares_; }
  std::vector<double>& means() noexcept { return means_; }
  std::vector<int64_t>& steps() noexcept { return steps_; }

 private:
  static constexpr double kMean = 0.9, kSquare = 0.999, kTiny = 1e-8;

  StepMethod method_;
  double step_;
  int64_t size_ = 0;
  std::vector<double> squares_, means_;  // (N, size)
  std::vector<int64_t> steps_;           // (N) taken
};

// Means of parameters over rounds.
class ParameterMeans {
 public:
  // From now on, for parameters (N, size).
  void begin(int64_t n, int64_t size) {
    on_ = true;
    append(n, size);
  }
  void append(int64_t n, int64_t size) {
    if (!on_) return;
    size_ = size;
    rounds_.resize(rounds_.size() + static_cast<size_t>(n));
    means_.resize(rounds_.size() * static_cast<size_t>(size));
  }
  bool on() const noexcept { return on_; }
  void add(int64_t learner, const double* parameters) noexcept {
    if (!on_) return;
    const auto rounds = static_cast<double>(++rounds_[static_cast<size_t>(learner)]);
    double* mean = means_.data() + learner * size_;
    for (int64_t j = 0; j < size_; ++j) mean[j] += (parameters[j] - mean[j]) / rounds;
  }
  void restart(int64_t learner) noexcept {
    if (!on_) return;
    rounds_[static_cast<size_t>(learner)] = 0;
    std::fill_n(means_.begin() + learner * size_, size_, 0.0);
  }

  std::vector<double>& means() noexcept { return means_; }
  std::vector<int64_t>& rounds() noexcept { return rounds_; }

 private:
  bool on_ = false;
  int64_t size_ = 0;
  std::vector<double> means_;    // (N, size)
  std::vector<int64_t> rounds_;  // (N)
};

// Rows with missing values at 0, and a 1 behind each: (n, d + 1).
inline void with_constant(const double* x, int64_t n, int64_t d, std::vector<double>& out) {
  out.resize(static_cast<size_t>(n * (d + 1)));
  double* to = out.data();
  for (int64_t row = 0; row < n; ++row, to += d + 1) {
    for (int64_t j = 0; j < d; ++j) to[j] = std::isnan(x[row * d + j]) ? 0.0 : x[row * d + j];
    to[d] = 1.0;
  }
}

}  // namespace anytime
