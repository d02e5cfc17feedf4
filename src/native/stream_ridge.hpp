// A bank of ridge regressions by recursive least squares.
#pragma once

#include <span>
#include <vector>

#include "stream.hpp"
#include "stream_step.hpp"

namespace anytime {

// The inverse of penalty I + sum of z z^T depends on the rows alone: learners that began together share it.
class StreamRidge final : public StreamBank {
 public:
  StreamRidge(double penalty, int64_t n_features, int64_t n_outputs);

  void predict(const StreamRows& rows, double* out, Team& team) const override;
  void update(const StreamRows& rows, const double* targets, Team& team) override;
  void append(int64_t n) override;
  // The marked learners (N) begin anew, each stretch of them as a generation of its own.
  void restart(std::span<const bool> learners);

  int64_t size() const noexcept { return n_outputs() * (n_features() + 1); }  // coefficients of a learner
  std::vector<double>& weights() noexcept { return weights_; }                // (N, m, d + 1)
  std::vector<double>& inverses() noexcept { return inverses_; }              // (generations, d + 1, d + 1)
  std::vector<int64_t>& starts() noexcept { return starts_; }  // first learner of each generation
  ParameterMeans& means() noexcept { return means_; }
  int64_t& seen() noexcept { return seen_; }

 private:
  void add_inverse(std::vector<double>& to) const;
  void learn_row(const double* z, double weight, const double* targets, int64_t stride);

  double penalty_;
  std::vector<double> weights_, inverses_;
  std::vector<int64_t> starts_;
  int64_t seen_ = 0;  // rows
  ParameterMeans means_;
  std::vector<double> rows_, gain_;
};

}  // namespace anytime
