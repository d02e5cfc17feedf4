#include "evaluate.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "layout.hpp"
#include "pack.hpp"

namespace anytime {
namespace {

constexpr int64_t kSpanWork = 16384;      // under a watch, the most work that one stage puts at stake
constexpr int32_t kSearchesPerLook = 16;  // under a watch, searches between two looks at the clock
constexpr size_t kLeastScanned = 3;       // packs: fewer rows are walked quicker than scanned
constexpr size_t kScanSpan = 4;           // packs that fill the widest vectors
constexpr size_t kMaxKeptBytes = size_t{1} << 28;  // more ranks than this are worked out again in every pass
constexpr size_t kBlockBytes = size_t{1} << 18;
constexpr int64_t kPassBytes = 1 << 19;
constexpr int64_t kWorkPerThread =
    1 << 18;  // below about 200 microseconds a thread does not pay for its start

// Up to kLanes rows that are walked side by side. They have the same stages before them and follow each other
// in memory (`even`), or else each lane is looked at by itself.
struct Pack {
  int64_t first;  // in Job::order
  int32_t rows;
  int32_t next;  // the stage it goes through next
  int32_t end;
  int32_t searched = 0;  // searches whose ranks are there
  bool even;
};

struct Job {
  Job(const Forest& forest, const Rows& rows);
  void pack_rows();

  int64_t row(const Pack& pack, int lane) const noexcept {
    return order[static_cast<size_t>(pack.first + lane)];
  }
  const double* x(const Pack& pack, int lane) const noexcept { return rows.row(forest, row(pack, lane)); }

  // Steps that a row takes in stages [from, to), in 64ths.
  int64_t steps(int32_t from, int32_t to) const noexcept {
    const Layout& layout = forest.layout();
    const auto a = static_cast<size_t>(from), b = static_cast<size_t>(to);
    return scans ? layout.scan_work[b] - layout.scan_work[a] : kWholeStep * (layout.work[b] - layout.work[a]);
  }

  const Forest& forest;
  Rows rows;
  bool scans = false;                 // enough rows and small trees that scanning them pays
  std::vector<int32_t> start, until;  // copies: another thread may write to the caller's arrays meanwhile
  std::vector<int64_t> order;  // rows with something left to do, those with equal stages next to each other
  std::vector<Pack> packs;
};

Job::Job(const Forest& forest_, const Rows& rows_)
    : forest(forest_),
      rows(rows_),
      start(rows_.done, rows_.done + rows_.n),
      until(rows_.until, rows_.until + rows_.n) {
  check_rows(forest, {.n = rows.n, .done = start.data(), .until = until.data()});
  pack_rows();
  if (packs.size() < kLeastScanned) return;
  int32_t begin = forest.n_stages(), end = 0;
  for (const Pack& pack : packs) {
    begin = std::min(begin, pack.next);
    end = std::max(end, pack.end);
  }
  const int64_t walked = steps(begin, end);
  scans = true;
  scans = 2 * steps(begin, end) < walked;
}

void Job::pack_rows() {
  const auto stages = [&](int64_t i) {
    return std::pair(start[static_cast<size_t>(i)], until[static_cast<size_t>(i)]);
  };
  int32_t differences = 0;  // without a branch, so that it turns into vectors
  for (size_t i = 1; i < start.size(); ++i) differences |= (start[i] ^ start[0]) | (until[i] ^ until[0]);
  if (rows.n > 0 && differences == 0) {  // as mostly: all rows have the same stages before them
    if (start[0] >= until[0]) return;
    order.resize(start.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    packs.reserve((order.size() + kLanes - 1) / kLanes);
    for (int64_t first = 0; first < rows.n; first += kLanes) {
      const auto together = static_cast<int32_t>(std::min<int64_t>(kLanes, rows.n - first));
      packs.push_back({.first = first, .rows = together, .next = start[0], .end = until[0], .even = true});
    }
    return;
  }
  order.reserve(static_cast<size_t>(rows.n));
  for (int64_t i = 0; i < rows.n; ++i) {
    if (stages(i).first < stages(i).second) order.push_back(i);
  }
  packs.reserve((order.size() + kLanes - 1) / kLanes);
  const auto before = [&](int64_t a, int64_t b) { return stages(a) < stages(b); };
  if (!std::is_sorted(order.begin(), order.end(), before))
    std::stable_sort(order.begin(), order.end(), before);
  for (size_t first = 0; first < order.size(); first += kLanes) {
    const size_t last = std::min(order.size(), first + kLanes) - 1;
    Pack pack{.first = static_cast<int64_t>(first),
              .rows = static_cast<int32_t>(last - first + 1),
              .next = stages(order[first]).first,
              .end = 0,
              .even = order[last] - order[first] == static_cast<int64_t>(last - first)};
    for (size_t i = first; i <= last; ++i) {
      pack.even = pack.even && stages(order[i]) == stages(order[first]);
      pack.end = std::max(pack.end, stages(order[i]).second);
    }
    packs.push_back(pack);
  }
}

// Takes some of a job's packs through their stages. Everything it needs is allocated before it runs, so that
// run() cannot throw on a thread of its own.
template <class Rank>
class Worker {
 public:
  Worker(const Job& job, std::span<Pack> packs, const Watch& watch)
      : job_(job),
        forest_(job.forest),
        layout_(job.forest.layout()),
        packs_(packs),
        pacer_(watch),
        scan_(scan_for<Rank>(vectors_in_use())),
        store_(layout_, 0, 0, false) {
    int32_t end = 0;
    begin_ = forest_.n_stages();
    for (const Pack& pack : packs) {
      begin_ = std::min(begin_, pack.next);
      end = std::max(end, pack.end);
    }
    plain_ = !packs.empty() && layout_.is_short(begin_, end, kSearchInPack);
    const size_t bytes = RankStore<Rank>::bytes_per_pack(layout_, end);
    keep_ = !pacer_.armed() || packs.size() <= kMaxKeptBytes / bytes;
    block_ = pacer_.armed() ? packs.size() : std::min(packs.size(), std::max(kSpan, kBlockBytes / bytes));
    scans_ = job.scans && !plain_;
    if (!plain_) {
      store_ = RankStore<Rank>(layout_, end, keep_ ? block_ : std::min(packs.size(), kSpan), scans_);
      if (!pacer_.armed()) few_ = FewTests(layout_, end);  // which come all at once
    }
    if (pacer_.armed()) {
      backup_.resize(std::min(packs.size(), kSpan) * kLanes * static_cast<size_t>(forest_.n_outputs()));
      plan_watched_passes(end);
    } else {
      plan_passes(end);
    }
  }

  // As far as the watch allows; the packs know how far that was.
  void run() noexcept {
    if (packs_.empty() || pacer_.expired_after(1)) return;
    for (size_t begin = 0; begin < packs_.size(); begin += block_) {
      const size_t end = std::min(packs_.size(), begin + block_);
      int32_t from = begin_;
      for (const int32_t to : passes_) {
        const size_t span = span_for(from, to);
        for (size_t first = begin; first < end; first += span) {
          if (!run_span(first, std::min(span, end - first), keep_ ? begin : first, from, to)) return;
        }
        from = to;
      }
    }
  }

 private:
  // Unwatched, a block of packs whose ranks fit the second cache goes through as many trees as fit it too.
  void plan_passes(int32_t end) {
    const auto nodes = [&](int32_t s) {
      return forest_.tree_start()[static_cast<size_t>(forest_.first_tree(s))];
    };
    for (int32_t s = begin_; s < end;) {
      const int64_t most = nodes(s) + kPassBytes / (layout_.small_ranks ? 8 : 16);
      do {
        ++s;
      } while (s < end && nodes(s + 1) <= most);
      passes_.push_back(s);
    }
  }

  // Watched, all packs advance together, in passes that are short at first, when a stage matters most.
  void plan_watched_passes(int32_t end) {
    const int32_t most = keep_ || plain_ ? 16 : 64;
    int32_t trees = most == 16 ? 1 : most;
    for (int32_t s = begin_; s < end;) {
      const int32_t goal = forest_.first_tree(s) + trees;
      do {
        ++s;
      } while (s < end && forest_.first_tree(s + 1) <= goal);
      passes_.push_back(s);
      trees = std::min(most, passes_.size() == 1 ? 1 : 2 * trees);
    }
  }

  int64_t step_cost() const noexcept { return plain_ ? 8 : 1; }  // in the kernels' steps

  size_t span_for(int32_t from, int32_t to) const noexcept {
    if (!pacer_.armed()) return kSpan;
    int64_t most = kWholeStep;
    for (int32_t s = from; s < to; ++s) most = std::max(most, job_.steps(s, s + 1));
    const auto span = static_cast<size_t>(
        std::clamp<int64_t>(kSpanWork * kWholeStep / (most * kLanes * step_cost()), 1, kSpan));
    return scans_ ? std::max(kScanSpan, std::bit_floor(span)) : span;  // which begins with a whole vector
  }

  // Packs [first, first + count) go through stages [from, to); the store begins with the ranks of `stored`.
  // Like everything below that can be cut short, says whether it was not.
  bool run_span(size_t first, size_t count, size_t stored, int32_t from, int32_t to) noexcept {
    if (!plain_ && !rank(first, count, stored, to)) return false;
    span_rows_ = count * kLanes;
    if (scans_) span_ranks_ = store_[first - stored].low;
    for (int32_t stage = from; stage < to; ++stage) {
      n_active_ = 0;
      for (size_t p = first; p < first + count; ++p) {
        if (packs_[p].next != stage || stage >= packs_[p].end) continue;
        if (!plain_) ranks_[n_active_] = store_[p - stored];
        place_[n_active_] = p - first;
        active_[n_active_++] = &packs_[p];
      }
      if (n_active_ > 0 && !run_stage(stage)) return false;
    }
    return true;
  }

  // The ranks that packs [first, first + count) need up to stage `to`, for as many together as have the same
  // to do.
  bool rank(size_t first, size_t count, size_t stored, int32_t to) noexcept {
    const auto needed = [&](const Pack& pack) {
      return layout_.searches_needed[static_cast<size_t>(std::min(pack.end, to))];
    };
    for (size_t p = first; p < first + count; ++p) {
      if (!keep_) packs_[p].searched = 0;
    }
    for (size_t p = first, next; p < first + count; p = next) {
      const int32_t searched = packs_[p].searched, end = needed(packs_[p]);
      PackRows<Rank> together[kBinTogether];
      size_t n = 0;
      for (next = p; next < first + count && n < kBinTogether; ++next, ++n) {
        const Pack& pack = packs_[next];
        if (pack.searched != searched || needed(pack) != end) break;
        for (int i = 0; i < kLanes; ++i) together[n].row[i] = job_.x(pack, std::min(i, pack.rows - 1));
        together[n].ranks = store_[next - stored];
      }
      if (!rank(std::span<const PackRows<Rank>>(together, n), searched, end)) return false;
      for (; p < next; ++p) packs_[p].searched = std::max(searched, end);
    }
    return true;
  }

  bool rank(std::span<const PackRows<Rank>> packs, int32_t from, int32_t end) noexcept {
    while (from < end) {
      const int32_t to = pacer_.armed() ? std::min(end, from + kSearchesPerLook) : end;
      bin_packs(layout_, forest_.float32_input(), packs, from, to, few_);
      if (pacer_.expired_after((to - from) * static_cast<int64_t>(packs.size()) * 3 * kLanes)) return false;
      from = to;
    }
    return true;
  }

  // The active packs go through a stage together. When it is cut short, its trees take back what they added.
  bool run_stage(int32_t stage) noexcept {
    const int32_t begin = forest_.first_tree(stage), end = forest_.first_tree(stage + 1);
    if (pacer_.armed() && end - begin > 1) save_sums();
    bool expired = false;
    for (int32_t t = begin; t < end; ++t) {
      const Tree& tree = layout_.trees[static_cast<size_t>(t)];
      if (plain_ || tree.form == Form::kPlain) {
        add_plain(t);
      } else {
        with_slots<Rank>(layout_, tree.form, [&](const auto& slots) { add_tree(slots, tree); });
      }
      const int64_t steps =
          layout_.cost(tree, scans_) * static_cast<int64_t>(n_active_) * kLanes / kWholeStep;
      expired = pacer_.expired_after(steps * step_cost());
      if (expired && t + 1 < end) {
        restore_sums();
        return false;
      }
    }
    for (size_t a = 0; a < n_active_; ++a) active_[a]->next = stage + 1;
    return !expired;
  }

  template <class Node>
  void add_tree(const Slots<Node>& slots, const Tree& tree) noexcept {
    if constexpr (!std::is_same_v<Node, LargeNode>) {
      if (scans_ && tree.scanned) return add_scanned(slots, tree);
    }
    uint32_t slot[kSpan * kLanes];
    const std::span<const PackRanks<Rank>> packs(ranks_, n_active_);
    if (scans_) {
      find_slots<kScanRows>(layout_, slots, tree, packs, slot);
    } else {
      find_slots<kHalf>(layout_, slots, tree, packs, slot);
    }
    add_leaves(tree, [&](size_t a, int lane, size_t width) {
      return leaf_values(slots, tree, slot[a * kLanes + static_cast<size_t>(lane)], width);
    });
  }

  template <class Node>
  void add_scanned(const Slots<Node>& slots, const Tree& tree) noexcept {
    Rank leaf[kScanRows];
    scan_(slots.scan.data() + tree.scan, tree.scan_count, span_ranks_, span_rows_,
          static_cast<Rank>(tree.first_leaf), leaf);
    const auto width = static_cast<size_t>(forest_.value_width());
    const int64_t* values = slots.values.data() + tree.value * width;
    add_leaves(tree, [&](size_t a, int lane, size_t each) {
      return values + leaf[place_[a] * kLanes + static_cast<size_t>(lane)] * each;
    });
  }

  // `values(a, lane, width)` are those of the leaf that a row of an active pack has reached.
  template <class Values>
  void add_leaves(const Tree& tree, Values&& values) noexcept {
    const auto width = static_cast<size_t>(forest_.value_width());
    if (width == 1) {
      const int32_t output = tree.output;
      each_sum([&](size_t a, int lane, int64_t* sums) { add_units(sums[output], *values(a, lane, 1)); });
      return;
    }
    each_sum([&](size_t a, int lane, int64_t* sums) {
      add_values(values(a, lane, width), width, tree.output, sums);
    });
  }

  void add_plain(int32_t t) noexcept {
    const int64_t root = forest_.tree_start()[static_cast<size_t>(t)];
    each_sum([&](size_t a, int lane, int64_t* sums) {
      add_leaf(forest_, t, find_leaf(forest_, root, job_.x(*active_[a], lane)), sums);
    });
  }

  // Calls `use` with the sums of every row that is to go through the active packs' stage.
  template <class Use>
  void each_sum(Use&& use) noexcept {
    const int64_t outputs = forest_.n_outputs();
    for (size_t a = 0; a < n_active_; ++a) {
      const Pack& pack = *active_[a];
      if (pack.even) {
        int64_t* sums = job_.rows.acc + job_.row(pack, 0) * outputs;
        for (int lane = 0; lane < pack.rows; ++lane) use(a, lane, sums + lane * outputs);
        continue;
      }
      for (int lane = 0; lane < pack.rows; ++lane) {
        const int64_t i = job_.row(pack, lane);
        const int32_t start = job_.start[static_cast<size_t>(i)], until = job_.until[static_cast<size_t>(i)];
        if (start <= pack.next && pack.next < until) use(a, lane, job_.rows.acc + i * outputs);
      }
    }
  }

  void save_sums() noexcept {
    const int64_t outputs = forest_.n_outputs();
    int64_t* saved = backup_.data();
    each_sum([&](size_t, int, const int64_t* sums) { saved = std::copy_n(sums, outputs, saved); });
  }
  void restore_sums() noexcept {
    const int64_t outputs = forest_.n_outputs();
    const int64_t* saved = backup_.data();
    each_sum([&](size_t, int, int64_t* sums) {
      std::copy_n(saved, outputs, sums);
      saved += outputs;
    });
  }

  const Job& job_;
  const Forest& forest_;
  const Layout& layout_;
  std::span<Pack> packs_;
  Pacer pacer_;
  ScanTree<Rank> scan_;
  RankStore<Rank> store_;
  FewTests few_;
  int32_t begin_ = 0;
  bool scans_ = false;
  bool plain_ = false;  // too few stages for ranks to pay
  bool keep_ = false;   // the ranks of a block, not only of a span
  size_t block_ = 0;    // packs that advance together
  std::vector<int64_t> backup_;
  std::vector<int32_t> passes_;  // the stages at which they end
  Pack* active_[kSpan] = {};
  PackRanks<Rank> ranks_[kSpan] = {};  // of the active packs
  size_t place_[kSpan] = {};           // of the active packs within the span
  size_t n_active_ = 0;
  const Rank* span_ranks_ = nullptr;  // where a scan of the span reads
  size_t span_rows_ = 0;
};

size_t useful_threads(const Job& job, int asked) {
  int64_t work = 0;
  for (const Pack& pack : job.packs) work += job.steps(pack.next, pack.end) * kLanes / kWholeStep;
  const auto paying = static_cast<size_t>(std::max<int64_t>(1, work / kWorkPerThread));
  return std::min({static_cast<size_t>(std::max(asked, 1)), paying, std::max<size_t>(1, job.packs.size())});
}

template <class Rank>
void run_packs(Job& job, const Watch& watch, size_t n_threads) {
  std::vector<Worker<Rank>> workers;
  workers.reserve(n_threads);
  for (size_t i = 0; i < n_threads; ++i) {
    const size_t begin = job.packs.size() * i / n_threads, end = job.packs.size() * (i + 1) / n_threads;
    workers.emplace_back(job, std::span(job.packs).subspan(begin, end - begin), watch);
  }
  std::vector<std::thread> threads;
  threads.reserve(n_threads);
  size_t started = 1;
  try {
    for (; started < n_threads; ++started) {
      threads.emplace_back([&worker = workers[started]] { worker.run(); });
    }
  } catch (...) {  // no more threads to be had: this one does their part
  }
  workers[0].run();
  for (size_t i = started; i < n_threads; ++i) workers[i].run();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void check_rows(const Forest& forest, const Rows& rows) {
  const int32_t most = forest.n_stages();
  bool wrong = false;  // a loop without branches turns into vectors
  for (int64_t i = 0; i < rows.n; ++i) {
    const int32_t done = rows.done[i], until = rows.until[i];
    wrong |= (done < 0) | (done > most) | (until < 0) | (until > most);
  }
  if (!wrong) return;
  for (int64_t i = 0; i < rows.n; ++i) {
    const int32_t done = rows.done[i], until = rows.until[i];
    if (done >= 0 && done <= most && until >= 0 && until <= most) continue;
    throw std::invalid_argument("row " + std::to_string(i) + ": done " + std::to_string(done) +
                                " and until " + std::to_string(until) + " must lie in [0, " +
                                std::to_string(most) + "]");
  }
}

bool run(const Forest& forest, const Rows& rows, const Watch& watch, int threads) {
  Job job(forest, rows);
  const size_t n_threads = useful_threads(job, threads);
  if (forest.layout().small_ranks) {
    run_packs<uint8_t>(job, watch, n_threads);
  } else {
    run_packs<uint16_t>(job, watch, n_threads);
  }
  bool finished = true;
  for (const Pack& pack : job.packs) {
    finished = finished && pack.next == pack.end;
    if (pack.even) {
      const auto first = static_cast<size_t>(job.row(pack, 0));
      std::fill_n(rows.done + first, pack.rows, std::clamp(pack.next, job.start[first], job.until[first]));
      continue;
    }
    for (int lane = 0; lane < pack.rows; ++lane) {
      const auto i = static_cast<size_t>(job.row(pack, lane));
      rows.done[i] = std::clamp(pack.next, job.start[i], job.until[i]);
    }
  }
  return finished;
}

}  // namespace anytime
