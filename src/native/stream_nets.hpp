// A bank of linear functions of features: the columns themselves, fixed random cosines of them, or hidden
// units that learn too, each for all columns or for every place of a window that is moved over an image.
#pragma once

#include <span>
#include <vector>

#include "stream.hpp"
#include "stream_step.hpp"

namespace anytime {

enum class Activation { none, cosine, sigmoid, leaky_relu };

// Columns that a hidden unit sees: w of them at each place, -1 where there is none and 0 is seen. Empty: one
// place, which sees all.
struct NetView {
  std::vector<int32_t> columns;  // (places, w)
  int64_t window = 0;            // w
};

// A learner's parameters: hidden weights (hidden, w + 1), the last of a row the constant's, then outputs (m,
// k + 1) where k = hidden * places is the number of features, those of a unit next to each other. Without an
// activation there are no hidden weights and k = d; those of cosines do not learn.
class StreamNets final : public StreamBank {
 public:
  StreamNets(Activation activation, int64_t hidden, StepMethod method, double step, int64_t n_features,
             int64_t n_outputs, NetView view = {});

  void predict(const StreamRows& rows, double* out, Team& team) const override;
  void update(const StreamRows& rows, const double* targets, Team& team) override;
  void answer(const StreamRows& rows, double* out, Team& team) override;
  void learn(const StreamRows& rows, const double* targets, Team& team) override;
  void append(int64_t n) override;
  // A learner begins anew, with parameters (size).
  void restart(int64_t learner, const double* parameters) noexcept;

  int64_t size() const noexcept { return hidden_size() + n_outputs() * (n_units_ + 1); }
  int64_t hidden_size() const noexcept { return activation_ == Activation::none ? 0 : n_hidden_ * seen(); }
  std::vector<double>& parameters() noexcept { return parameters_; }  // (N, size)
  Stepper& stepper() noexcept { return stepper_; }
  ParameterMeans& means() noexcept { return means_; }

 private:
  int64_t frozen() const noexcept { return activation_ == Activation::cosine ? hidden_size() : 0; }
  int64_t seen() const noexcept { return view_.window + 1; }  // numbers at a place, the constant among them
  bool learns_hidden() const noexcept {
    return activation_ == Activation::sigmoid || activation_ == Activation::leaky_relu;
  }
  void look(const double* x, double* z) const noexcept;
  void features(int64_t learner, const double* z, double* units) const noexcept;
  void outputs(int64_t learner, const double* units, double* out) const noexcept;
  void gradient(int64_t learner, const StreamRows& rows, const double* targets, const double* units,
                double* out) const noexcept;

  Activation activation_;
  NetView view_;
  int64_t n_places_, n_hidden_, n_units_;
  Stepper stepper_;
  ParameterMeans means_;
  std::vector<double> parameters_;
  std::vector<double> rows_;      // (n, places, w + 1) of the rows that are learned from
  std::vector<double> units_;     // (N, n, k + 1) their features, and a 1
  std::vector<double> gradient_;  // (threads, size + m)
};

}  // namespace anytime
