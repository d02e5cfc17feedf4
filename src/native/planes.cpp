#include "planes.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC's own header has many
#endif
#include <immintrin.h>
#endif

namespace anytime {

#if defined(__x86_64__)
namespace {

#define ANYTIME_VBMI [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]]

constexpr size_t kRows = 64;  // that are looked up together
constexpr int kBytes = 8;     // of a number

ANYTIME_VBMI void fill(const uint64_t* numbers, size_t leaves, Planes& planes) noexcept {
  alignas(64) uint64_t eights[kBytes][kBytes];  // of eight leaves: their first bytes, their second ones, ...
  const __m512i in_eights =
      _mm512_set_epi64(0x3f372f271f170f07, 0x3e362e261e160e06, 0x3d352d251d150d05, 0x3c342c241c140c04,
                       0x3b332b231b130b03, 0x3a322a221a120a02, 0x3931292119110901, 0x3830282018100800);
  for (size_t k = 0; k < kBytes; ++k) {
    const size_t left = leaves > k * kBytes ? leaves - k * kBytes : 0;
    const auto there = static_cast<__mmask8>(left >= kBytes ? 0xff : (1u << left) - 1u);
    const __m512i some = _mm512_maskz_loadu_epi64(there, numbers + k * kBytes);
    _mm512_store_si512(eights[k], _mm512_permutexvar_epi8(in_eights, some));
  }
  for (size_t b = 0; b < kBytes; ++b) {
    auto* out = reinterpret_cast<uint64_t*>(planes.bytes[b]);
    for (size_t k = 0; k < kBytes; ++k) out[k] = eights[k][b];
  }
}

// Eight times eight bytes or pairs of bytes, least significant first, as numbers.
ANYTIME_VBMI inline __m512i joined(const uint16_t (&pairs)[kBytes][kRows], size_t row) noexcept {
  __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int b = 0; b < kBytes; ++b) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs[b] + row));
    sum = _mm512_add_epi64(sum, _mm512_slli_epi64(_mm512_cvtepu16_epi64(some), static_cast<unsigned>(8 * b)));
  }
  return sum;
}

ANYTIME_VBMI void add(const Planes* trees, size_t count, const uint8_t* leaves, size_t rows,
                      uint64_t* out) noexcept {
  const __m512i low = _mm512_set1_epi16(0xff);
  alignas(64) uint16_t pairs[kBytes][kRows];
  for (size_t row = 0; row < rows; row += kRows) {
    __m512i even[kBytes], odd[kBytes];
#pragma GCC unroll 8
    for (int b = 0; b < kBytes; ++b) even[b] = odd[b] = _mm512_setzero_si512();
    for (size_t t = 0; t < count; ++t) {
      const __m512i leaf = _mm512_loadu_si512(leaves + t * kScanRows + row);
#pragma GCC unroll 8
      for (int b = 0; b < kBytes; ++b) {
        const __m512i byte = _mm512_permutexvar_epi8(leaf, _mm512_load_si512(trees[t].bytes[b]));
        even[b] = _mm512_add_epi16(even[b], _mm512_and_si512(byte, low));
        odd[b] = _mm512_add_epi16(odd[b], _mm512_srli_epi16(byte, 8));
      }
    }
#pragma GCC unroll 8
    for (int b = 0; b < kBytes; ++b) {  // rows side by side again, in quarters that change places
      _mm512_store_si512(pairs[b], _mm512_unpacklo_epi16(even[b], odd[b]));
      _mm512_store_si512(pairs[b] + kRows / 2, _mm512_unpackhi_epi16(even[b], odd[b]));
    }
    for (size_t k = 0; k < kRows / 8; ++k) {  // eight rows each: even ones of a half stand in the lower half
      const size_t from = k % 2 * (kRows / 2) + k / 2 * 8;
      _mm512_storeu_si512(out + row + k * 8, joined(pairs, from));
    }
  }
}

ANYTIME_VBMI void join(const Planes* trees, size_t count, const uint8_t* leaves, size_t rows,
                       uint64_t* out) noexcept {
  alignas(64) uint8_t bytes[kBytes][kRows];
  for (size_t row = 0; row < rows; row += kRows) {
    __m512i all[kBytes];
#pragma GCC unroll 8
    for (int b = 0; b < kBytes; ++b) all[b] = _mm512_setzero_si512();
    for (size_t t = 0; t < count; ++t) {
      const __m512i leaf = _mm512_loadu_si512(leaves + t * kScanRows + row);
#pragma GCC unroll 8
      for (int b = 0; b < kBytes; ++b) {
        const __m512i byte = _mm512_permutexvar_epi8(leaf, _mm512_load_si512(trees[t].bytes[b]));
        all[b] = _mm512_or_si512(all[b], byte);
      }
    }
#pragma GCC unroll 8
    for (int b = 0; b < kBytes; ++b) _mm512_store_si512(bytes[b], all[b]);
    for (size_t k = 0; k < kRows; k += 8) {
      __m512i word = _mm512_setzero_si512();
#pragma GCC unroll 8
      for (int b = 0; b < kBytes; ++b) {
        const __m128i some = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes[b] + k));
        word = _mm512_or_si512(word,
                               _mm512_slli_epi64(_mm512_cvtepu8_epi64(some), static_cast<unsigned>(8 * b)));
      }
      _mm512_storeu_si512(out + row + k, word);
    }
  }
}

constexpr PlaneKernels kKernels{fill, add, join};

bool has_vbmi() noexcept {
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512vbmi") != 0;
  }();
  return has;
}

}  // namespace
#endif

const PlaneKernels* plane_kernels(Vectors vectors) noexcept {
#if defined(__x86_64__)
  if (vectors == Vectors::kAvx512 && has_vbmi()) return &kKernels;
#else
  (void)vectors;
#endif
  return nullptr;
}

}  // namespace anytime
