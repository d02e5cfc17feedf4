#include "stream_trees.hpp"

#include <algorithm>

#include "threads.hpp"

namespace anytime {
namespace {

constexpr int64_t kLeastTrees = 8;  // of a thread
constexpr int64_t kTogether = 16;   // rows from which on threads are worth calling

}  // namespace

StreamTrees::StreamTrees(const StreamTreeSettings& settings, int64_t n_features, int64_t n_outputs)
    : StreamBank(n_features, n_outputs), settings_(settings), bins_(n_features, settings.n_bins) {}

void StreamTrees::append(int64_t n) {
  // Trees that are appended during the stream begin one after the other too, the first of them at once.
  const int64_t first = bins_.seen() == 0 ? 0 : n_learners_;
  for (int64_t i = 0; i < n; ++i, ++n_learners_) {
    trees_.emplace_back(settings_, n_features(), n_outputs(), static_cast<uint64_t>(n_learners_),
                        settings_.stagger * (n_learners_ - first));
  }
}

void StreamTrees::predict(const StreamRows& rows, double* out, Team& team) const {
  const int64_t m = n_outputs();
  const auto some = [&](int64_t first, int64_t last) noexcept {
    for (int64_t i = first; i < last; ++i) {
      const StreamTree& tree = trees_[static_cast<size_t>(i)];
      for (int64_t row = 0; row < rows.n; ++row) {
        const double* value = tree.value(tree.leaf_of(rows.x + row * n_features()));
        std::copy_n(value, m, out + (i * rows.n + row) * m);
      }
    }
  };
  rows.n < kTogether ? some(0, n_learners_) : team.share(n_learners_, kLeastTrees, some);
}

void StreamTrees::answer(const StreamRows& rows, double* out, Team& team) {
  const int64_t m = n_outputs();
  places_.resize(static_cast<size_t>(n_learners_ * rows.n));
  const auto some = [&](int64_t first, int64_t last) noexcept {
    for (int64_t i = first; i < last; ++i) {
      const StreamTree& tree = trees_[static_cast<size_t>(i)];
      for (int64_t row = 0; row < rows.n; ++row) {
        const int32_t leaf = tree.leaf_of(rows.x + row * n_features());
        places_[static_cast<size_t>(i * rows.n + row)] = leaf;
        std::copy_n(tree.value(leaf), m, out + (i * rows.n + row) * m);
      }
    }
  };
  rows.n < kTogether ? some(0, n_learners_) : team.share(n_learners_, kLeastTrees, some);
}

void StreamTrees::update(const StreamRows& rows, const double* targets, Team& team) {
  learn_from(rows, targets, team, nullptr);
}

void StreamTrees::learn(const StreamRows& rows, const double* targets, Team& team) {
  learn_from(rows, targets, team, places_.data());
}

void StreamTrees::learn_from(const StreamRows& rows, const double* targets, Team& team,
                             const int32_t* places) {
  const int64_t m = n_outputs(), d = n_features();
  const bool ready = bins_.ready();
  codes_.resize(static_cast<size_t>(rows.n * d));
  for (int64_t row = 0; ready && row < rows.n; ++row) {
    bins_.codes(rows.x + row * d, codes_.data() + row * d);
  }
  const bool alone = ready && rows.n == 1 && places != nullptr;
  const auto some = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      StreamTree& tree = trees_[static_cast<size_t>(i)];
      if (alone && i + 1 < last) trees_[static_cast<size_t>(i + 1)].fetch(places[i + 1], codes_.data());
      for (int64_t row = 0; row < rows.n; ++row) {
        const double weight = rows.weight_of(row);
        if (weight == 0.0) continue;
        const double* target = targets + (i * rows.n + row) * m;
        if (!ready) {
          tree.remember(target, weight);
          continue;
        }
        // An earlier row of the round may have split the leaf: the walk goes on from there.
        const int32_t leaf = tree.leaf_of(rows.x + row * d, places == nullptr ? 0 : places[i * rows.n + row]);
        tree.learn(leaf, codes_.data() + row * d, target, weight, bins_);
      }
    }
  };
  rows.n < kTogether ? some(0, n_learners_) : team.share(n_learners_, kLeastTrees, some);
  for (int64_t row = 0; row < rows.n; ++row) {
    if (rows.weight_of(row) != 0.0) bins_.see(rows.x + row * d);
  }
  const std::vector<Rebinned> changed = bins_.look();
  for (StreamTree& tree : trees_) {
    if (!ready && bins_.ready()) tree.recall(bins_);
    for (const Rebinned& column : changed) tree.rebin(column);
  }
}

}  // namespace anytime
