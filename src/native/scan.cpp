#include "scan.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#define ANYTIME_X86 1
#else
#define ANYTIME_X86 0
#endif

namespace anytime {
namespace {

// kGroups vectors of kBytes each go through the nodes together: their steps do not wait for each other.
template <class Rank, int kBytes, int kGroups>
[[gnu::always_inline]] inline void scan_groups(const ScanNode<Rank>* nodes, size_t count, const Rank* ranks,
                                               Rank first, Rank* leaf) noexcept {
  typedef Rank Vector __attribute__((vector_size(kBytes)));  // GCC does not see the size in an alias
  constexpr size_t kRowsPerGroup = kBytes / sizeof(Rank);
  Vector at[kGroups];
#pragma GCC unroll 16
  for (int g = 0; g < kGroups; ++g) at[g] = Vector{} + first;
  for (size_t i = 0; i < count; ++i) {
    const ScanNode<Rank> node = nodes[i];
    const Rank* column = ranks + size_t{node.column} * kScanRows;
    const Vector rank = Vector{} + node.rank, from = Vector{} + node.from;
    const Vector change = Vector{} + static_cast<Rank>(node.from ^ node.to);
#pragma GCC unroll 16
    for (int g = 0; g < kGroups; ++g) {
      Vector value;
      std::memcpy(&value, column + static_cast<size_t>(g) * kRowsPerGroup, kBytes);
      at[g] ^= reinterpret_cast<Vector>(at[g] == from) & reinterpret_cast<Vector>(value > rank) & change;
    }
  }
  std::memcpy(leaf, at, sizeof at);
}

template <class Rank, int kBytes, int kGroups>
[[gnu::always_inline]] inline void scan_rows(const ScanNode<Rank>* nodes, size_t count, const Rank* ranks,
                                             size_t rows, Rank first, Rank* leaf) noexcept {
  constexpr size_t kTogether = kGroups * kBytes / sizeof(Rank), kRowsPerGroup = kBytes / sizeof(Rank);
  size_t row = 0;
  for (; row + kTogether - kRowsPerGroup < rows; row += kTogether) {
    scan_groups<Rank, kBytes, kGroups>(nodes, count, ranks + row, first, leaf + row);
  }
  for (; row + kRowsPerGroup < rows; row += 2 * kRowsPerGroup) {
    scan_groups<Rank, kBytes, 2>(nodes, count, ranks + row, first, leaf + row);
  }
  for (; row < rows; row += kRowsPerGroup) {
    scan_groups<Rank, kBytes, 1>(nodes, count, ranks + row, first, leaf + row);
  }
}

template <class Rank>
void scan_portable(const ScanNode<Rank>* nodes, size_t count, const Rank* ranks, size_t rows, Rank first,
                   Rank* leaf) noexcept {
  scan_rows<Rank, 16, 4>(nodes, count, ranks, rows, first, leaf);
}

#if ANYTIME_X86
template <class Rank>
[[gnu::target("avx2")]] void scan_avx2(const ScanNode<Rank>* nodes, size_t count, const Rank* ranks,
                                       size_t rows, Rank first, Rank* leaf) noexcept {
  scan_rows<Rank, 32, 4>(nodes, count, ranks, rows, first, leaf);
}

// Masks of their own, which the general form above has no word for, save two instructions in five.
#define ANYTIME_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]

// Memory holds each byte four times over: 32 bits are broadcast as they are loaded, a byte takes a shuffle,
// for which comparisons wait.
constexpr auto kFourTimes = [] {
  std::array<int32_t, 256> words{};
  for (uint32_t i = 0; i < 256; ++i) words[i] = static_cast<int32_t>(i * 0x01010101u);
  return words;
}();
ANYTIME_AVX512 inline __m512i broadcast(uint8_t value) noexcept {
  return _mm512_set1_epi32(kFourTimes[value]);
}
ANYTIME_AVX512 inline __m512i broadcast(uint16_t value) noexcept {
  return _mm512_set1_epi16(static_cast<short>(value));
}
ANYTIME_AVX512 inline __m512i moved(__m512i at, __m512i value, __m512i rank, __m512i from, __m512i to,
                                    uint8_t) noexcept {
  const __mmask64 above = _mm512_cmpgt_epu8_mask(value, rank);
  return _mm512_mask_mov_epi8(at, _mm512_mask_cmpeq_epi8_mask(above, at, from), to);
}
ANYTIME_AVX512 inline __m512i moved(__m512i at, __m512i value, __m512i rank, __m512i from, __m512i to,
                                    uint16_t) noexcept {
  const __mmask32 above = _mm512_cmpgt_epu16_mask(value, rank);
  return _mm512_mask_mov_epi16(at, _mm512_mask_cmpeq_epi16_mask(above, at, from), to);
}

template <class Rank, int kGroups>
ANYTIME_AVX512 inline void scan_groups_avx512(const ScanNode<Rank>* nodes, size_t count, const Rank* ranks,
                                              Rank first, Rank* leaf) noexcept {
  constexpr size_t kRowsPerGroup = 64 / sizeof(Rank);
  __m512i at[kGroups];
#pragma GCC unroll 16
  for (int g = 0; g < kGroups; ++g) at[g] = broadcast(first);
  for (size_t i = 0; i < count; ++i) {
    const ScanNode<Rank> node = nodes[i];
    const Rank* column = ranks + size_t{node.column} * kScanRows;
    const __m512i rank = broadcast(node.rank), from = broadcast(node.from), to = broadcast(node.to);
#pragma GCC unroll 16
    for (int g = 0; g < kGroups; ++g) {
      at[g] = moved(at[g], _mm512_loadu_si512(column + static_cast<size_t>(g) * kRowsPerGroup), rank, from,
                    to, Rank{});
    }
  }
#pragma GCC unroll 16
  for (int g = 0; g < kGroups; ++g) _mm512_storeu_si512(leaf + static_cast<size_t>(g) * kRowsPerGroup, at[g]);
}

template <class Rank>
ANYTIME_AVX512 void scan_avx512(const ScanNode<Rank>* nodes, size_t count, const Rank* ranks, size_t rows,
                                Rank first, Rank* leaf) noexcept {
  constexpr size_t kRowsPerGroup = 64 / sizeof(Rank), kTogether = 4 * kRowsPerGroup;
  size_t row = 0;
  for (; row + kTogether - kRowsPerGroup < rows; row += kTogether) {
    scan_groups_avx512<Rank, 4>(nodes, count, ranks + row, first, leaf + row);
  }
  for (; row < rows; row += kRowsPerGroup) {
    scan_groups_avx512<Rank, 1>(nodes, count, ranks + row, first, leaf + row);
  }
}
#endif

Vectors widest() noexcept {
  Vectors best = Vectors::kPortable;
  for (const Vectors vectors : kAllVectors) {
    if (is_supported(vectors)) best = vectors;
  }
  return best;
}

std::atomic<Vectors> in_use{widest()};

}  // namespace

const char* name_of(Vectors vectors) noexcept {
  switch (vectors) {
    case Vectors::kAvx2:
      return "avx2";
    case Vectors::kAvx512:
      return "avx512";
    default:
      return "portable";
  }
}

bool is_supported(Vectors vectors) noexcept {
#if ANYTIME_X86
  __builtin_cpu_init();  // this may run before main
  if (vectors == Vectors::kAvx2) return __builtin_cpu_supports("avx2");
  if (vectors == Vectors::kAvx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }
#endif
  return vectors == Vectors::kPortable;
}

Vectors vectors_in_use() noexcept { return in_use.load(std::memory_order_relaxed); }

void use_vectors(Vectors vectors) {
  if (!is_supported(vectors)) {
    throw std::invalid_argument(std::string("this machine has no ") + name_of(vectors) + " instructions");
  }
  in_use.store(vectors, std::memory_order_relaxed);
}

template <class Rank>
ScanTree<Rank> scan_for(Vectors vectors) noexcept {
#if ANYTIME_X86
  if (vectors == Vectors::kAvx2) return scan_avx2<Rank>;
  if (vectors == Vectors::kAvx512) return scan_avx512<Rank>;
#else
  (void)vectors;
#endif
  return scan_portable<Rank>;
}

template ScanTree<uint8_t> scan_for(Vectors) noexcept;
template ScanTree<uint16_t> scan_for(Vectors) noexcept;

}  // namespace anytime
