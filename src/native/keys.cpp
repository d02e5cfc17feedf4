#include "keys.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of which GCC 12's own header has many
#include <immintrin.h>
#endif

namespace anytime {

#if defined(__x86_64__)
namespace {

#define ANYTIME_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]

constexpr int kTogether = 2 * kLanes;  // rows whose keys fill a vector

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr size_t kMostOpen = 256;  // that wait to be settled

// Some of kTogether rows, by the pack with the first of them, whose keys leave their ranks in a search open.
struct Open {
  const Search* search;
  size_t pack;
  uint32_t rows;
};

// What the instruction of this name makes of a NaN: 0, or what lies below or above all thresholds.
constexpr int64_t kNanIsZero = 0x88, kNanIsLeast = 0x44, kNanIsGreatest = 0x55;

ANYTIME_AVX512 inline __m512d prepared(__m512d x, Reading reading) noexcept {
  const bool last = nan_goes_right(reading);
  if (reading == Reading::kNanOrZeroLeft || reading == Reading::kNanOrZeroRight) {
    const double missing = last ? kInfinity : -kInfinity;
    const __mmask8 zero = _mm512_cmp_pd_mask(_mm512_abs_pd(x), _mm512_set1_pd(kZero), _CMP_LE_OQ);
    x = _mm512_mask_mov_pd(x, zero, _mm512_set1_pd(missing));
  }
  const int64_t nan = reading == Reading::kNanIsZero ? kNanIsZero : last ? kNanIsGreatest : kNanIsLeast;
  return _mm512_fixupimm_pd(x, x, _mm512_set1_epi64(nan), 0);
}

// The rows of packs: of each kTogether of them, one after the other those whose keys stand in the same part
// of 64 bits. Of packs that are not there, the last stands in.
template <class Rank>
struct RowsByPart {
  explicit RowsByPart(std::span<const PackRows<Rank>> packs) noexcept {
    for (size_t i = 0; i < kBinTogether * kLanes; ++i) {
      row[i / kTogether][i % kParts][i % kTogether / kParts] =
          packs[std::min(i / kLanes, packs.size() - 1)].row[i % kLanes];
    }
  }

  static constexpr size_t kParts = 4;
  const double* row[kBinTogether * kLanes / kTogether][kParts][kTogether / kParts];
};

// The keys of kTogether rows.
ANYTIME_AVX512 inline __m512i read_keys(const Search& search, bool float32_input,
                                        const double* const (&rows)[4][8]) noexcept {
  const auto feature = static_cast<size_t>(search.feature);
  const __m512d low = _mm512_set1_pd(search.key_low), scale = _mm512_set1_pd(search.key_scale),
                least = _mm512_set1_pd(-1.0), most = _mm512_set1_pd(Search::kLastKey),
                whole = _mm512_set1_pd(Search::kWhole);
  __m512i keys[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto& row = rows[i];
    __m512d value = _mm512_set_pd(row[7][feature], row[6][feature], row[5][feature], row[4][feature],
                                  row[3][feature], row[2][feature], row[1][feature], row[0][feature]);
    if (float32_input) value = _mm512_cvtps_pd(_mm512_cvtpd_ps(value));
    value = prepared(value, search.reading);
    const __m512d at = _mm512_mul_pd(_mm512_sub_pd(value, low), scale);
    keys[i] = _mm512_castpd_si512(_mm512_add_pd(_mm512_min_pd(_mm512_max_pd(at, least), most), whole));
  }
  // Each has its keys in the last 16 of 64 bits, and side by side stand keys of neighbouring rows.
  const __m512i mask = _mm512_set1_epi64(0xffff);
  const __m512i lower = _mm512_or_si512(_mm512_and_si512(keys[0], mask),
                                        _mm512_slli_epi64(_mm512_and_si512(keys[1], mask), 16));
  return _mm512_or_si512(_mm512_or_si512(lower, _mm512_slli_epi64(_mm512_and_si512(keys[2], mask), 32)),
                         _mm512_slli_epi64(keys[3], 48));
}

// How many keys of a search lie below those of two times kTogether rows; `open` where the next key is the
// same. The two are taken side by side: each step waits for the one before it.
template <int kStep>
ANYTIME_AVX512 inline void count_keys(const uint16_t* tables, const __m512i (&keys)[2], __m512i (&below)[2],
                                      __mmask32 (&open)[2]) noexcept {
  const __m512i low = _mm512_loadu_si512(tables), high = _mm512_loadu_si512(tables + kKeyTable / 2);
  __m512i pivot[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 3
  for (int quarter = int{kKeyTable} / 4; quarter > 0; quarter /= 4) {
    const __m512i from[2] = {pivot[0], pivot[1]}, step = _mm512_set1_epi16(static_cast<short>(quarter));
#pragma GCC unroll 3
    for (int i = 1; i < 4; ++i) {
      const __m512i ahead = _mm512_set1_epi16(static_cast<short>(i * quarter - 1));
#pragma GCC unroll 2
      for (int g = 0; g < 2; ++g) {
        const __m512i value = quarter == int{kKeyTable} / 4  // where all look at the same
                                  ? _mm512_set1_epi16(static_cast<short>(tables[i * quarter - 1]))
                                  : _mm512_permutex2var_epi16(low, _mm512_add_epi16(from[g], ahead), high);
        pivot[g] = _mm512_mask_add_epi16(pivot[g], _mm512_cmplt_epu16_mask(value, keys[g]), pivot[g], step);
      }
    }
  }
#pragma GCC unroll 2
  for (int g = 0; g < 2; ++g) {
    below[g] = _mm512_slli_epi16(pivot[g], kStep == 4 ? 2 : kStep - 1);
    __m512i next = _mm512_permutex2var_epi16(low, pivot[g], high);  // the least key that is not below
#pragma GCC unroll 4
    for (int t = kStep - 1; t > 0; --t) {
      const __m512i value =
          _mm512_permutex2var_epi16(_mm512_loadu_si512(tables + t * kKeyTable), pivot[g],
                                    _mm512_loadu_si512(tables + t * kKeyTable + kKeyTable / 2));
      const __mmask32 above = _mm512_cmplt_epu16_mask(value, keys[g]);
      below[g] = _mm512_mask_add_epi16(below[g], above, below[g], _mm512_set1_epi16(1));
      next = _mm512_mask_mov_epi16(value, above, next);
    }
    open[g] = _mm512_cmpeq_epi16_mask(next, keys[g]);
  }
}

ANYTIME_AVX512 inline void store(__m512i ranks, uint8_t* out) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_maskz_cvtepi16_epi8(~__mmask32{0}, ranks));
}
ANYTIME_AVX512 inline void store(__m512i ranks, uint16_t* out) noexcept { _mm512_storeu_si512(out, ranks); }

// The ranks of two packs, or of one and once more the same.
template <class Rank>
ANYTIME_AVX512 inline void store(__m512i below, const Search& search, const PackRanks<Rank>& first,
                                 const PackRanks<Rank>& second) noexcept {
  if (first.high == first.low + kHalf && second.low == first.low + kLanes) {
    return store(below, first.low + search.column * first.stride);
  }
  Rank ranks[kTogether];
  store(below, ranks);
  for (int i = 0; i < kTogether; i += kHalf) {
    const PackRanks<Rank>& of = i < kLanes ? first : second;
    std::copy_n(ranks + i, kHalf, (i % kLanes == 0 ? of.low : of.high) + search.column * of.stride);
  }
}

template <class Rank, int kStep>
ANYTIME_AVX512 inline size_t bin_avx512(const Layout& layout, bool float32_input, const Search& shared,
                                        std::span<const PackRows<Rank>> packs, const RowsByPart<Rank>& rows,
                                        Open* open) noexcept {
  const Search search = shared;  // ranks are written as bytes, which might be part of anything but a copy
  const size_t last = packs.size() - 1;
  __m512i keys[2], below[2];
  __mmask32 unsure[2];
#pragma GCC unroll 2
  for (size_t g = 0; g < 2; ++g) {
    keys[g] = read_keys(search, float32_input, rows.row[g]);
  }
  count_keys<kStep>(layout.keys.data() + search.keys, keys, below, unsure);
  size_t n_open = 0;
#pragma GCC unroll 2
  for (size_t g = 0; g < 2; ++g) {
    store(below[g], search, packs[std::min(2 * g, last)].ranks, packs[std::min(2 * g + 1, last)].ranks);
    open[n_open] = {&shared, 2 * g, unsure[g]};
    n_open += unsure[g] != 0;
  }
  return n_open;
}

// Where the next key is the same, doubles decide. What is missing is never open: no threshold has its key.
template <class Rank>
void settle(const Layout& layout, bool float32_input, std::span<const PackRows<Rank>> packs,
            const Open& open) noexcept {
  const Search& search = *open.search;
  const double* const thresholds = layout.thresholds.data() + search.first;
  for (uint32_t left = open.rows; left != 0; left &= left - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(left));
    if (open.pack + i / kLanes >= packs.size()) return;
    const PackRows<Rank>& pack = packs[open.pack + i / kLanes];
    const size_t lane = i % kLanes;
    double x = pack.row[lane][search.feature];
    if (float32_input) x = static_cast<float>(x);
    if (search.reading == Reading::kNanIsZero && std::isnan(x)) x = 0.0;
    Rank& rank =
        (lane < kHalf ? pack.ranks.low : pack.ranks.high)[search.column * pack.ranks.stride + lane % kHalf];
    uint32_t below = rank;
    while (below < search.count && thresholds[below] < x) ++below;
    rank = static_cast<Rank>(below);
  }
}

// Whether so many ranks of a search are open that keys were of no use, as where values often are thresholds.
ANYTIME_AVX512 inline bool is_mostly_open(std::span<const Open> open, size_t packs) noexcept {
  int rows = 0;
  for (const Open& some : open) rows += std::popcount(some.rows);
  return rows > static_cast<int>(packs * kLanes / 4);
}

template <class Rank>
ANYTIME_AVX512 void bin_all_avx512(const Layout& layout, bool float32_input,
                                   std::span<const PackRows<Rank>> packs, int32_t from, int32_t to,
                                   const FewTests& few) noexcept {
  const RowsByPart<Rank> rows(packs);
  Open open[kMostOpen];
  size_t n_open = 0;
  for (int32_t s = from; s < to; ++s) {
    const Search& search = layout.searches[static_cast<size_t>(s)];
    const size_t before = n_open;
    const uint32_t key_step = few.has(s) ? 0 : search.key_step;
    if (key_step == 1) {
      n_open += bin_avx512<Rank, 1>(layout, float32_input, search, packs, rows, open + n_open);
    }
    if (key_step == 2) {
      n_open += bin_avx512<Rank, 2>(layout, float32_input, search, packs, rows, open + n_open);
    }
    if (key_step == 4) {
      n_open += bin_avx512<Rank, 4>(layout, float32_input, search, packs, rows, open + n_open);
    }
    if (is_mostly_open(std::span(open + before, n_open - before), packs.size())) {
      n_open = before;
      bin_by_doubles(layout, float32_input, search, packs);
    }
    if (n_open + packs.size() + 4 < kMostOpen && s + 1 < to) continue;
    for (size_t i = 0; i < n_open; ++i) settle(layout, float32_input, packs, open[i]);
    n_open = 0;
  }
}

ANYTIME_AVX512 inline __m512i replaced(__m512i ranks, uint64_t rows, uint8_t rank) noexcept {
  return _mm512_mask_mov_epi8(ranks, rows, _mm512_set1_epi8(static_cast<char>(rank)));
}
ANYTIME_AVX512 inline __m512i replaced(__m512i ranks, uint64_t rows, uint16_t rank) noexcept {
  return _mm512_mask_mov_epi16(ranks, static_cast<__mmask32>(rows),
                               _mm512_set1_epi16(static_cast<short>(rank)));
}

constexpr size_t kFewRows = kBinTogether * kLanes;
static_assert(kFewRows == 64 && FewTests::kColumns == 8);

// A row's answers to the tests of eight columns, a bit for each.
struct FewBits {
  alignas(64) uint8_t above[kFew][kFewRows], nan[kFewRows];
};

// A row's answers; what all rows share stays in registers. kMost tests, and whether a value may be missing in
// a way that more than its NaN says.
template <int kMost, bool kPlain, class Rank>
ANYTIME_AVX512 inline void compare_few(bool float32_input, const FewTests::Columns& columns,
                                       std::span<const PackRows<Rank>> packs, FewBits& bits) noexcept {
  __m512d thresholds[kMost];
#pragma GCC unroll 4
  for (int j = 0; j < kMost; ++j) thresholds[j] = _mm512_loadu_pd(columns.thresholds[j]);
  const __m512i fix_up = _mm512_loadu_si512(columns.fix_up);
  const __mmask8 read = columns.read;
  const auto first = static_cast<size_t>(columns.first);
  uint8_t *above = bits.above[0], *nan = bits.nan;
  for (const PackRows<Rank>& pack : packs) {
    for (int i = 0; i < kLanes; ++i, ++above, ++nan) {
      __m512d x = _mm512_maskz_loadu_pd(read, pack.row[i] + first);
      if (!kPlain && float32_input) x = _mm512_cvtps_pd(_mm512_cvtpd_ps(x));
      x = _mm512_fixupimm_pd(x, x, fix_up, 0);
      if constexpr (!kPlain) {
        const __mmask8 zero = _mm512_mask_cmp_pd_mask(columns.zero_is_missing, _mm512_abs_pd(x),
                                                      _mm512_set1_pd(kZero), _CMP_LE_OQ);
        x = _mm512_mask_mov_pd(x, zero, _mm512_loadu_pd(columns.missing));
        *nan = _mm512_mask_cmp_pd_mask(columns.nan_last, x, x, _CMP_UNORD_Q);
      }
#pragma GCC unroll 4
      for (int j = 0; j < kMost; ++j) {
        above[static_cast<size_t>(j) * kFewRows] = _mm512_cmp_pd_mask(x, thresholds[j], _CMP_GT_OQ);
      }
    }
  }
}

template <int kMost, class Rank>
ANYTIME_AVX512 inline void compare_few(bool float32_input, const FewTests::Columns& columns,
                                       std::span<const PackRows<Rank>> packs, FewBits& bits) noexcept {
  if (float32_input || columns.zero_is_missing != 0 || columns.nan_last != 0) {
    compare_few<kMost, false>(float32_input, columns, packs, bits);
  } else {
    compare_few<kMost, true>(float32_input, columns, packs, bits);
  }
}

template <class Rank>
ANYTIME_AVX512 inline void store_few(const FewTests::Columns& columns, const FewBits& bits,
                                     std::span<const PackRows<Rank>> packs) noexcept {
  constexpr size_t kParts = sizeof(Rank);
  for (int column = 0; column < FewTests::kColumns; ++column) {
    const FewTests::Test& test = columns.tests[column];
    if (test.search == nullptr) continue;
    const __m512i bit = _mm512_set1_epi8(static_cast<char>(1 << column));
    __m512i ranks[kParts] = {};
    const int last = test.count + (columns.nan_last >> column & 1);
    for (int j = 0; j < last; ++j) {
      const uint8_t* where = j < test.count ? bits.above[j] : bits.nan;
      const Rank rank = j < test.count ? static_cast<Rank>(test.rank[j]) : kLastRank<Rank>;
      const uint64_t rows = _mm512_test_epi8_mask(_mm512_load_si512(where), bit);
      for (size_t part = 0; part < kParts; ++part) {
        ranks[part] = replaced(ranks[part], rows >> (part * 32), rank);
      }
    }
    Rank out[kFewRows];
    std::memcpy(out, ranks, sizeof out);
    for (size_t p = 0; p < packs.size(); ++p) {
      const PackRanks<Rank>& to = packs[p].ranks;
      std::copy_n(out + p * kLanes, kHalf, to.low + test.search->column * to.stride);
      std::copy_n(out + p * kLanes + kHalf, kHalf, to.high + test.search->column * to.stride);
    }
  }
}

// Eight columns after eight: the first brings the rows into the first cache.
template <class Rank>
ANYTIME_AVX512 void bin_few_avx512(bool float32_input, std::span<const FewTests::Columns> columns,
                                   std::span<const PackRows<Rank>> packs) noexcept {
  FewBits bits;
  for (const FewTests::Columns& some : columns) {
    if (some.most <= 1) {
      compare_few<1>(float32_input, some, packs, bits);
    } else if (some.most == 2) {
      compare_few<2>(float32_input, some, packs, bits);
    } else {
      compare_few<kFew>(float32_input, some, packs, bits);
    }
    store_few(some, bits, packs);
  }
}

}  // namespace
#endif

template <class Rank>
BinByKeys<Rank> bin_by_keys_for(Vectors vectors) noexcept {
#if defined(__x86_64__)
  if (vectors == Vectors::kAvx512) return bin_all_avx512<Rank>;
#else
  (void)vectors;
#endif
  return nullptr;
}

template <class Rank>
BinFew<Rank> bin_few_for(Vectors vectors) noexcept {
#if defined(__x86_64__)
  if (vectors == Vectors::kAvx512) return bin_few_avx512<Rank>;
#else
  (void)vectors;
#endif
  return nullptr;
}

template BinByKeys<uint8_t> bin_by_keys_for(Vectors) noexcept;
template BinByKeys<uint16_t> bin_by_keys_for(Vectors) noexcept;
template BinFew<uint8_t> bin_few_for(Vectors) noexcept;
template BinFew<uint16_t> bin_few_for(Vectors) noexcept;

}  // namespace anytime
