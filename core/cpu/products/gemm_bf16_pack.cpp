// Packing of operands of gemm_bf16. Each function that is compiled for AVX-512 with bfloat16 names
// this target, and is called only if the processor has it.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>
#include <hero/core/cpu/products/transpose_pairs.h>

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
namespace hero::core::cpu::bf16 {

namespace {

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

// Steps [0, k) of `count` lines that lie side by side: pair p of line i at to[p * to_step + i], and
// zeros up to a multiple of 32 lines.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] void pair_beside(
    int64_t count, int64_t k, const BFloat16* from, int64_t step, uint32_t* to, int64_t to_step) {
  const __m512i lower = pairs_from(0), upper = pairs_from(16);
  for (int64_t p = 0; p < k; p += 2, to += to_step) {
    const BFloat16 *const first = from + p * step, *const second = first + step;
    for (int64_t i = 0; i < count; i += 32) {
      const auto mask = count - i >= 32 ? ~__mmask32{0} : (__mmask32{1} << (count - i)) - 1;
      const __m512i x = _mm512_maskz_loadu_epi16(mask, first + i);
      const __m512i y =
          p + 1 < k ? _mm512_maskz_loadu_epi16(mask, second + i) : _mm512_setzero_si512();
      _mm512_storeu_si512(to + i, _mm512_permutex2var_epi16(x, lower, y));
      _mm512_storeu_si512(to + i + 16, _mm512_permutex2var_epi16(x, upper, y));
    }
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

}  // namespace

void pack_rows(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
               uint32_t* to) {
  pack_panel(count, k, from, line, step, to, kRows);
}

// Every cache line of the operand is read once, and its pairs go through the first-level cache.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] void pack_panels(
    int64_t count, int64_t panels, int64_t k, const BFloat16* from, int64_t step, uint32_t* to,
    int64_t panel_size) {
  constexpr int64_t kSteps = 16, kPanels = 18, kLines = kPanels * kRows;
  constexpr int64_t kBeside = (kLines + 31) / 32 * 32 + 16;
  alignas(64) uint32_t beside[kSteps / 2 * kBeside];
  for (int64_t i = 0; i < panels; i += kPanels) {
    const int64_t last = std::min(panels, i + kPanels), left = count * i / panels;
    for (int64_t q = 0; q < k; q += kSteps) {
      const int64_t steps = std::min(kSteps, k - q), pairs = (steps + 1) / 2;
      pair_beside(count * last / panels - left, steps, from + left + q * step, step, beside,
                  kBeside);
      for (int64_t panel = i; panel < last; ++panel) {
        const uint32_t* const own = beside + count * panel / panels - left;
        uint32_t* const packed = to + panel * panel_size + q / 2 * kRows;
        for (int64_t p = 0; p < pairs; ++p) {
          _mm512_storeu_si512(packed + p * kRows, _mm512_loadu_si512(own + p * kBeside));
        }
      }
    }
  }
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

// For AVX-512 alone, as the kernel that reads what they write.
void pack_rows(int64_t, int64_t, const BFloat16*, int64_t, int64_t, uint32_t*) { std::abort(); }
void pack_panels(int64_t, int64_t, int64_t, const BFloat16*, int64_t, uint32_t*, int64_t) {
  std::abort();
}

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

}  // namespace hero::core::cpu::bf16
