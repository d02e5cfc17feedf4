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
template <int kBytes, bool kMissing, class Number = double, class Flag = int64_t>
[[gnu::always_inline]] inline bool is_within_vectors(std::span<const double> numbers,
                                                     double largest) noexcept {
  typedef Number Numbers __attribute__((vector_size(kBytes)));
  typedef Flag Flags __attribute__((vector_size(kBytes)));
  constexpr size_t kLength = kBytes / sizeof(double);
  const Flags no_sign = Flags{} + INT64_MAX;
  const Numbers most = Numbers{} + largest;
  size_t i = 0;
  while (i + kLength <= numbers.size()) {
    Flags outside{};
    const size_t end = std::min(numbers.size(), i + kBlock);
    for (; i + kLength <= end; i += kLength) {
      Numbers x;
      std::memcpy(&x, numbers.data() + i, kBytes);
      const Numbers size = reinterpret_cast<Numbers>(reinterpret_cast<Flags>(x) & no_sign);
      outside |= kMissing ? size > most : ~(size <= most);
    }
    int64_t any = 0;
    for (size_t k = 0; k < kLength; ++k) any |= outside[k];
    if (any != 0) return false;
  }
  for (; i < numbers.size(); ++i) {
    if (!(std::abs(numbers[i]) <= largest) && !(kMissing && std::isnan(numbers[i]))) return false;
  }
  return true;
}

template <int kBytes>
[[gnu::always_inline]] inline bool is_within_vectors(std::span<const double> numbers, double largest,
                                                     bool missing) noexcept {
  return missing ? is_within_vectors<kBytes, true>(numbers, largest)
                 : is_within_vectors<kBytes, false>(numbers, largest);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] bool is_within_avx2(std::span<const double> numbers, double largest,
                                            bool missing) noexcept {
  return is_within_vectors<32>(numbers, largest, missing);
}
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] bool is_within_avx512(std::span<const double> numbers,
                                                                            double largest,
                                                                            bool missing) noexcept {
  return is_within_vectors<64>(numbers, largest, missing);
}
#endif

}  // namespace

bool is_within(std::span<const double> numbers, double largest, bool missing) noexcept {
#if defined(__x86_64__)
  if (vectors_in_use() == Vectors::kAvx512) return is_within_avx512(numbers, largest, missing);
  if (vectors_in_use() == Vectors::kAvx2) return is_within_avx2(numbers, largest, missing);
#endif
  return is_within_vectors<16>(numbers, largest, missing);
}

}  // namespace anytime
