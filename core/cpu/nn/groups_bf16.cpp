// Products of a group's weights with its windows by the instruction of AVX512-BF16. Each function
// names its target instruction set, and is called only if the processor has it.
#include <algorithm>
#include <cstdlib>

#include <hero/core/cpu/nn/conv_groups.h>
#include <hero/core/cpu/products/avx512_intrinsics.h>

namespace hero::core::cpu {

#if defined(__x86_64__)

namespace bf16 {
namespace {

// A chain of `rows` rows and some pieces: elements [first, last) of k.
template <int rows, int vectors>
[[gnu::noinline, gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]] void add_pairs(
    int64_t first, int64_t last, const int64_t* steps, const uint32_t* w, const BFloat16* from,
    const WindowPiece* pieces, float* c, int64_t c_row) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i side_by_side =
      _mm512_or_si512(lane, _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(32)), 16));
  const BFloat16* at[vectors];
  for (int v = 0; v < vectors; ++v) at[v] = from + pieces[v].offset;
  __m512 sums[rows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[i][v] = _mm512_setzero_ps();
  }
  const auto add = [&](int64_t p, const __m512i(&x)[vectors])
      __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))) {
    const uint32_t* const pair = w + p / 2 * rows;
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const __m512i weight = _mm512_set1_epi32(static_cast<int>(pair[i]));
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        sums[i][v] = _mm512_dpbf16_ps(sums[i][v], (__m512bh)weight, (__m512bh)x[v]);
      }
    }
  };
  const auto load = [&](int v, int64_t p)
      __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))) {
    return _mm512_castsi256_si512(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at[v] + steps[p])));
  };
  int64_t p = first;
  for (; p + 1 < last; p += 2) {
    __m512i x[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      x[v] = _mm512_permutex2var_epi16(load(v, p), side_by_side, load(v, p + 1));
    }
    add(p, x);
  }
  if (p < last) {  // beside a zero
    __m512i x[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      x[v] = _mm512_permutex2var_epi16(load(v, p), side_by_side, _mm512_setzero_si512());
    }
    add(p, x);
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      float* const to = c + i * c_row + pieces[v].place;
      const auto part = static_cast<__mmask16>((1u << pieces[v].count) - 1);
      if (first > 0) {
        _mm512_mask_storeu_ps(to, part, _mm512_add_ps(_mm512_maskz_loadu_ps(part, to), sums[i][v]));
      } else if (pieces[v].place + 16 <= c_row) {
        _mm512_storeu_ps(to, sums[i][v]);  // what this has too much is overwritten next
      } else {
        _mm512_mask_storeu_ps(to, part, sums[i][v]);
      }
    }
  }
}

}  // namespace
}  // namespace bf16

void add_group_pairs(int rows, const std::vector<int64_t>& steps, const uint32_t* w,
                     const BFloat16* from, const WindowPiece* pieces, float* c, int64_t c_row) {
  const auto add = rows == 8   ? bf16::add_pairs<8, 2>
                   : rows == 4 ? bf16::add_pairs<4, 4>
                   : rows == 2 ? bf16::add_pairs<2, 8>
                               : bf16::add_pairs<1, 8>;
  const auto k = static_cast<int64_t>(steps.size());
  int64_t first = 0;
  do {  // of no steps there is a chain, too: zero
    const int64_t last = std::min(k, first + kBf16Chain);
    add(first, last, steps.data(), w, from, pieces, c, c_row);
    first = last;
  } while (first < k);
}

#else

void add_group_pairs(int, const std::vector<int64_t>&, const uint32_t*, const BFloat16*,
                     const WindowPiece*, float*, int64_t) {
  std::abort();
}

#endif

}  // namespace hero::core::cpu
