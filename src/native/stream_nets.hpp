// A bank of linear functions of features: the columns themselves, fixed random cosines of them, or hidden
// units that learn too.
#pragma once

#include <span>
#include <vector>

#include "stream.hpp"
#include "stream_step.hpp"

namespace anytime {

enum class Activation { none, cosine, sigmoid, leaky_relu };

// A learner's parameters: hidden weights (hidden, d + 1), the last of a row the constant's, then outputs (m,
// k + 1) where k is the number of features. Without an activation there are no hidden weights and k = d;
// those of cosines do not learn.
class StreamNets final : public StreamBank {
 public:
  StreamNets(Activation activation, int64_t hidden, StepMethod method, double step, int64_t n_features,
             int64_t n_outputs);

  void predict(const StreamRows& rows, double* out, Team& team) const override;
  void update(const StreamRows& rows, const double* targets, Team& team) override;
  void answer(const StreamRows& rows, double* out, Team& team) override;
  void learn(const StreamRows& rows, const double* targets, Team& team) override;
  void append(int64_t n) override;

  int64_t size() const noexcept { return hidden_size() + n_outputs() * (n_units_ + 1); }
  int64_t hidden_size() const noexcept {
    return activation_ == Activation::none ? 0 : n_units_ * (n_features() + 1);
  }
  std::vector<double>& parameters() noexcept { return parameters_; }  // (N, size)
  Stepper& stepper() noexcept { return stepper_; }
  ParameterMeans& means() noexcept { return means_; }

 private:
  int64_t frozen() const noexcept { return activation_ == Activation::cosine ? hidden_size() : 0; }
  void features(int64_t learner, const double* z, double* units) const noexcept;
  void outputs(int64_t learner, const double* units, double* out) const noexcept;
  void gradient(int64_t learner, const StreamRows& rows, const double* targets, const double* units,
                double* out) const noexcept;

  Activation activation_;
  int64_t n_units_;
  Stepper stepper_;
  ParameterMeans means_;
  std::vector<double> parameters_;
  std::vector<double> rows_;      // (n, d + 1) of the rows that are learned from
  std::vector<double> units_;     // (N, n, k + 1) their features, and a 1
  std::vector<double> gradient_;  // (threads, size)
};

}  // namespace anytime
