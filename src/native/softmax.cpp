#include "softmax.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "scan.hpp"

namespace anytime {
namespace {

constexpr size_t kRows = 64;  // that are taken together: their scores stay in the first cache

// e^x = 2^n e^r with n whole and |r| <= ln(2) / 2. Adding `kRound` leaves n in the last bits of the sum.
template <class T>
struct Exponential;

template <>
struct Exponential<float> {
  using Bits = int32_t;
  static constexpr float kRound = 12582912.0f, kLeast = -87.0f;  // below, 2^n is no normal number
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  static constexpr Bits kBias = 127, kShift = 23;
  // 1/k!, from the highest power down: what follows is less than a rounding
  static constexpr float kTerms[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24,
                                     1.0f / 6,    1.0f / 2,   1.0f,       1.0f};
};

template <>
struct Exponential<double> {
  using Bits = int64_t;
  static constexpr double kRound = 6755399441055744.0, kLeast = -708.0;
  static constexpr double kLn2High = 6.93145751953125e-1, kLn2Low = 1.42860682030941723212e-6;
  static constexpr Bits kBias = 1023, kShift = 52;
  static constexpr double kTerms[] = {
      1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
      1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};
};

// GCC sees the size of a vector only where its element depends on the template as well.
template <class T, int kBytes, class Bits = typename Exponential<T>::Bits>
[[gnu::always_inline]] inline void pull_vectors(const T* scores, size_t n_classes, const int64_t* classes,
                                                const T* weight, size_t n, T* kept, T* pull) noexcept {
  typedef T Vector __attribute__((vector_size(kBytes)));
  typedef Bits Whole __attribute__((vector_size(kBytes)));
  using E = Exponential<T>;
  constexpr size_t kLength = kBytes / sizeof(T), kVectors = kRows / kLength;
  T weights[kRows];
  for (size_t first = 0; first < n; first += kRows) {
    const size_t rows = std::min(kRows, n - first);
    std::fill_n(std::copy_n(weight + first, rows, weights), kRows - rows, T{0});
    for (size_t c = 0; c < n_classes; ++c) {
      T* to = std::copy_n(scores + c * n + first, rows, kept + c * kRows);
      std::fill_n(to, kRows - rows, T{0});
    }
    for (size_t v = 0; v < kVectors; ++v) {
      T* const column = kept + v * kLength;
      Vector most, x, total{}, share;
      std::memcpy(&most, column, kBytes);
      for (size_t c = 1; c < n_classes; ++c) {
        std::memcpy(&x, column + c * kRows, kBytes);
        most = x > most ? x : most;
      }
      for (size_t c = 0; c < n_classes; ++c) {
        std::memcpy(&x, column + c * kRows, kBytes);
        x -= most;
        const Vector least = Vector{} + E::kLeast;
        x = x < least ? least : x;  // NaN stays
        const Vector rounded = x * T(1.44269504088896340736) + E::kRound, whole = rounded - E::kRound;
        const Vector r = (x - whole * E::kLn2High) - whole * E::kLn2Low;
        Vector sum = Vector{} + E::kTerms[0];
        for (size_t k = 1; k < std::size(E::kTerms); ++k) sum = sum * r + E::kTerms[k];
        x = sum * reinterpret_cast<Vector>((reinterpret_cast<Whole>(rounded) + E::kBias) << E::kShift);
        total += x;
        std::memcpy(column + c * kRows, &x, kBytes);
      }
      std::memcpy(&share, weights + v * kLength, kBytes);
      share /= total;
      for (size_t c = 0; c < n_classes; ++c) {
        std::memcpy(&x, column + c * kRows, kBytes);
        x *= share;
        std::memcpy(column + c * kRows, &x, kBytes);
      }
    }
    for (size_t c = 0; c < n_classes; ++c) std::copy_n(kept + c * kRows, rows, pull + c * n + first);
    for (size_t i = first; i < first + rows; ++i) pull[static_cast<size_t>(classes[i]) * n + i] -= weight[i];
  }
}

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2")]] void pull_avx2(const T* scores, size_t n_classes, const int64_t* classes,
                                       const T* weight, size_t n, T* kept, T* pull) noexcept {
  pull_vectors<T, 32>(scores, n_classes, classes, weight, n, kept, pull);
}
template <class T>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void pull_avx512(const T* scores, size_t n_classes,
                                                                       const int64_t* classes,
                                                                       const T* weight, size_t n, T* kept,
                                                                       T* pull) noexcept {
  pull_vectors<T, 64>(scores, n_classes, classes, weight, n, kept, pull);
}
#endif

}  // namespace

template <class T>
void softmax_pull(const T* scores, size_t n_classes, std::span<const int64_t> classes,
                  std::span<const T> weight, T* pull) {
  std::vector<T> kept(n_classes * kRows);
  const size_t n = classes.size();
#if defined(__x86_64__)
  if (vectors_in_use() == Vectors::kAvx512) {
    return pull_avx512(scores, n_classes, classes.data(), weight.data(), n, kept.data(), pull);
  }
  if (vectors_in_use() == Vectors::kAvx2) {
    return pull_avx2(scores, n_classes, classes.data(), weight.data(), n, kept.data(), pull);
  }
#endif
  pull_vectors<T, 16>(scores, n_classes, classes.data(), weight.data(), n, kept.data(), pull);
}

template void softmax_pull(const float*, size_t, std::span<const int64_t>, std::span<const float>, float*);
template void softmax_pull(const double*, size_t, std::span<const int64_t>, std::span<const double>, double*);

}  // namespace anytime
