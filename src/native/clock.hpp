// When to give up: a deadline on the clock Python calls time.monotonic(), and a flag another thread may set.
#pragma once

#ifdef _WIN32
#include <windows.h>
#else
#include <time.h>
#endif

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace anytime {

class StopFlag {
 public:
  void set() noexcept { set_.store(true, std::memory_order_relaxed); }
  void clear() noexcept { set_.store(false, std::memory_order_relaxed); }
  bool is_set() const noexcept { return set_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> set_{false};
};

#ifdef _WIN32
// Before 3.13 Python counts ticks of some 16 ms on Windows; the module says so when it is loaded.
inline bool python_counts_ticks = false;
#endif

// Must be the clock of Python's time.monotonic(), or an absolute deadline means nothing here.
inline int64_t monotonic_ns() noexcept {
#if defined(_WIN32)
  if (python_counts_ticks) return static_cast<int64_t>(GetTickCount64()) * 1'000'000;
  static const int64_t per_second = [] {
    LARGE_INTEGER frequency;
    QueryPerformanceFrequency(&frequency);
    return static_cast<int64_t>(frequency.QuadPart);
  }();
  LARGE_INTEGER count;
  QueryPerformanceCounter(&count);
  const auto now = static_cast<int64_t>(count.QuadPart);
  return now / per_second * 1'000'000'000 + now % per_second * 1'000'000'000 / per_second;
#elif defined(__APPLE__)
  return static_cast<int64_t>(clock_gettime_nsec_np(CLOCK_UPTIME_RAW));
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
#endif
}

// A stop that can only be asked for at a price, such as an object of another language: once a millisecond.
class Poll {
 public:
  virtual ~Poll() = default;

  bool stopped() noexcept {
    if (stopped_.is_set()) return true;
    const int64_t now = monotonic_ns();
    int64_t due = due_.load(std::memory_order_relaxed);
    if (now < due || !due_.compare_exchange_strong(due, now + kEvery))
      return false;  // one thread asks for all
    if (ask()) stopped_.set();
    return stopped_.is_set();
  }

 private:
  static constexpr int64_t kEvery = 1'000'000;

  virtual bool ask() noexcept = 0;

  std::atomic<int64_t> due_{0};
  StopFlag stopped_;
};

// Reasons to stop early. One that has none is never asked, so that it costs nothing.
class Watch {
 public:
  Watch() = default;
  Watch(double deadline_seconds, const StopFlag* stop, Poll* poll = nullptr)
      : deadline_ns_(to_ns(deadline_seconds)), stop_(stop), poll_(poll) {}

  bool armed() const noexcept { return stop_ != nullptr || poll_ != nullptr || deadline_ns_ != kNever; }
  bool expired() const noexcept { return left_ns() <= 0; }
  // Nanoseconds until the deadline; none are left where a stop was asked for.
  int64_t left_ns() const noexcept {
    if (stop_ != nullptr && stop_->is_set()) return 0;
    if (poll_ != nullptr && poll_->stopped()) return 0;
    return deadline_ns_ == kNever ? kNever : deadline_ns_ - monotonic_ns();
  }
  // Whether only the clock can stop this.
  bool is_deadline() const noexcept { return stop_ == nullptr && poll_ == nullptr; }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  static int64_t to_ns(double seconds) {
    if (std::isnan(seconds)) throw std::invalid_argument("deadline is NaN; use inf for no deadline");
    if (seconds >= 9.0e9) return kNever;  // beyond what 63 bits of nanoseconds hold: 285 years of uptime
    if (seconds <= 0.0) return 0;
    return static_cast<int64_t>(seconds * 1e9);
  }

  int64_t deadline_ns_ = kNever;
  const StopFlag* stop_ = nullptr;
  Poll* poll_ = nullptr;
};

// Asks the watch once per so many units of work (one unit: one node visited by one row, or one value binned),
// which keeps the time between two looks at the clock near 5 microseconds and the price of looking below 1 %.
class Pacer {
 public:
  explicit Pacer(const Watch& watch) noexcept : watch_(watch), armed_(watch.armed()) {}

  bool expired_after(int64_t work) noexcept {
    if (!armed_) return false;
    left_ -= work;
    return left_ <= 0 && look();
  }
  bool armed() const noexcept { return armed_; }
  bool expired() const noexcept { return expired_; }

 private:
  static constexpr int64_t kWorkPerLook = 4096;

  bool look() noexcept {
    left_ = kWorkPerLook;
    expired_ = expired_ || watch_.expired();
    return expired_;
  }

  const Watch& watch_;
  bool armed_;
  bool expired_ = false;
  int64_t left_ = 0;  // the first question looks at the clock: a deadline already past stops before any work
};

}  // namespace anytime
