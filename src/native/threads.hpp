// A few threads that share one piece of work after the other, for as long as one call lasts.
#pragma once

#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

namespace anytime {

// Threads live as long as the team: a call makes one, and nothing outlives it (a fork finds no lost threads).
// Between two pieces of work they look for the next one for some microseconds, then sleep.
class Team {
 public:
  explicit Team(int size) {
    try {
      for (int part = 1; part < size; ++part)
        threads_.emplace_back([this, part] { serve(static_cast<size_t>(part)); });
    } catch (const std::system_error&) {  // no more threads to be had: fewer will do
    }
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    stop_ = true;
    begin_round();
    for (std::thread& thread : threads_) thread.join();
  }

  size_t size() const noexcept { return threads_.size() + 1; }

  // work(part) for every part in [0, size), each on a thread of its own; it may not throw.
  template <class Work>
  void run(Work&& work) noexcept {
    if (threads_.empty()) return work(size_t{0});
    using Plain = std::remove_reference_t<Work>;
    context_ = const_cast<void*>(static_cast<const void*>(&work));
    call_ = [](void* context, size_t part) noexcept { (*static_cast<Plain*>(context))(part); };
    busy_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
    begin_round();
    work(size_t{0});
    await(busy_, [](uint32_t busy) { return busy == 0; });
  }

  // work(first, last) over consecutive shares of [0, n), one per thread; on one thread if n < 2 * least.
  template <class Work>
  void share(int64_t n, int64_t least, Work&& work) noexcept {
    const auto parts = static_cast<int64_t>(size());
    if (parts == 1 || n < 2 * least) return work(int64_t{0}, n);
    run([&](size_t part) {
      const auto p = static_cast<int64_t>(part);
      work(n * p / parts, n * (p + 1) / parts);
    });
  }

  // work(task, part) for every task in [0, n), in any order; part says which thread it is.
  template <class Work>
  void each(int64_t n, bool together, Work&& work) noexcept {
    if (!together || n < 2 || threads_.empty()) {
      for (int64_t task = 0; task < n; ++task) work(task, size_t{0});
      return;
    }
    std::atomic<int64_t> next{0};
    run([&](size_t part) {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n;) work(task, part);
    });
  }

 private:
  static constexpr int kLooks = 4000;  // about 50 microseconds

  template <class Ready>
  static void await(const std::atomic<uint32_t>& value, Ready&& ready) noexcept {
    for (int look = 0; look < kLooks; ++look) {
      if (ready(value.load(std::memory_order_acquire))) return;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
    for (uint32_t now; !ready(now = value.load(std::memory_order_acquire));) value.wait(now);
  }

  void begin_round() noexcept {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }

  void serve(size_t part) noexcept {
    for (uint32_t seen = 0;; ++seen) {
      await(round_, [seen](uint32_t round) { return round != seen; });
      if (stop_) return;
      call_(context_, part);
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_all();
    }
  }

  std::vector<std::thread> threads_;
  std::atomic<uint32_t> round_{0}, busy_{0};
  void* context_ = nullptr;
  void (*call_)(void*, size_t) noexcept = nullptr;
  bool stop_ = false;
};

}  // namespace anytime
