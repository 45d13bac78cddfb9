// Compiled for AVX-512 with bfloat16 whatever the rest is compiled for: each function says so, and
// none of them is called where the processor lacks it. Other kinds of processors have the packing.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>

namespace hero::core::cpu::bf16 {

namespace {

// Sixteen lines, of which `count` exist.
void pack_any(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
              uint32_t* to, int64_t width) {
  for (int64_t p = 0; p < k; p += 2) {
    for (int64_t i = 0; i < 16; ++i) {
      uint32_t pair = 0;
      if (i < count) {
        pair = from[i * line + p * step].bits;
        if (p + 1 < k) pair |= static_cast<uint32_t>(from[i * line + (p + 1) * step].bits) << 16;
      }
      to[p / 2 * width + i] = pair;
    }
  }
}

}  // namespace

}  // namespace hero::core::cpu::bf16

#if defined(__x86_64__)
#include <hero/core/cpu/products/avx512_intrinsics.h>

namespace hero::core::cpu::bf16 {

namespace {

// Sixteen pairs of a line become a lane of sixteen vectors.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] inline void transpose_pairs(
    __m512i (&rows)[16]) {
  __m512i by_two[16], by_four[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    by_two[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    by_two[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    by_four[i] = _mm512_unpacklo_epi64(by_two[i], by_two[i + 2]);
    by_four[i + 1] = _mm512_unpackhi_epi64(by_two[i], by_two[i + 2]);
    by_four[i + 2] = _mm512_unpacklo_epi64(by_two[i + 1], by_two[i + 3]);
    by_four[i + 3] = _mm512_unpackhi_epi64(by_two[i + 1], by_two[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i low = _mm512_shuffle_i32x4(by_four[i], by_four[i + 4], 0x88);
    const __m512i high = _mm512_shuffle_i32x4(by_four[i], by_four[i + 4], 0xDD);
    const __m512i next_low = _mm512_shuffle_i32x4(by_four[i + 8], by_four[i + 12], 0x88);
    const __m512i next_high = _mm512_shuffle_i32x4(by_four[i + 8], by_four[i + 12], 0xDD);
    rows[i] = _mm512_shuffle_i32x4(low, next_low, 0x88);
    rows[i + 4] = _mm512_shuffle_i32x4(high, next_high, 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(low, next_low, 0xDD);
    rows[i + 12] = _mm512_shuffle_i32x4(high, next_high, 0xDD);
  }
}

// Lines that lie by elements of k: sixteen of them, of which `count` exist.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] void pack_along(
    int64_t count, int64_t k, const BFloat16* from, int64_t line, uint32_t* to, int64_t width) {
  for (int64_t p = 0; p < k; p += 32) {
    const auto here = std::min<int64_t>(32, k - p);
    const auto mask = here == 32 ? ~__mmask32{0} : (__mmask32{1} << here) - 1;
    __m512i rows[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      rows[i] =
          i < count ? _mm512_maskz_loadu_epi16(mask, from + i * line + p) : _mm512_setzero_si512();
    }
    transpose_pairs(rows);
    const int64_t pairs = (here + 1) / 2;
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if (i < pairs) _mm512_storeu_si512(to + (p / 2 + i) * width, rows[i]);
    }
  }
}

// Elements i of two vectors of sixteen side by side, for i from `first` on.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] __m512i pairs_from(int first) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i low = _mm512_add_epi32(lane, _mm512_set1_epi32(first));
  return _mm512_or_si512(low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(32)), 16));
}

// Lines that lie side by side: one element of k of each, then the next. Up to 16 of them, or 32.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] void pack_across(
    int64_t count, int64_t k, const BFloat16* from, int64_t step, uint32_t* to, int64_t width) {
  const auto mask = count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
  const __m512i lower = pairs_from(0), upper = pairs_from(16);
  for (int64_t p = 0; p < k; p += 2) {
    const __m512i first = _mm512_maskz_loadu_epi16(mask, from + p * step);
    const __m512i second =
        p + 1 < k ? _mm512_maskz_loadu_epi16(mask, from + (p + 1) * step) : _mm512_setzero_si512();
    uint32_t* const pairs = to + p / 2 * width;
    _mm512_storeu_si512(pairs, _mm512_permutex2var_epi16(first, lower, second));
    if (width < 32) continue;
    _mm512_storeu_si512(pairs + 16, _mm512_permutex2var_epi16(first, upper, second));
  }
}

// Whole vectors are stored, from the last lines to the first: what lies beyond a panel's width is
// the beginning of its next step, which is written later.
void pack_panel(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
                uint32_t* to, int64_t width) {
  if (line == 1 && step != 1) return pack_across(count, k, from, step, to, width);
  for (int64_t i = (width - 1) / 16 * 16; i >= 0; i -= 16) {
    const int64_t here = std::clamp<int64_t>(count - i, 0, 16);
    const BFloat16* const lines = here > 0 ? from + i * line : from;
    if (step == 1) {
      pack_along(here, k, lines, line, to + i, width);
    } else {
      pack_any(here, k, lines, line, step, to + i, width);
    }
  }
}

int pair_at(const std::byte* from) {
  int pair = 0;
  std::memcpy(&pair, from, sizeof(pair));
  return pair;
}

template <bool in_place, int rows, int vectors>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] void multiply_tile(
    int64_t pairs, const RowPairs& a, const uint32_t* b, float* sums, bool add) {
  __m512 chains[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) chains[i][v] = _mm512_setzero_ps();
  }
  // Every third row in place has a pointer of its own: the two after it are reached by an index, so
  // registers suffice.
  const std::byte* row_at[(rows + 2) / 3];
  for (int g = 0; g < (rows + 2) / 3; ++g)
    row_at[g] = a.data + (in_place ? 3 * g * a.step : 12 * g);
  const int64_t step = a.step;
  int64_t offset = 0;
  for (int64_t p = 0; p < pairs; ++p) {
    __m512i columns[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) columns[v] = _mm512_loadu_si512(b + 16 * v);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const __m512i row = _mm512_set1_epi32(
          pair_at(row_at[i / 3] + offset + (in_place ? (i % 3) * step : (i % 3) * 4)));
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        chains[i][v] = _mm512_dpbf16_ps(chains[i][v], (__m512bh)row, (__m512bh)columns[v]);
      }
    }
    offset += in_place ? 4 : 4 * kRows;
    b += kColumns;
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* const to = sums + i * kColumns + 16 * v;
      _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), chains[i][v]) : chains[i][v]);
    }
  }
}

// chains[i] += row i of A, from a + i * a_rs on, times sixteen columns of B for `count` elements of
// k, whose pairs are in `steps`.
template <int rows>
[[gnu::always_inline, gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] inline void
add_steps(__m512 (&chains)[rows], const __m512i (&steps)[16], const BFloat16* a, int64_t a_rs,
          int64_t count) {
#pragma GCC unroll 16
  for (int pair = 0; pair < 16; ++pair) {
    if (2 * pair >= count) continue;
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const BFloat16* const at = a + i * a_rs + 2 * pair;
      const int both = 2 * pair + 1 < count ? pair_at(reinterpret_cast<const std::byte*>(at))
                                            : static_cast<int>(at->bits);
      chains[i] =
          _mm512_dpbf16_ps(chains[i], (__m512bh)_mm512_set1_epi32(both), (__m512bh)steps[pair]);
    }
  }
}

// Sixteen columns of B times a few rows, turned in registers. `whole`: all columns exist.
template <int rows, bool whole>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] void few_rows(const FewRows& p,
                                                                               int64_t columns,
                                                                               const BFloat16* b,
                                                                               float* sums) {
  // Every fourth column has a pointer of its own: the three after it are reached by an index.
  const BFloat16* column[4];
  for (int g = 0; g < 4; ++g) column[g] = b + 4 * g * p.b_cs;
  const BFloat16* next = b + p.ahead;
  for (int64_t first = 0; first < p.k; first += p.chain) {
    const int64_t end = std::min(p.k, first + p.chain);
    __m512 chains[rows];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) chains[i] = _mm512_setzero_ps();
    for (int64_t q = first; q < end; q += 32, next += 32 * p.ahead_step) {
      const int64_t here = std::min<int64_t>(32, end - q);
      const auto mask = here == 32 ? ~__mmask32{0} : (__mmask32{1} << here) - 1;
      __m512i steps[16];
      const BFloat16* line = next;
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j, line += p.ahead_column) {
        if (whole || j < columns) {
          steps[j] = _mm512_maskz_loadu_epi16(mask, column[j / 4] + (j % 4) * p.b_cs + q);
          __builtin_prefetch(line, 0, 2);
        } else {
          steps[j] = _mm512_setzero_si512();
        }
      }
      transpose_pairs(steps);
      if (here == 32) {
        add_steps<rows>(chains, steps, p.a + q, p.a_rs, 32);  // a count that the compiler knows
      } else {
        add_steps<rows>(chains, steps, p.a + q, p.a_rs, here);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      float* const to = sums + i * kColumns;
      _mm512_storeu_ps(to, first > 0 ? _mm512_add_ps(_mm512_loadu_ps(to), chains[i]) : chains[i]);
    }
  }
}

template <bool whole, int... i>
constexpr auto few_rows_kernels(std::integer_sequence<int, i...>) {
  using Kernel = void (*)(const FewRows&, int64_t, const BFloat16*, float*);
  return std::array<Kernel, kFewRows>{few_rows<i + 1, whole>...};
}

using Multiply = void (*)(int64_t, const RowPairs&, const uint32_t*, float*, bool);

template <bool in_place, int vectors, int... i>
constexpr std::array<Multiply, kRows> kernels_of(std::integer_sequence<int, i...>) {
  return {multiply_tile<in_place, i + 1, vectors>...};
}

template <bool in_place>
Multiply kernel_for(int64_t rows, int64_t columns) {
  using Rows = std::make_integer_sequence<int, kRows>;
  static constexpr auto narrow = kernels_of<in_place, 1>(Rows{});
  static constexpr auto wide = kernels_of<in_place, 2>(Rows{});
  return (columns <= 16 ? narrow : wide)[static_cast<size_t>(rows - 1)];
}

}  // namespace

void pack_rows(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
               uint32_t* to) {
  pack_panel(count, k, from, line, step, to, kRows);
}

void pack_columns(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
                  uint32_t* to) {
  pack_panel(count, k, from, line, step, to, kColumns);
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] void turn(const uint32_t* from,
                                                                           uint32_t* to,
                                                                           int64_t step) {
  __m512i rows[16];
#pragma GCC unroll 16
  for (int p = 0; p < 16; ++p) rows[p] = _mm512_loadu_si512(from + p * kColumns);
  transpose_pairs(rows);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * step, rows[i]);
}

const TileKernel& dot_kernel() {
  static constexpr TileKernel kernel{
      .rows = kRows,
      .chain = kBf16Chain,
      .is_by_rows = false,
      .pack_rows = [](int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
                      uint32_t* to, int64_t) { pack_rows(count, k, from, line, step, to); },
      .multiply = multiply};
  return kernel;
}

void multiply_few(const FewRows& p, int64_t columns, const BFloat16* b, float* sums) {
  using Rows = std::make_integer_sequence<int, kFewRows>;
  static constexpr auto all = few_rows_kernels<true>(Rows{}),
                        some = few_rows_kernels<false>(Rows{});
  (columns == 16 ? all : some)[static_cast<size_t>(p.rows - 1)](p, columns, b, sums);
}

void multiply(int64_t pairs, int64_t rows, int64_t columns, const RowPairs& a, const uint32_t* b,
              float* sums, bool add) {
  const Multiply kernel =
      a.step != 0 ? kernel_for<true>(rows, columns) : kernel_for<false>(rows, columns);
  kernel(pairs, a, b, sums, add);
}

}  // namespace hero::core::cpu::bf16

#else

namespace hero::core::cpu::bf16 {

void pack_columns(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
                  uint32_t* to) {
  for (int64_t i = 0; i < kColumns; i += 16) {
    const int64_t here = std::clamp<int64_t>(count - i, 0, 16);
    pack_any(here, k, here > 0 ? from + i * line : from, line, step, to + i, kColumns);
  }
}

void turn(const uint32_t* from, uint32_t* to, int64_t step) {
  for (int64_t i = 0; i < 16; ++i) {
    for (int64_t p = 0; p < 16; ++p) to[i * step + p] = from[p * kColumns + i];
  }
}

// These are for AVX-512 alone: native_half_products() is false, or dot_kernel() goes by rows.
void pack_rows(int64_t, int64_t, const BFloat16*, int64_t, int64_t, uint32_t*) { std::abort(); }
void multiply(int64_t, int64_t, int64_t, const RowPairs&, const uint32_t*, float*, bool) {
  std::abort();
}
void multiply_few(const FewRows&, int64_t, const BFloat16*, float*) { std::abort(); }
#if !defined(__aarch64__)  // whose is in gemm_bfmmla.cpp
const TileKernel& dot_kernel() { std::abort(); }
#endif

}  // namespace hero::core::cpu::bf16

#endif

namespace hero::core::cpu::bf16 {

void pack_whole_rows(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
                     uint32_t* to, int64_t row_words) {
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) {
      uint32_t* const row = to + i * row_words;
      if (k % 2 != 0) row[k / 2] = 0;
      std::memcpy(row, from + i * line, static_cast<size_t>(k) * sizeof(BFloat16));
    }
    return;
  }
  // Pairs of all rows side by side, a tile's at a time, and these turned.
  constexpr int64_t kSteps = 16, kElements = 2 * kSteps;
  for (int64_t p = 0; p < k; p += kElements) {
    uint32_t beside[kSteps * kColumns + kPackSlack] = {};
    pack_columns(count, std::min(kElements, k - p), from + p * step, line, step, beside);
    for (int64_t i = 0; i < count; i += kSteps)
      turn(beside + i, to + i * row_words + p / 2, row_words);
  }
}

bool has_groups(const TileKernel& kernel) {
#if defined(__x86_64__)
  return &kernel == &dot_kernel();
#else
  static_cast<void>(kernel);
  return false;
#endif
}

}  // namespace hero::core::cpu::bf16
