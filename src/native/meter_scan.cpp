#include "meter_scan.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "pack.hpp"

namespace anytime {
namespace {

constexpr int64_t kLeastRows = 48;

// Rows, at most kScanRows of them, that go through the stages together. A row that can pay for all that its
// path reads pays at once; any other walks, node by node, until its money ends.
template <class Rank>
class MeteredSpan {
 public:
  MeteredSpan(const Forest& forest, const Rows& rows, const Meter& meter)
      : forest_(forest),
        layout_(forest.layout()),
        rows_(rows),
        meter_(meter),
        scan_(scan_for<Rank>(vectors_in_use())),
        words_(static_cast<size_t>(meter.ledger->words_per_row())),
        outputs_(static_cast<size_t>(forest.n_outputs())),
        store_(layout_, forest.n_stages(), kSpan, true),
        paths_(static_cast<size_t>(forest.n_trees())),
        needs_(kScanRows * words_),
        sums_(kScanRows * outputs_),
        one_(outputs_) {
    for (const Search& search : layout_.searches) {
      const auto group = static_cast<size_t>(meter.ledger->table()->group_of(search.feature));
      column_group_.insert(column_group_.end(), search.columns, group);
    }
    const CostTable& table = *meter.ledger->table();
    closures_.resize(static_cast<size_t>(table.n_groups()) * words_);
    for (int32_t g = 0; g < table.n_groups(); ++g) {
      for (const int32_t needed : table.closure(g)) {
        const auto bit = static_cast<uint32_t>(needed);
        closures_[static_cast<size_t>(g) * words_ + bit / 64] |= uint64_t{1} << (bit % 64);
      }
    }
  }

  void run(std::span<const int64_t> active) {
    take(active);
    int32_t stage = forest_.n_stages();
    for (const int64_t row : active) stage = std::min(stage, rows_.done[row]);
    std::vector<uint16_t> open(active.size());  // places of the rows that go on
    for (size_t i = 0; i < open.size(); ++i) open[i] = static_cast<uint16_t>(i);
    for (; !open.empty(); ++stage) {
      const bool scanned = look_up(stage);
      size_t kept = 0;
      for (const uint16_t place : open) {
        const int64_t row = active[place];
        if (rows_.done[row] == stage && !go_on(row, place, stage, scanned)) continue;
        if (rows_.done[row] < rows_.until[row]) open[kept++] = place;
      }
      open.resize(kept);
    }
  }

 private:
  void take(std::span<const int64_t> active) {
    n_packs_ = (active.size() + kLanes - 1) / kLanes;
    searched_ = 0;
    for (size_t p = 0; p < n_packs_; ++p) {
      for (size_t i = 0; i < kLanes; ++i) {
        packs_[p].row[i] = rows_.row(forest_, active[std::min(p * kLanes + i, active.size() - 1)]);
      }
      packs_[p].ranks = store_[p];
    }
  }

  // What the stage adds to each row and which groups it reads; false where a tree is too large to be scanned.
  bool look_up(int32_t stage) {
    const auto begin = static_cast<size_t>(forest_.first_tree(stage)),
               end = static_cast<size_t>(forest_.first_tree(stage + 1));
    for (size_t t = begin; t < end; ++t) {
      if (!layout_.trees[t].scanned) return false;
    }
    const int32_t needed = layout_.searches_needed[static_cast<size_t>(stage) + 1];
    for (size_t p = 0; p < n_packs_ && searched_ < needed; p += kBinTogether) {
      bin_packs<Rank>(layout_, forest_.float32_input(),
                      std::span(packs_ + p, std::min(kBinTogether, n_packs_ - p)), searched_, needed);
    }
    searched_ = std::max(searched_, needed);
    std::fill(needs_.begin(), needs_.end(), 0);
    std::fill(sums_.begin(), sums_.end(), 0);
    for (size_t t = begin; t < end; ++t) {
      if constexpr (sizeof(Rank) == 1) {
        add_tree(layout_.small, t);
      } else {
        add_tree(layout_.medium, t);
      }
    }
    return true;
  }

  template <class Node>
  void add_tree(const Slots<Node>& slots, size_t t) {
    const Tree& tree = layout_.trees[t];
    const ScanNode<Rank>* nodes = slots.scan.data() + tree.scan;
    if (paths_[t].empty()) paths_[t] = paths(tree, nodes);
    const uint64_t* groups = paths_[t].data();
    Rank leaf[kScanRows];
    const size_t rows = n_packs_ * kLanes;
    scan_(nodes, tree.scan_count, store_[0].low, rows, static_cast<Rank>(tree.first_leaf), leaf);
    const auto width = static_cast<size_t>(forest_.value_width());
    const int64_t* values = slots.values.data() + tree.value * width;
    for (size_t i = 0; i < rows; ++i) {
      for (size_t w = 0; w < words_; ++w) needs_[i * words_ + w] |= groups[leaf[i] * words_ + w];
      add_values(values + leaf[i] * width, width, tree.output, sums_.data() + i * outputs_);
    }
  }

  // (leaves, words) the groups that the way to each leaf reads, with what they require. The nodes come from
  // the root down, and the leftmost leaf of each stands for all that are below it.
  std::vector<uint64_t> paths(const Tree& tree, const ScanNode<Rank>* nodes) const {
    size_t leaves = size_t{tree.first_leaf} + 1;
    for (size_t i = 0; i < tree.scan_count; ++i) leaves = std::max(leaves, size_t{nodes[i].to} + 1);
    std::vector<uint64_t> groups(leaves * words_);
    for (size_t i = 0; i < tree.scan_count; ++i) {
      const uint64_t* closed = closures_.data() + column_group_[nodes[i].column] * words_;
      for (size_t w = 0; w < words_; ++w) {
        uint64_t& left = groups[nodes[i].from * words_ + w];
        left |= closed[w];
        groups[nodes[i].to * words_ + w] = left;
      }
    }
    return groups;
  }

  // Takes a row through the stage; false when it cannot pay.
  bool go_on(int64_t row, size_t place, int32_t stage, bool scanned) {
    const int64_t* sums = sums_.data() + place * outputs_;
    if (!scanned ||
        !meter_.ledger->try_pay(row, needs_.data() + place * words_,
                                meter_.evaluation[static_cast<size_t>(stage)], meter_.budget[row])) {
      const double* x = rows_.row(forest_, row);
      if (walk_stage(forest_, meter_, x, row, stage, one_, pacer_) != Outcome::kDone) return false;
      sums = one_.data();
    }
    int64_t* acc = rows_.acc + static_cast<size_t>(row) * outputs_;
    for (size_t k = 0; k < outputs_; ++k) add_units(acc[k], sums[k]);
    rows_.done[row] = stage + 1;
    return true;
  }

  const Forest& forest_;
  const Layout& layout_;
  const Rows& rows_;
  const Meter& meter_;
  Watch nobody_;
  Pacer pacer_{nobody_};
  ScanTree<Rank> scan_;
  size_t words_, outputs_;
  RankStore<Rank> store_;
  std::vector<size_t> column_group_;          // of the columns of ranks
  std::vector<uint64_t> closures_;            // (groups, words)
  std::vector<std::vector<uint64_t>> paths_;  // per tree, once it is needed
  std::vector<uint64_t> needs_;               // (kScanRows, words) what the stage reads of each row
  std::vector<int64_t> sums_;                 // (kScanRows, n_outputs) what it adds
  std::vector<int64_t> one_;
  PackRows<Rank> packs_[kSpan];
  size_t n_packs_ = 0;
  int32_t searched_ = 0;
};

template <class Rank>
void run_spans(const Forest& forest, const Rows& rows, const Meter& meter) {
  std::vector<int64_t> active;
  for (int64_t i = 0; i < rows.n; ++i) {
    if (rows.done[i] < rows.until[i]) active.push_back(i);
  }
  MeteredSpan<Rank> span(forest, rows, meter);
  for (size_t first = 0; first < active.size(); first += kScanRows) {
    span.run(std::span(active).subspan(first, std::min(kScanRows, active.size() - first)));
  }
}

}  // namespace

bool is_worth_scanning(const Forest& forest, int64_t active_rows) noexcept {
  const Layout& layout = forest.layout();
  return active_rows >= kLeastRows && (!layout.small.scan.empty() || !layout.medium.scan.empty());
}

void run_metered_scans(const Forest& forest, const Rows& rows, const Meter& meter) {
  if (forest.layout().small_ranks) {
    run_spans<uint8_t>(forest, rows, meter);
  } else {
    run_spans<uint16_t>(forest, rows, meter);
  }
}

}  // namespace anytime
