// Compiled for AVX-512 with bfloat16 regardless of the target of other files: each function names
// this target, and is called only if the processor has it.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>
#include <hero/core/cpu/products/transpose_pairs.h>

#if defined(__x86_64__)
namespace hero::core::cpu::bf16 {

namespace {

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

const TileKernel& dot_kernel() {
  static constexpr TileKernel kernel{
      .rows = kRows,
      .chain = kBf16Chain,
      .is_by_rows = false,
      .pack_rows = [](int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
                      uint32_t* to, int64_t) { pack_rows(count, k, from, line, step, to); },
      .multiply = [](int64_t pairs, int64_t rows, int64_t columns, const RowPairs& a,
                     const uint32_t* b, float* sums, bool add,
                     int64_t&) { multiply(pairs, rows, columns, a, b, sums, add); }};
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

// These are for AVX-512 alone: native_half_products() is false, or dot_kernel() goes by rows.
void multiply(int64_t, int64_t, int64_t, const RowPairs&, const uint32_t*, float*, bool) {
  std::abort();
}
void multiply_few(const FewRows&, int64_t, const BFloat16*, float*) { std::abort(); }
#if !defined(__aarch64__)  // whose is in gemm_bfmmla.cpp
const TileKernel& dot_kernel() { std::abort(); }
#endif

}  // namespace hero::core::cpu::bf16

#endif
