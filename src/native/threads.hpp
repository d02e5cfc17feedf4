// A few threads that share one piece of work after the other, for as long as one call lasts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

namespace anytime {

// Threads live as long as the team: a call makes one, and nothing outlives it (a fork finds no lost threads).
// Work is cut into more tasks than there are threads, and whoever is free takes the next. The caller works
// too and waits only for tasks that have begun: on a busy machine a thread that gets no processor holds up
// nobody.
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
    stop_.store(true, std::memory_order_relaxed);
    call_all();
    for (std::thread& thread : threads_) thread.join();
  }

  size_t size() const noexcept { return threads_.size() + 1; }

  // work(task, part) for every task in [0, n), in any order; part < size says which thread it is. It may not
  // throw.
  template <class Work>
  void each(int64_t n, bool together, Work&& work) noexcept {
    if (!together || n < 2 || threads_.empty()) {
      for (int64_t task = 0; task < n; ++task) work(task, size_t{0});
      return;
    }
    std::atomic<int64_t> next{0};
    const auto take_tasks = [&](size_t part) noexcept {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n;) work(task, part);
    };
    using Take = std::remove_reference_t<decltype(take_tasks)>;
    context_ = &take_tasks;
    call_ = [](const void* context, size_t part) noexcept { (*static_cast<Take*>(context))(part); };
    door_.store(kOpen, std::memory_order_release);
    call_all();
    take_tasks(0);
    door_.fetch_and(~kOpen, std::memory_order_relaxed);
    await(door_, [](uint32_t door) { return door == 0; });
  }

  // work(first, last) over stretches of [0, n), of at least `least` where there are several.
  template <class Work>
  void share(int64_t n, int64_t least, Work&& work) noexcept {
    const int64_t parts = stretches(n, least);
    each(parts, true, [&](int64_t part, size_t) noexcept { work(n * part / parts, n * (part + 1) / parts); });
  }
  // Into how many stretches of at least `least` to cut [0, n).
  int64_t stretches(int64_t n, int64_t least) const noexcept {
    if (threads_.empty() || n < 2 * least) return 1;
    return std::min(n / least, static_cast<int64_t>(8 * size()));
  }

 private:
  static constexpr uint32_t kOpen = 1u << 31;        // of the door; its other bits count who is in
  static constexpr int kLooks = 300, kYields = 100;  // some 30 microseconds on an idle machine

  template <class Ready>
  static void await(const std::atomic<uint32_t>& value, Ready&& ready) noexcept {
    for (int look = 0; look < kLooks + kYields; ++look) {
      if (ready(value.load(std::memory_order_acquire))) return;
      if (look >= kLooks) {
        std::this_thread::yield();  // whoever we wait for may need this processor
        continue;
      }
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
    for (uint32_t now; !ready(now = value.load(std::memory_order_acquire));) value.wait(now);
  }

  void call_all() noexcept {
    calls_.fetch_add(1, std::memory_order_release);
    calls_.notify_all();
  }

  bool enter() noexcept {
    uint32_t door = door_.load(std::memory_order_relaxed);
    while ((door & kOpen) != 0) {
      if (door_.compare_exchange_weak(door, door + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    }
    return false;
  }

  void serve(size_t part) noexcept {
    for (uint32_t seen = 0;;) {
      await(calls_, [seen](uint32_t calls) { return calls != seen; });
      seen = calls_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      if (!enter()) continue;
      call_(context_, part);
      if (door_.fetch_sub(1, std::memory_order_release) == 1) door_.notify_all();  // the last one out
    }
  }

  std::vector<std::thread> threads_;
  std::atomic<uint32_t> calls_{0}, door_{0};
  const void* context_ = nullptr;
  void (*call_)(const void*, size_t) noexcept = nullptr;
  std::atomic<bool> stop_{false};
};

}  // namespace anytime
