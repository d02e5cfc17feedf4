#include "evaluate.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "layout.hpp"
#include "pack.hpp"

namespace anytime {
namespace {

constexpr size_t kSpan = 16;                       // packs that go through a tree together: their ranks fill the L1 cache
constexpr int64_t kSpanWork = 16384;               // under a watch, no more work than this is at stake in one stage
constexpr int32_t kSearchesPerLook = 64;           // under a watch, searches between two looks at the clock
constexpr size_t kMaxKeptBytes = size_t{1} << 28;  // more ranks than this are worked out again in every pass
constexpr int64_t kWorkPerThread = 1 << 18;        // below about 200 microseconds a thread does not pay for its start

// Up to kLanes rows that are walked side by side. They have the same number of stages behind and before them and
// follow each other in memory (`even`), or else each lane has its own.
struct Pack {
  int64_t first;  // in Job::order
  int32_t rows;
  int32_t next;  // the stage it goes through next
  int32_t end;
  int32_t binned = 0;  // searches whose ranks are there
  bool even;
};

struct Job {
  Job(const Forest& forest, const Rows& rows);

  int64_t row(const Pack& pack, int lane) const noexcept { return order[static_cast<size_t>(pack.first + lane)]; }

  const Forest& forest;
  Rows rows;
  std::vector<int32_t> start, until;  // copies: another thread may write to the caller's arrays meanwhile
  std::vector<int64_t> order;         // rows with something left to do, those with equal stages next to each other
  std::vector<Pack> packs;
};

Job::Job(const Forest& forest_, const Rows& rows_)
    : forest(forest_),
      rows(rows_),
      start(rows_.done, rows_.done + rows_.n),
      until(rows_.until, rows_.until + rows_.n) {
  rows.done = start.data();
  rows.until = until.data();
  check_rows(forest, rows);
  rows.done = rows_.done;
  const auto stages = [&](int64_t i) {
    return std::pair(start[static_cast<size_t>(i)], until[static_cast<size_t>(i)]);
  };
  for (int64_t i = 0; i < rows.n; ++i) {
    if (stages(i).first < stages(i).second) order.push_back(i);
  }
  const auto before = [&](int64_t a, int64_t b) { return stages(a) < stages(b); };
  if (!std::is_sorted(order.begin(), order.end(), before)) std::stable_sort(order.begin(), order.end(), before);
  for (size_t first = 0; first < order.size(); first += kLanes) {
    const size_t last = std::min(order.size(), first + kLanes) - 1;
    Pack pack{.first = static_cast<int64_t>(first),
              .rows = static_cast<int32_t>(last - first + 1),
              .next = stages(order[first]).first,
              .end = stages(order[last]).second,
              .even = order[last] - order[first] == static_cast<int64_t>(last - first)};
    for (size_t i = first; i <= last; ++i) {
      pack.even = pack.even && stages(order[i]) == stages(order[first]);
      pack.end = std::max(pack.end, stages(order[i]).second);
    }
    packs.push_back(pack);
  }
}

// Takes some of a job's packs through their stages. Everything it needs is allocated before it runs, so that run()
// cannot throw on a thread of its own.
template <class Rank>
class Worker {
 public:
  Worker(const Job& job, std::span<Pack> packs, const Watch& watch)
      : job_(job), forest_(job.forest), layout_(job.forest.layout()), packs_(packs), pacer_(watch), ranks_(layout_, 0, 0) {
    int32_t end = 0;
    begin_ = forest_.n_stages();
    for (const Pack& pack : packs) {
      begin_ = std::min(begin_, pack.next);
      end = std::max(end, pack.end);
    }
    keep_ = pacer_.armed() && packs.size() <= kMaxKeptBytes / RankStore<Rank>::bytes_per_pack(layout_, end);
    ranks_ = RankStore<Rank>(layout_, end, keep_ ? packs.size() : std::min(packs.size(), kSpan));
    if (pacer_.armed()) backup_.resize(kSpan * kLanes * static_cast<size_t>(forest_.n_outputs()));
    plan_passes(end);
  }

  // Whether every pack got to its end.
  bool run() noexcept {
    if (!packs_.empty() && pacer_.expired_after(1)) return false;
    int32_t from = begin_;
    for (const int32_t to : passes_) {
      const size_t span = span_for(from, to);
      for (size_t first = 0; first < packs_.size(); first += span) {
        const size_t count = std::min(span, packs_.size() - first);
        if (!run_span(first, count, from, to)) return false;
      }
      from = to;
    }
    return true;
  }

 private:
  // Unwatched, a span of packs runs through all stages while its ranks are in the cache. Watched, all packs advance
  // together, in passes that are short at first, when a stage more or less matters most.
  void plan_passes(int32_t end) {
    if (!pacer_.armed()) {
      passes_.assign(1, end);
      return;
    }
    int32_t most = keep_ ? 16 : 64, trees = keep_ ? 1 : most;
    for (int32_t s = begin_; s < end;) {
      const int32_t goal = forest_.first_tree(s) + trees;
      do {
        ++s;
      } while (s < end && forest_.first_tree(s + 1) <= goal);
      passes_.push_back(s);
      trees = std::min(most, passes_.size() == 1 ? 1 : 2 * trees);
    }
  }

  size_t span_for(int32_t from, int32_t to) const noexcept {
    if (!pacer_.armed()) return kSpan;
    int64_t most = 1;
    for (int32_t s = from; s < to; ++s) {
      most = std::max(most, layout_.work[static_cast<size_t>(s) + 1] - layout_.work[static_cast<size_t>(s)]);
    }
    return static_cast<size_t>(std::clamp<int64_t>(kSpanWork / (most * kLanes), 1, kSpan));
  }

  PackRanks<Rank> ranks(size_t pack, size_t first) noexcept { return ranks_[keep_ ? pack : pack - first]; }

  bool run_span(size_t first, size_t count, int32_t from, int32_t to) noexcept {
    for (size_t p = first; p < first + count; ++p) {
      if (!bin(packs_[p], std::min(packs_[p].end, to), ranks(p, first))) return false;
    }
    for (int32_t stage = from; stage < to; ++stage) {
      if (!run_stage(first, count, stage)) return false;
    }
    return true;
  }

  bool bin(Pack& pack, int32_t end, PackRanks<Rank> ranks) noexcept {
    if (!keep_) pack.binned = 0;
    if (pack.next >= end) return true;
    const double* rows[kLanes];
    for (int i = 0; i < kLanes; ++i) rows[i] = row(pack, std::min(i, pack.rows - 1));
    const int32_t needed = layout_.searches_needed[static_cast<size_t>(end)];
    const int32_t most = pacer_.armed() ? kSearchesPerLook : needed;
    while (pack.binned < needed) {
      const int32_t to = std::min(needed, pack.binned + most);
      bin_pack(layout_, forest_.float32_input(), rows, pack.binned, to, ranks);
      const int64_t work = (to - pack.binned) * int64_t{4 * kLanes};
      pack.binned = to;
      if (pacer_.expired_after(work)) return false;
    }
    return true;
  }

  // A stage of several trees that is cut short is taken back; one of a single tree is never half done.
  bool run_stage(size_t first, size_t count, int32_t stage) noexcept {
    const int32_t begin = forest_.first_tree(stage), end = forest_.first_tree(stage + 1);
    if (pacer_.armed() && end - begin > 1) save(first, count, stage);
    for (int32_t t = begin; t < end; ++t) {
      const int64_t work = (layout_.trees[static_cast<size_t>(t)].depth + 1) * int64_t{kLanes};
      for (size_t p = first; p < first + count; ++p) {
        Pack& pack = packs_[p];
        if (pack.next != stage || stage >= pack.end) continue;
        add(pack, t, ranks(p, first));
        if (t + 1 == end) pack.next = stage + 1;
        if (pacer_.expired_after(work)) {
          if (end - begin > 1) restore(first, count, stage);
          return false;
        }
      }
    }
    if (begin == end) {
      for (size_t p = first; p < first + count; ++p) {
        if (packs_[p].next == stage && stage < packs_[p].end) packs_[p].next = stage + 1;
      }
    }
    return true;
  }

  void add(const Pack& pack, int32_t t, PackRanks<Rank> ranks) noexcept {
    const int64_t outputs = forest_.n_outputs();
    const auto x = [&](int lane) { return row(pack, lane); };
    if (pack.even) {
      int64_t* acc = job_.rows.acc + job_.row(pack, 0) * outputs;
      add_tree(forest_, t, ranks, pack.rows, [=](int lane) { return acc + lane * outputs; }, x);
      return;
    }
    const auto sums = [&](int lane) -> int64_t* {
      const int64_t i = job_.row(pack, lane);
      if (pack.next < job_.start[static_cast<size_t>(i)] || pack.next >= job_.until[static_cast<size_t>(i)]) return nullptr;
      return job_.rows.acc + i * outputs;
    };
    add_tree(forest_, t, ranks, pack.rows, sums, x);
  }

  template <class Copy>
  void each_sum(size_t first, size_t count, int32_t stage, Copy&& copy) noexcept {
    const auto outputs = static_cast<size_t>(forest_.n_outputs());
    for (size_t p = first; p < first + count; ++p) {
      if (packs_[p].next != stage) continue;
      for (int lane = 0; lane < packs_[p].rows; ++lane) {
        int64_t* saved = backup_.data() + ((p - first) * kLanes + static_cast<size_t>(lane)) * outputs;
        copy(job_.rows.acc + job_.row(packs_[p], lane) * forest_.n_outputs(), saved, outputs);
      }
    }
  }
  void save(size_t first, size_t count, int32_t stage) noexcept {
    each_sum(first, count, stage, [](const int64_t* acc, int64_t* saved, size_t n) { std::copy_n(acc, n, saved); });
  }
  void restore(size_t first, size_t count, int32_t stage) noexcept {
    each_sum(first, count, stage, [](int64_t* acc, const int64_t* saved, size_t n) { std::copy_n(saved, n, acc); });
  }

  const double* row(const Pack& pack, int lane) const noexcept {
    return job_.rows.row(forest_, job_.row(pack, lane));
  }

  const Job& job_;
  const Forest& forest_;
  const Layout& layout_;
  std::span<Pack> packs_;
  Pacer pacer_;
  int32_t begin_ = 0;
  bool keep_ = false;
  RankStore<Rank> ranks_;
  std::vector<int64_t> backup_;
  std::vector<int32_t> passes_;  // where each ends
};

size_t useful_threads(const Job& job, int asked) {
  int64_t work = 0;
  for (const Pack& pack : job.packs) {
    const auto& steps = job.forest.layout().work;
    work += (steps[static_cast<size_t>(pack.end)] - steps[static_cast<size_t>(pack.next)]) * kLanes;
  }
  const auto paying = static_cast<size_t>(std::max<int64_t>(1, work / kWorkPerThread));
  return std::min({static_cast<size_t>(std::max(asked, 1)), paying, std::max<size_t>(1, job.packs.size())});
}

template <class Rank>
bool run_packs(Job& job, const Watch& watch, size_t n_threads) {
  std::vector<Worker<Rank>> workers;
  workers.reserve(n_threads);
  for (size_t i = 0; i < n_threads; ++i) {
    const size_t begin = job.packs.size() * i / n_threads, end = job.packs.size() * (i + 1) / n_threads;
    workers.emplace_back(job, std::span(job.packs).subspan(begin, end - begin), watch);
  }
  std::vector<uint8_t> finished(n_threads, 0);
  std::vector<std::thread> threads;
  threads.reserve(n_threads);
  size_t started = 1;
  try {
    for (; started < n_threads; ++started) {
      threads.emplace_back([&, i = started] { finished[i] = workers[i].run(); });
    }
  } catch (...) {  // no more threads to be had: this one does their part
  }
  finished[0] = workers[0].run();
  for (size_t i = started; i < n_threads; ++i) finished[i] = workers[i].run();
  for (std::thread& thread : threads) thread.join();
  return std::all_of(finished.begin(), finished.end(), [](uint8_t f) { return f != 0; });
}

}  // namespace

void check_rows(const Forest& forest, const Rows& rows) {
  for (int64_t i = 0; i < rows.n; ++i) {
    const int32_t done = rows.done[i], until = rows.until[i];
    if (done < 0 || done > forest.n_stages() || until < 0 || until > forest.n_stages()) {
      throw std::invalid_argument("row " + std::to_string(i) + ": done " + std::to_string(done) + " and until " +
                                  std::to_string(until) + " must lie in [0, " + std::to_string(forest.n_stages()) + "]");
    }
  }
}

bool run(const Forest& forest, const Rows& rows, const Watch& watch, int threads) {
  Job job(forest, rows);
  const size_t n_threads = useful_threads(job, threads);
  const bool finished = forest.layout().small_ranks ? run_packs<uint8_t>(job, watch, n_threads)
                                                    : run_packs<uint16_t>(job, watch, n_threads);
  for (const Pack& pack : job.packs) {
    for (int lane = 0; lane < pack.rows; ++lane) {
      const auto i = static_cast<size_t>(job.row(pack, lane));
      rows.done[i] = std::clamp(pack.next, job.start[i], job.until[i]);
    }
  }
  return finished;
}

namespace {

template <class Rank>
void outputs_of(const Forest& forest, const double* x, int64_t n, std::span<const int64_t> stages, double* out) {
  const Layout& layout = forest.layout();
  const int64_t outputs = forest.n_outputs();
  int32_t end = 0;
  for (const int64_t stage : stages) end = std::max(end, static_cast<int32_t>(stage) + 1);
  RankStore<Rank> store(layout, end, 1);
  const PackRanks<Rank> ranks = store[0];
  std::vector<int64_t> sums(static_cast<size_t>(kLanes * outputs));
  for (int64_t first = 0; first < n; first += kLanes) {
    const auto count = static_cast<int32_t>(std::min<int64_t>(kLanes, n - first));
    const auto row = [&](int lane) { return x + (first + std::min(lane, count - 1)) * forest.n_features(); };
    const double* rows[kLanes];
    for (int i = 0; i < kLanes; ++i) rows[i] = row(i);
    bin_pack(layout, forest.float32_input(), rows, 0, layout.searches_needed[static_cast<size_t>(end)], ranks);
    for (size_t i = 0; i < stages.size(); ++i) {
      const auto stage = static_cast<int32_t>(stages[i]);
      std::fill(sums.begin(), sums.end(), 0);
      for (int32_t t = forest.first_tree(stage); t < forest.first_tree(stage + 1); ++t) {
        add_tree(forest, t, ranks, count, [&](int lane) { return sums.data() + lane * outputs; }, row);
      }
      double* target = out + (static_cast<int64_t>(i) * n + first) * outputs;
      for (int64_t j = 0; j < count * outputs; ++j) {
        target[j] = static_cast<double>(sums[static_cast<size_t>(j)]) * forest.unit();
      }
    }
  }
}

}  // namespace

void stage_outputs(const Forest& forest, const double* x, int64_t n, std::span<const int64_t> stages, double* out) {
  for (const int64_t stage : stages) forest.check_stage(stage);
  if (forest.layout().small_ranks) {
    outputs_of<uint8_t>(forest, x, n, stages, out);
  } else {
    outputs_of<uint16_t>(forest, x, n, stages, out);
  }
}

}  // namespace anytime
