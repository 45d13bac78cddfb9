// Compiled for AVX-512 regardless of the target of other files, as gemm_bf16_kernel.cpp is; for
// other kinds of processors as plain loops.
#include <algorithm>
#include <bit>

#include <hero/core/cpu/products/gemm_bf16_windows.h>

#if defined(__x86_64__)
#include <hero/core/cpu/products/avx512_intrinsics.h>

namespace hero::core::cpu::bf16 {

namespace {

// Elements i of two vectors of sixteen side by side, for i from `first` on.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] inline __m512i window_pairs(int first) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i low = _mm512_add_epi32(lane, _mm512_set1_epi32(first));
  return _mm512_or_si512(low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(32)), 16));
}

// Two steps of k of 32 columns that lie side by side.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void pack_beside(const int64_t* steps,
                                                                       int64_t length,
                                                                       const BFloat16* from,
                                                                       uint32_t* to) {
  const __m512i lower = window_pairs(0), upper = window_pairs(16);
  for (int64_t q = 0; q < length; q += 2, to += kColumns) {
    const __m512i first = _mm512_loadu_si512(from + steps[q]);
    const __m512i second =
        q + 1 < length ? _mm512_loadu_si512(from + steps[q + 1]) : _mm512_setzero_si512();
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(first, lower, second));
    _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(first, upper, second));
  }
}

// Vectors that end a run too long are followed by those that belong there. Their number is known to
// the compiler where it is small.
template <int vectors>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void pack_vectors(const WindowPanel& panel,
                                                                        const int64_t* steps,
                                                                        int64_t length,
                                                                        const BFloat16* from,
                                                                        uint32_t* to) {
  const int64_t count = vectors > 0 ? vectors : panel.vectors;
  for (int64_t q = 0; q < length; q += 2, to += kColumns) {
    const bool both = q + 1 < length;
    const BFloat16 *const first = from + steps[q], *const second = from + steps[q + (both ? 1 : 0)];
    const auto mask = static_cast<__mmask16>(both ? 0xFFFF : 0);
#pragma GCC unroll 4
    for (int64_t v = 0; v < count; ++v) {
      // the mask, since g++ 12 warns of what the plain one leaves undefined
      const auto load = [&](const BFloat16* at)
          __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx512dq"))) {
        return _mm512_maskz_cvtepu16_epi32(
            0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + panel.offset[v])));
      };
      const __m512i low = load(first), high = _mm512_maskz_slli_epi32(mask, load(second), 16);
      _mm512_storeu_si512(to + panel.place[v], _mm512_or_si512(low, high));
    }
  }
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] inline void store_some(int64_t count,
                                                                             const BFloat16* from,
                                                                             BFloat16* to) {
  const auto mask = count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
  _mm512_mask_storeu_epi16(to, mask, _mm512_loadu_si512(from));
}

}  // namespace

void pack_windows(const WindowPanel& panel, const int64_t* steps, int64_t length,
                  const BFloat16* from, uint32_t* to) {
  if (panel.vectors == 2 && panel.columns == kColumns &&
      panel.offset[1] == panel.offset[0] + panel.place[1]) {
    return pack_beside(steps, length, from + panel.offset[0], to);
  }
  const auto pack_so_many = panel.vectors == 2   ? pack_vectors<2>
                            : panel.vectors == 3 ? pack_vectors<3>
                            : panel.vectors == 4 ? pack_vectors<4>
                                                 : pack_vectors<0>;
  pack_so_many(panel, steps, length, from, to);
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void copy_runs(
    const HalfRun* begin, const HalfRun* end, int64_t first, const BFloat16* from, BFloat16* to) {
  for (const HalfRun* run = begin; run != end; ++run) {
    BFloat16* const target = to + run->place - first;
    if (run->offset < 0) {
      target->bits = 0;
      continue;
    }
    const BFloat16* const source = from + run->offset;
    for (int64_t x = 0; x < run->count; x += 32) {
      _mm512_storeu_si512(target + x, _mm512_loadu_si512(source + x));
    }
  }
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void store_places(const WindowPanel& panel,
                                                                        const BFloat16* from,
                                                                        BFloat16* to) {
  for (int64_t r = 0; r < panel.pieces; ++r) {
    const auto& run = panel.of_c[r];
    store_some(run.count, from + run.place, to + run.offset);
  }
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void store_turned(
    int64_t rows, int64_t columns, const float* sums, BFloat16* to, int64_t step) {
  for (int64_t i = 0; i < rows; i += 16) {
    for (int64_t j = 0; j < columns; j += 16) {
      uint32_t turned[16 * 16];
      turn(reinterpret_cast<const uint32_t*>(sums + i * kColumns + j), turned, 16);
      BFloat16 halves[16 * 16 + 16];
#pragma GCC ivdep
      for (int64_t l = 0; l < 16 * 16; ++l) halves[l] = BFloat16(std::bit_cast<float>(turned[l]));
      const int64_t here = std::min<int64_t>(16, rows - i);
      for (int64_t l = 0; l < std::min<int64_t>(16, columns - j); ++l) {
        store_some(here, halves + l * 16, to + (j + l) * step + i);
      }
    }
  }
}

}  // namespace hero::core::cpu::bf16

#else

namespace hero::core::cpu::bf16 {

void pack_windows(const WindowPanel& panel, const int64_t* steps, int64_t length,
                  const BFloat16* from, uint32_t* to) {
  for (int64_t q = 0; q < length; q += 2, to += kColumns) {
    for (int64_t v = 0; v < panel.vectors; ++v) {
      const BFloat16* const first = from + steps[q] + panel.offset[v];
      for (int64_t l = 0; l < 16; ++l) to[panel.place[v] + l] = first[l].bits;
      if (q + 1 == length) continue;
      const BFloat16* const second = from + steps[q + 1] + panel.offset[v];
      for (int64_t l = 0; l < 16; ++l) {
        to[panel.place[v] + l] |= static_cast<uint32_t>(second[l].bits) << 16;
      }
    }
  }
}

void copy_runs(const HalfRun* begin, const HalfRun* end, int64_t first, const BFloat16* from,
               BFloat16* to) {
  for (const HalfRun* run = begin; run != end; ++run) {
    BFloat16* const target = to + run->place - first;
    if (run->offset < 0) {
      target->bits = 0;
    } else {
      std::copy_n(from + run->offset, run->count, target);
    }
  }
}

void store_places(const WindowPanel& panel, const BFloat16* from, BFloat16* to) {
  for (int64_t r = 0; r < panel.pieces; ++r) {
    const auto& run = panel.of_c[r];
    std::copy_n(from + run.place, run.count, to + run.offset);
  }
}

void store_turned(int64_t rows, int64_t columns, const float* sums, BFloat16* to, int64_t step) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) to[j * step + i] = BFloat16(sums[i * kColumns + j]);
  }
}

}  // namespace hero::core::cpu::bf16

#endif
