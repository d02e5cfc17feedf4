#include "refit.hpp"

#include <algorithm>
#include <stdexcept>

namespace anytime {
namespace {

class Refit {
 public:
  Refit(const RefitArrays& arrays, double caution)
      : in_(arrays),
        n_(arrays.weight.size()),
        width_(arrays.n_outputs),
        caution_(caution * static_cast<double>(n_trees())),
        node_(arrays.leaf.size()),
        size_(arrays.ends.size(), 0.0),
        change_(arrays.value.size(), 0.0) {
    find_nodes();
    find_missing();
  }

  void sweep(bool back) {
    for (size_t k = 0; k < n_trees(); ++k) correct(back ? n_trees() - 1 - k : k);
  }

  std::vector<double> answers() const {
    std::vector<double> found(in_.value.begin(), in_.value.end());
    for (size_t i = 0; i < found.size(); ++i) found[i] += static_cast<double>(n_trees()) * change_[i];
    return found;
  }

 private:
  size_t n_trees() const { return in_.tree_start.size() - 1; }
  const int32_t* nodes_of(size_t tree) const { return node_.data() + tree * n_; }

  void find_nodes() {
    const auto& start = in_.tree_start;
    if (start.front() != 0 || start.back() != static_cast<int64_t>(in_.ends.size()) ||
        !std::is_sorted(start.begin(), start.end())) {
      throw std::invalid_argument("tree_start does not divide the nodes into trees");
    }
    const auto n_nodes = static_cast<int32_t>(in_.ends.size());
    for (size_t t = 0; t < n_trees(); ++t) {
      for (size_t i = t * n_; i < (t + 1) * n_; ++i) {
        const int32_t leaf = in_.leaf[i];
        const int32_t end = leaf < 0 || leaf >= n_nodes ? -1 : in_.ends[static_cast<size_t>(leaf)];
        if (end < in_.tree_start[t] || end >= in_.tree_start[t + 1]) {
          throw std::invalid_argument("a walk ends outside of its tree");
        }
        node_[i] = end;
        size_[static_cast<size_t>(end)] += in_.weight[i - t * n_];
      }
    }
  }

  // What the mean over the trees that count leaves over.
  void find_missing() {
    missing_.assign(in_.target.size(), 0.0);
    std::vector<int32_t> counted(n_, 0);
    for (size_t t = 0; t < n_trees(); ++t) {
      for (size_t i = 0; i < n_; ++i) {
        if (!in_.unseen[t * n_ + i]) continue;
        ++counted[i];
        const double* said = in_.value.data() + static_cast<size_t>(nodes_of(t)[i]) * width_;
        for (size_t k = 0; k < width_; ++k) missing_[i * width_ + k] += said[k];
      }
    }
    for (size_t i = 0; i < n_; ++i) {
      for (size_t k = i * width_; k < (i + 1) * width_; ++k) {
        missing_[k] = in_.target[k] - missing_[k] / std::max(counted[i], 1);
      }
    }
  }

  // One tree takes up what the others leave over.
  void correct(size_t tree) {
    const auto first = static_cast<size_t>(in_.tree_start[tree]);
    const auto end = static_cast<size_t>(in_.tree_start[tree + 1]);
    const int32_t* node = nodes_of(tree);
    sums_.assign((end - first) * width_, 0.0);
    for (size_t i = 0; i < n_; ++i) {
      double* sum = sums_.data() + (static_cast<size_t>(node[i]) - first) * width_;
      const double* left = missing_.data() + i * width_;
      for (size_t k = 0; k < width_; ++k) sum[k] += in_.weight[i] * left[k];
    }
    for (size_t h = first; h < end; ++h) {
      for (size_t k = 0; k < width_; ++k) {
        double& own = change_[h * width_ + k];
        double& sum = sums_[(h - first) * width_ + k];
        const double fresh = (sum + size_[h] * own) / (size_[h] + caution_);
        sum = fresh - own;
        own = fresh;
      }
    }
    for (size_t i = 0; i < n_; ++i) {
      const double* step = sums_.data() + (static_cast<size_t>(node[i]) - first) * width_;
      double* left = missing_.data() + i * width_;
      for (size_t k = 0; k < width_; ++k) left[k] -= step[k];
    }
  }

  const RefitArrays& in_;
  size_t n_, width_;
  double caution_;
  std::vector<int32_t> node_;    // (T, n)
  std::vector<double> size_;     // (M,) weight of the rows that end at a node
  std::vector<double> change_;   // (M, K)
  std::vector<double> missing_;  // (n, K)
  std::vector<double> sums_;     // of one tree
};

}  // namespace

std::vector<double> refit_leaves(const RefitArrays& arrays, double caution, int sweeps) {
  Refit refit(arrays, caution);
  for (int sweep = 0; sweep < sweeps; ++sweep) refit.sweep(sweep % 2 == 1);
  return refit.answers();
}

}  // namespace anytime
