// A bank of trees that grow on a stream, with bins in common.
#pragma once

#include <vector>

#include "stream.hpp"
#include "stream_tree.hpp"

namespace anytime {

class StreamTrees final : public StreamBank {
 public:
  StreamTrees(const StreamTreeSettings& settings, int64_t n_features, int64_t n_outputs);

  void predict(const StreamRows& rows, double* out, Team& team) const override;
  void update(const StreamRows& rows, const double* targets, Team& team) override;
  void answer(const StreamRows& rows, double* out, Team& team) override;
  void learn(const StreamRows& rows, const double* targets, Team& team) override;
  void append(int64_t n) override;

  const StreamBins& bins() const noexcept { return bins_; }
  StreamBins& bins() noexcept { return bins_; }
  const std::vector<StreamTree>& trees() const noexcept { return trees_; }
  std::vector<StreamTree>& trees() noexcept { return trees_; }

 private:
  void learn_from(const StreamRows& rows, const double* targets, Team& team, const int32_t* places);

  StreamTreeSettings settings_;
  StreamBins bins_;
  std::vector<StreamTree> trees_;
  std::vector<int32_t> places_;  // (N, n) the leaves of the rows that `answer` was asked about
  std::vector<uint8_t> codes_;   // (n, d) of the rows that are learned from
};

}  // namespace anytime
