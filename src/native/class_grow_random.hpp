// Chance of one tree: a stream of numbers given by two others.
#pragma once

#include <cstdint>

namespace anytime {

class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t number) noexcept : state_(mix(mix(seed + kStep) ^ number)) {}

  uint64_t operator()() noexcept { return mix(state_ += kStep); }  // splitmix64
  // Below n, which is positive.
  uint64_t below(uint64_t n) noexcept {
    return static_cast<uint64_t>(static_cast<double>((*this)() >> 11) * 0x1p-53 * static_cast<double>(n));
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  static uint64_t mix(uint64_t z) noexcept {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

// Says of `total` things, one after the other, which to take so that `wanted` are taken, all choices equally
// likely.
class Sampler {
 public:
  Sampler(int64_t total, int64_t wanted, RandomStream& random) noexcept
      : left_(total), wanted_(wanted), random_(random) {}

  bool take() noexcept {
    if (wanted_ >= left_) return true;
    if (wanted_ == 0) return false;
    const bool taken = random_.below(static_cast<uint64_t>(left_--)) < static_cast<uint64_t>(wanted_);
    wanted_ -= taken;
    return taken;
  }

 private:
  int64_t left_, wanted_;
  RandomStream& random_;
};

}  // namespace anytime
