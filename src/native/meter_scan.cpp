#include "meter_scan.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <vector>

#include "pack.hpp"
#include "planes.hpp"

namespace anytime {
namespace {

constexpr int64_t kLeastRows = 48;
constexpr int32_t kTogether = 16;     // stages that are looked up, and paid for, together
constexpr int32_t kAtLast = 4;        // the same where the money of most rows ends
constexpr size_t kMostTogether = 32;  // trees whose leaves are looked up row by row

// Rows, at most kScanRows of them, that go through the stages together. A row that can pay for all that its
// paths through the next stages read pays at once: the order of payments does not matter where all are made.
// Any other pays for half of them, then half of the others, or, where that is quick, for one after the other,
// and walks, node by node, through the one that ends its money.
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
        horizon_(farthest(rows, meter)),
        store_(layout_, horizon_, kSpan, true),
        few_(layout_, horizon_),
        paths_(static_cast<size_t>(forest.n_trees())),
        needs_(kScanRows * words_),
        path_(words_),
        sums_(kScanRows * outputs_),
        one_(outputs_) {
    if (sizeof(Rank) == 1 && words_ == 1 && outputs_ == 1) planes_ = plane_kernels(vectors_in_use());
    if (planes_) {
      const auto n_trees = static_cast<size_t>(forest.first_tree(horizon_));
      needed_.reset(new Planes[n_trees]);
      added_.reset(new Planes[n_trees]);
    }
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
    while (!open.empty()) {
      const int32_t end = look_up(stage, last_affordable(active, open, stage));
      if (in_planes_) {
        go_on_together(active, open, stage, end);
      } else {
        std::erase_if(open, [&](uint16_t place) {
          const int64_t row = active[place];
          return !go_on(row, place, stage, end) || rows_.done[row] == rows_.until[row];
        });
      }
      stage = std::max(end, stage + 1);
    }
  }

 private:
  // The end of the stages that some row could pay for, if all groups were free.
  static int32_t farthest(const Rows& rows, const Meter& meter) {
    std::vector<int64_t> before(1, 0);  // what the stages before each cost
    for (const int64_t ticks : meter.evaluation) {
      int64_t sum = 0;
      if (__builtin_add_overflow(before.back(), ticks, &sum)) sum = std::numeric_limits<int64_t>::max();
      before.push_back(sum);
    }
    int32_t end = 0, done = -1, last = 0;
    int64_t money = 0;
    for (int64_t i = 0; i < rows.n; ++i) {
      const int64_t left = meter.budget[i] - meter.ledger->paid()[static_cast<size_t>(i)];
      if (left < 0 || rows.until[i] <= end) continue;
      if (rows.done[i] != done || left != money) {  // not what the row before could pay
        done = rows.done[i];
        money = left;
        int64_t goal = 0;
        if (__builtin_add_overflow(before[static_cast<size_t>(done)], money, &goal)) goal = before.back();
        last =
            static_cast<int32_t>(std::upper_bound(before.begin(), before.end(), goal) - before.begin()) - 1;
      }
      end = std::max(end, std::min(rows.until[i], last));
    }
    return end;
  }

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

  // The end of the stages after `stage` of which some row can pay the evaluation, and which it shall do; at
  // most kTogether of them, or kAtLast where rows cannot pay for so many on average.
  int32_t last_affordable(std::span<const int64_t> active, const std::vector<uint16_t>& open,
                          int32_t stage) const {
    int64_t most = 0;
    double sum = 0.0;
    int32_t last = stage;
    for (const uint16_t place : open) {
      const int64_t row = active[place];
      const int64_t money = meter_.budget[row] - meter_.ledger->paid()[static_cast<size_t>(row)];
      most = std::max(most, money);
      sum += static_cast<double>(money);
      last = std::max(last, rows_.until[row]);
    }
    const double typical = sum / static_cast<double>(open.size());
    int32_t end = stage;
    int64_t price = 0;
    for (; end < std::min({last, horizon_, stage + kTogether}); ++end) {
      const int64_t evaluation = meter_.evaluation[static_cast<size_t>(end)];
      if (evaluation > most - price) break;
      price += evaluation;
    }
    if (in_planes_ && static_cast<double>(price) > typical) end = std::min(end, stage + kAtLast);
    return end;
  }

  // What the stages [stage, end) together add to each row and which groups they read. Returns where they end:
  // before the first that has a tree too large to be scanned.
  int32_t look_up(int32_t stage, int32_t end) {
    const auto begin = static_cast<size_t>(forest_.first_tree(stage));
    for (int32_t s = stage; s < end; ++s) {
      for (auto t = static_cast<size_t>(forest_.first_tree(s));
           t < static_cast<size_t>(forest_.first_tree(s + 1)); ++t) {
        if (!layout_.trees[t].scanned) end = s;
      }
    }
    in_planes_ = false;
    if (end == stage) return end;
    const int32_t needed = layout_.searches_needed[static_cast<size_t>(end)];
    for (size_t p = 0; p < n_packs_ && searched_ < needed; p += kBinTogether) {
      bin_packs<Rank>(layout_, forest_.float32_input(),
                      std::span(packs_ + p, std::min(kBinTogether, n_packs_ - p)), searched_, needed, few_);
    }
    searched_ = std::max(searched_, needed);
    first_tree_ = begin;
    const auto last = static_cast<size_t>(forest_.first_tree(end));
    leaves_.resize(std::max(leaves_.size(), (last - begin) * kScanRows));
    evaluation_ = 0;
    for (int32_t s = stage; s < end; ++s) evaluation_ += meter_.evaluation[static_cast<size_t>(s)];
    with_slots_of_scans([&](const auto& slots) {
      in_planes_ = planes_ != nullptr && last - begin <= kPlaneTrees;
      for (size_t t = begin; t < last; ++t) in_planes_ = scan(slots, t) && in_planes_;
      if (in_planes_) {
        add_planes(slots, begin, last);
      } else {
        add_trees(slots, begin, last);
      }
    });
    return end;
  }

  template <class Use>
  void with_slots_of_scans(Use&& use) const {
    if constexpr (sizeof(Rank) == 1) {
      use(layout_.small);
    } else {
      use(layout_.medium);
    }
  }

  const Rank* leaves_of(size_t tree) const { return leaves_.data() + (tree - first_tree_) * kScanRows; }

  // Says whether the leaves' numbers stand in planes.
  template <class Node>
  bool scan(const Slots<Node>& slots, size_t t) {
    const Tree& tree = layout_.trees[t];
    const ScanNode<Rank>* nodes = slots.scan.data() + tree.scan;
    std::vector<uint64_t>& groups = paths_[t];
    const bool first = groups.empty();
    if (first) groups = paths(tree, nodes);
    scan_(nodes, tree.scan_count, store_[0].low, n_packs_ * kLanes, static_cast<Rank>(tree.first_leaf),
          leaves_.data() + (t - first_tree_) * kScanRows);
    if (planes_ == nullptr || groups.size() > kPlaneLeaves) return false;
    if (first) {
      planes_->fill(groups.data(), groups.size(), needed_[t]);
      planes_->fill(reinterpret_cast<const uint64_t*>(slots.values.data() + tree.value), groups.size(),
                    added_[t]);
    }
    return true;
  }

  // What the trees read and add, 64 rows at a time.
  template <class Node>
  void add_planes(const Slots<Node>& slots, size_t begin, size_t end) {
    const size_t rows = n_packs_ * kLanes;
    const auto* leaves = reinterpret_cast<const uint8_t*>(leaves_.data());
    planes_->join(needed_.get() + begin, end - begin, leaves, rows, needs_.data());
    planes_->add(added_.get() + begin, end - begin, leaves, rows, reinterpret_cast<uint64_t*>(sums_.data()));
    for (size_t t = begin; t < end; ++t) {
      tables_[t - begin] = {paths_[t].data(), slots.values.data() + layout_.trees[t].value};
    }
  }

  // What the trees read and add, row by row: sums stay in registers while trees are added.
  template <class Node>
  void add_trees(const Slots<Node>& slots, size_t begin, size_t end) {
    const auto width = static_cast<size_t>(forest_.value_width());
    const size_t rows = n_packs_ * kLanes, n_trees = end - begin;
    const Rank* const leaves = leaves_.data();
    if (words_ == 1 && outputs_ == 1 && n_trees <= kMostTogether) {
      const uint64_t* groups[kMostTogether];
      const int64_t* values[kMostTogether];
      for (size_t t = 0; t < n_trees; ++t) {
        groups[t] = paths_[begin + t].data();
        values[t] = slots.values.data() + layout_.trees[begin + t].value;
      }
      constexpr size_t kFour = 4;  // rows side by side, which look up the same trees
      for (size_t i = 0; i < rows; i += kFour) {
        uint64_t read[kFour] = {};
        int64_t sum[kFour] = {};
        for (size_t t = 0; t < n_trees; ++t) {
          for (size_t k = 0; k < kFour; ++k) {
            const size_t leaf = leaves[t * kScanRows + i + k];
            read[k] |= groups[t][leaf];
            add_units(sum[k], values[t][leaf]);
          }
        }
        std::copy_n(read, kFour, needs_.data() + i);
        std::copy_n(sum, kFour, sums_.data() + i);
      }
      return;
    }
    std::fill(needs_.begin(), needs_.end(), 0);
    std::fill(sums_.begin(), sums_.end(), 0);
    for (size_t t = begin; t < end; ++t) {
      const Tree& tree = layout_.trees[t];
      const Rank* leaf = leaves_of(t);
      const int64_t* values = slots.values.data() + tree.value * width;
      for (size_t i = 0; i < rows; ++i) {
        for (size_t w = 0; w < words_; ++w) needs_[i * words_ + w] |= paths_[t][leaf[i] * words_ + w];
        add_values(values + leaf[i] * width, width, tree.output, sums_.data() + i * outputs_);
      }
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

  // Takes a row through the stages [stage, end), or, where they were not looked up, through `stage`; false
  // when it cannot pay.
  bool go_on(int64_t row, size_t place, int32_t stage, int32_t end) {
    if (rows_.done[row] >= std::max(end, stage + 1)) return true;
    if (rows_.done[row] == stage && rows_.until[row] >= end && end > stage &&
        meter_.ledger->try_pay(row, needs_.data() + place * words_, evaluation_, meter_.budget[row])) {
      add(row, sums_.data() + place * outputs_);
      rows_.done[row] = end;
      return true;
    }
    const int32_t goal = std::min(rows_.until[row], std::max(end, stage + 1));
    while (rows_.done[row] < goal) {
      for (int32_t some = kTogether / 2; some > 0; some /= 2) {
        if (rows_.done[row] + some <= std::min(goal, end)) pay_some(row, place, some);
      }
      if (rows_.done[row] == goal) break;
      const double* x = rows_.row(forest_, row);
      if (walk_stage(forest_, meter_, x, row, rows_.done[row], one_, pacer_) != Outcome::kDone) return false;
      add(row, one_.data());
      ++rows_.done[row];
    }
    return true;
  }

  // The same for all rows, where a word says what each has and a number what is added; `open` keeps those
  // that go on.
  void go_on_together(std::span<const int64_t> active, std::vector<uint16_t>& open, int32_t stage,
                      int32_t end) {
    const CostTable& table = *meter_.ledger->table();
    const int64_t evaluation = evaluation_;
    const Rows rows = rows_;
    uint16_t* kept = open.data();
    for (const uint16_t place : open) {
      const int64_t row = active[place];
      if (rows.done[row] == stage && rows.until[row] >= end) {
        const auto [paid, bought] = meter_.ledger->account(row);
        const int64_t money = meter_.budget[row] - paid;
        const uint64_t groups = needs_[place];
        const int64_t price = table.price_of(0, groups & ~bought);
        if (evaluation <= money && price <= money - evaluation) {
          paid += evaluation + price;
          bought |= groups;
          add_units(rows.acc[row], sums_[place]);
          rows.done[row] = end;
          *kept = place;
          kept += rows.until[row] > end;
          continue;
        }
      }
      *kept = place;
      kept += go_on_one_by_one(row, place, end) && rows.done[row] < rows.until[row];
    }
    open.resize(static_cast<size_t>(kept - open.data()));
  }

  // Stage by stage, as far as the row can pay.
  bool go_on_one_by_one(int64_t row, size_t place, int32_t end) {
    const CostTable& table = *meter_.ledger->table();
    const auto [paid, bought] = meter_.ledger->account(row);
    const int32_t goal = std::min(rows_.until[row], end);
    for (int32_t& done = rows_.done[row]; done < goal; ++done) {
      const int64_t money = meter_.budget[row] - paid;
      const int64_t evaluation = meter_.evaluation[static_cast<size_t>(done)];
      if (evaluation > money) return false;
      const auto begin = static_cast<size_t>(forest_.first_tree(done)) - first_tree_,
                 last = static_cast<size_t>(forest_.first_tree(done + 1)) - first_tree_;
      uint64_t groups = 0;
      int64_t sum = 0;
      for (size_t t = begin; t < last; ++t) {
        const size_t leaf = leaves_[t * kScanRows + place];
        groups |= tables_[t].groups[leaf];
        add_units(sum, tables_[t].values[leaf]);
      }
      const uint64_t missing = groups & ~bought;
      const int64_t price = missing == 0 ? 0 : table.price_of(0, missing);
      if (price <= money - evaluation) {
        bought |= groups;
        paid += evaluation + price;
        add_units(rows_.acc[row], sum);
        continue;
      }
      if (cheapest(table, missing) > money - evaluation) return false;
      const double* x = rows_.row(forest_, row);
      if (walk_stage(forest_, meter_, x, row, done, one_, pacer_) != Outcome::kDone) return false;
      add(row, one_.data());
    }
    return true;
  }

  // The lowest price of the groups in a bit set: whoever has less can buy none, nor what any of them
  // requires.
  static int64_t cheapest(const CostTable& table, uint64_t groups) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (; groups != 0; groups &= groups - 1) {
      least = std::min(least, table.own_price(std::countr_zero(groups)));
    }
    return least;
  }

  // Takes a row through some stages that were looked up, if it can pay for them.
  void pay_some(int64_t row, size_t place, int32_t stages) {
    const int32_t stage = rows_.done[row], last = stage + stages;
    int64_t money = meter_.budget[row] - meter_.ledger->paid()[static_cast<size_t>(row)], evaluation = 0;
    for (int32_t s = stage; s < last; ++s) evaluation += meter_.evaluation[static_cast<size_t>(s)];
    if (evaluation > money) return;
    const auto begin = static_cast<size_t>(forest_.first_tree(stage)),
               end = static_cast<size_t>(forest_.first_tree(last));
    std::fill(path_.begin(), path_.end(), 0);
    for (size_t t = begin; t < end; ++t) {
      const uint64_t* groups = paths_[t].data() + leaves_of(t)[place] * words_;
      for (size_t w = 0; w < words_; ++w) path_[w] |= groups[w];
    }
    if (!meter_.ledger->try_pay(row, path_.data(), evaluation, meter_.budget[row])) return;
    const auto width = static_cast<size_t>(forest_.value_width());
    int64_t* acc = rows_.acc + static_cast<size_t>(row) * outputs_;
    with_slots_of_scans([&](const auto& slots) {
      for (size_t t = begin; t < end; ++t) {
        const Tree& tree = layout_.trees[t];
        add_values(slots.values.data() + (tree.value + leaves_of(t)[place]) * width, width, tree.output, acc);
      }
    });
    rows_.done[row] = last;
  }

  void add(int64_t row, const int64_t* sums) {
    int64_t* acc = rows_.acc + static_cast<size_t>(row) * outputs_;
    for (size_t k = 0; k < outputs_; ++k) add_units(acc[k], sums[k]);
  }

  const Forest& forest_;
  const Layout& layout_;
  const Rows& rows_;
  const Meter& meter_;
  Watch nobody_;
  Pacer pacer_{nobody_};
  ScanTree<Rank> scan_;
  size_t words_, outputs_;
  int32_t horizon_;
  RankStore<Rank> store_;
  FewTests few_;
  std::vector<size_t> column_group_;          // of the columns of ranks
  std::vector<uint64_t> closures_;            // (groups, words)
  std::vector<std::vector<uint64_t>> paths_;  // per tree, once it is needed
  std::vector<Rank> leaves_;                  // (trees, kScanRows) from first_tree_ on
  std::vector<uint64_t> needs_;               // (kScanRows, words) what the stages read of each row
  std::vector<uint64_t> path_;                // (words) what one of them reads of one
  std::vector<int64_t> sums_;                 // (kScanRows, n_outputs) what they add
  std::vector<int64_t> one_;
  struct Tables {
    const uint64_t* groups;  // that the way to each leaf reads
    const int64_t* values;
  };
  const PlaneKernels* planes_ = nullptr;      // where a word says what a row has and a number what is added
  std::unique_ptr<Planes[]> needed_, added_;  // of trees whose paths are known, if they have few leaves
  Tables tables_[kPlaneTrees];                // from first_tree_ on
  bool in_planes_ = false;                    // whether they were looked up in planes
  PackRows<Rank> packs_[kSpan];
  size_t n_packs_ = 0;
  int32_t searched_ = 0;
  size_t first_tree_ = 0;   // of the stages that were looked up
  int64_t evaluation_ = 0;  // what they cost together, groups aside
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
