// What stages add by themselves, for those who reorder, reweight or prune them.
#include <algorithm>
#include <vector>

#include "evaluate.hpp"
#include "pack.hpp"

namespace anytime {
namespace {

constexpr int64_t kRows = kMostWalks;  // that are worked on together

template <class Rank>
class StageOutputs {
 public:
  // For stages before `end`; without ranks if `plain`.
  StageOutputs(const Forest& forest, int32_t end, bool plain)
      : forest_(forest),
        layout_(forest.layout()),
        end_(end),
        plain_(plain),
        store_(layout_, end, plain ? 0 : kSpan, false),
        sums_(static_cast<size_t>(kRows * forest.n_outputs())) {}

  // Turns to `count` rows from x on, at most kRows.
  void take(const double* x, int64_t count) noexcept {
    x_ = x;
    count_ = count;
    n_packs_ = plain_ ? 0 : static_cast<size_t>((count + kLanes - 1) / kLanes);
    PackRows<Rank> packs[kSpan];
    for (size_t p = 0; p < n_packs_; ++p) {
      for (int64_t i = 0; i < kLanes; ++i)
        packs[p].row[i] = row(std::min(static_cast<int64_t>(p) * kLanes + i, count - 1));
      packs[p].ranks = ranks_[p] = store_[p];
    }
    for (size_t p = 0; p < n_packs_; p += kBinTogether) {
      const std::span some(packs + p, std::min(kBinTogether, n_packs_ - p));
      bin_packs<Rank>(layout_, forest_.float32_input(), some, 0,
                      layout_.searches_needed[static_cast<size_t>(end_)], {});
    }
  }

  // (count, n_outputs) of those rows.
  void write(int32_t stage, double* out) noexcept {
    std::fill(sums_.begin(), sums_.end(), 0);
    for (int32_t t = forest_.first_tree(stage); t < forest_.first_tree(stage + 1); ++t) {
      const Tree& tree = layout_.trees[static_cast<size_t>(t)];
      if (plain_ || tree.form == Form::kPlain) {
        add_plain(t);
      } else {
        with_slots<Rank>(layout_, tree.form, [&](const auto& slots) { add_tree(slots, tree); });
      }
    }
    for (int64_t j = 0; j < count_ * forest_.n_outputs(); ++j) {
      out[j] = static_cast<double>(sums_[static_cast<size_t>(j)]) * forest_.unit();
    }
  }

 private:
  const double* row(int64_t i) const noexcept { return x_ + i * forest_.n_features(); }
  int64_t* sums(int64_t i) noexcept { return sums_.data() + i * forest_.n_outputs(); }

  void add_plain(int32_t t) noexcept {
    const int64_t root = forest_.tree_start()[static_cast<size_t>(t)];
    for (int64_t i = 0; i < count_; ++i) add_leaf(forest_, t, find_leaf(forest_, root, row(i)), sums(i));
  }

  template <class Node>
  void add_tree(const Slots<Node>& slots, const Tree& tree) noexcept {
    uint32_t slot[kRows];
    find_slots<kHalf>(layout_, slots, tree, std::span<const PackRanks<Rank>>(ranks_, n_packs_), slot);
    const auto width = static_cast<size_t>(forest_.value_width());
    for (int64_t i = 0; i < count_; ++i) {
      add_values(leaf_values(slots, tree, slot[i], width), width, tree.output, sums(i));
    }
  }

  const Forest& forest_;
  const Layout& layout_;
  int32_t end_;
  bool plain_;
  RankStore<Rank> store_;
  std::vector<int64_t> sums_;  // (kRows, n_outputs)
  PackRanks<Rank> ranks_[kSpan] = {};
  size_t n_packs_ = 0;
  const double* x_ = nullptr;
  int64_t count_ = 0;
};

template <class Rank>
void write_all(const Forest& forest, const double* x, int64_t n, std::span<const int64_t> stages,
               double* out) {
  const Layout& layout = forest.layout();
  int32_t end = 0;
  int64_t visits = 0;
  for (const int64_t stage : stages) {
    const auto s = static_cast<size_t>(stage);
    end = std::max(end, static_cast<int32_t>(stage) + 1);
    visits += layout.visits[s + 1] - layout.visits[s];
  }
  StageOutputs<Rank> outputs(forest, end, layout.is_short(visits, end, kSearchInPack));
  for (int64_t first = 0; first < n; first += kRows) {
    outputs.take(x + first * forest.n_features(), std::min(kRows, n - first));
    for (size_t i = 0; i < stages.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) * n + first;
      outputs.write(static_cast<int32_t>(stages[i]), out + at * forest.n_outputs());
    }
  }
}

}  // namespace

void stage_outputs(const Forest& forest, const double* x, int64_t n, std::span<const int64_t> stages,
                   double* out) {
  for (const int64_t stage : stages) forest.check_stage(stage);
  if (forest.layout().small_ranks) {
    write_all<uint8_t>(forest, x, n, stages, out);
  } else {
    write_all<uint16_t>(forest, x, n, stages, out);
  }
}

}  // namespace anytime
