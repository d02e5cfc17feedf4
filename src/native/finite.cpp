#include "finite.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "scan.hpp"

namespace anytime {
namespace {

constexpr size_t kBlock = 1024;  // after so many numbers one that is outside ends it

// Branches and reductions of one number at a time would not turn into vectors.
// GCC sees the size of a vector only where its element depends on the template as well.
template <int kBytes, class Number = double, class Flag = int64_t>
[[gnu::always_inline]] inline bool is_within_vectors(std::span<const double> numbers, double largest,
                                                     bool missing) noexcept {
  typedef Number Numbers __attribute__((vector_size(kBytes)));
  typedef Flag Flags __attribute__((vector_size(kBytes)));
  constexpr size_t kLength = kBytes / sizeof(double);
  const Flags no_sign = Flags{} + INT64_MAX;
  const Numbers most = Numbers{} + largest;
  size_t i = 0;
  while (i + kLength <= numbers.size()) {
    Flags outside{}, nan{};
    const size_t end = std::min(numbers.size(), i + kBlock);
    for (; i + kLength <= end; i += kLength) {
      Numbers x;
      std::memcpy(&x, numbers.data() + i, kBytes);
      outside |= reinterpret_cast<Numbers>(reinterpret_cast<Flags>(x) & no_sign) > most;
      nan |= x != x;
    }
    if (!missing) outside |= nan;
    int64_t any = 0;
    for (size_t k = 0; k < kLength; ++k) any |= outside[k];
    if (any != 0) return false;
  }
  for (; i < numbers.size(); ++i) {
    if (!(std::abs(numbers[i]) <= largest) && !(missing && std::isnan(numbers[i]))) return false;
  }
  return true;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] bool is_within_avx2(std::span<const double> numbers, double largest,
                                            bool missing) noexcept {
  return is_within_vectors<32>(numbers, largest, missing);
}
#endif

}  // namespace

bool is_within(std::span<const double> numbers, double largest, bool missing) noexcept {
#if defined(__x86_64__)
  if (vectors_in_use() != Vectors::kPortable) return is_within_avx2(numbers, largest, missing);
#endif
  return is_within_vectors<16>(numbers, largest, missing);
}

}  // namespace anytime
