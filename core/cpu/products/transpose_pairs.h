#pragma once
// The transposition of a 16 x 16 matrix of pairs of half-precision numbers in registers of AVX-512.
#include <hero/core/cpu/products/avx512_intrinsics.h>

#if defined(__x86_64__)
namespace hero::core::cpu::bf16 {

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

}  // namespace hero::core::cpu::bf16
#endif
