#pragma once
// Products of a few rows with columns that are contiguous along k, as the weights of a linear layer
// are: B is read once, at the speed of memory, and transposed in registers, not copied. Only
// gemm.cpp includes this.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <hero/core/cpu/products/gemm_kernel.h>
#include <hero/core/cpu/products/gemm_pack.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu::micro {

// The number of rows of A up to which transposing B in registers is faster than packing it.
inline constexpr int kFewRows = 8;

// Which lines of B are prefetched into the second-level cache while others are read: from `first`
// on, `column` elements from one column's to the next and `step` more for each step of k.
template <class S>
struct LinesAhead {
  const S* first;
  int64_t column, step;
};

// Float32 of AVX-512: quarters of lines come to their place as they are loaded, which takes four
// times as many loads and leaves half of the exchanges.
template <class T>
inline constexpr bool kHasQuarters = kLanes<T> == 16;
// The number of rows of A up to which that is better, if B is in no cache.
inline constexpr int kQuarteredRows = 4;

#if defined(__AVX512F__)
// In each quarter of four vectors: rows of four elements become columns.
[[gnu::always_inline]] inline void turn_quarters(Vector<float> (&x)[4]) {
  const auto low = [](const Vector<float>& a, const Vector<float>& b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  };
  const auto high = [](const Vector<float>& a, const Vector<float>& b) {
    return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15,
                                   31);
  };
  const auto low_pairs = [](const Vector<float>& a, const Vector<float>& b) {
    return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
  };
  const auto high_pairs = [](const Vector<float>& a, const Vector<float>& b) {
    return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30,
                                   31);
  };
  const Vector<float> lower = low(x[0], x[1]), lower_next = low(x[2], x[3]);
  const Vector<float> upper = high(x[0], x[1]), upper_next = high(x[2], x[3]);
  x[0] = low_pairs(lower, lower_next);
  x[1] = high_pairs(lower, lower_next);
  x[2] = low_pairs(upper, upper_next);
  x[3] = high_pairs(upper, upper_next);
}

// steps[q] = element q of sixteen columns, column j at column[j / 4] + j % 4 * b_cs. A line's four
// quarters at once: lines that lie a power of two apart share places of the cache.
[[gnu::always_inline]] inline void load_quarters(const float* const (&column)[4], int64_t b_cs,
                                                 Vector<float> (&steps)[16]) {
  Vector<float> quarters[4][4];
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
#pragma GCC unroll 4
    for (int h = 0; h < 4; ++h) {
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const __m128 part = _mm_loadu_ps(column[h] + g * b_cs + 4 * q);
        quarters[q][g] = h == 0 ? _mm512_castps128_ps512(part)
                                : _mm512_mask_broadcast_f32x4(
                                      quarters[q][g], static_cast<__mmask16>(15 << 4 * h), part);
      }
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    turn_quarters(quarters[q]);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) steps[4 * q + r] = quarters[q][r];
  }
}
#endif

// The same of kLanes columns.
template <class T, bool quarters, class S>
[[gnu::always_inline]] inline void load_turned(const S* const (&column)[(kLanes<T> + 3) / 4],
                                               int64_t b_cs, Vector<T> (&steps)[kLanes<T>]) {
#if defined(__AVX512F__)
  if constexpr (quarters) return load_quarters(column, b_cs, steps);
#endif
#pragma GCC unroll 16
  for (int j = 0; j < kLanes<T>; ++j) steps[j] = load_as<T>(column[j / 4] + j % 4 * b_cs);
  exchange_all<T, kLanes<T> / 2>(steps);
}

// Of bfloat16 pairs of elements are turned as they are, which takes half of the exchanges: pairs[q]
// = elements 2 q and 2 q + 1 of kLanes columns.
[[gnu::always_inline]] inline void load_turned_pairs(
    const BFloat16* const (&column)[(kLanes<float> + 3) / 4], int64_t b_cs,
    Vector<float> (&pairs)[kLanes<float>]) {
#pragma GCC unroll 16
  for (int j = 0; j < kLanes<float>; ++j) {
    std::memcpy(&pairs[j], column[j / 4] + j % 4 * b_cs, sizeof(pairs[j]));
  }
  exchange_all<float, kLanes<float> / 2>(pairs);
}

// sums[i * kLanes + j] = the chains of row i of A and column j of B in blocks of `depth` steps of
// k, added in order: element p of row i at a[p * rows + i], so that one register reaches all of
// them; column j of B at b + j * b_cs, one step after the other; kLanes columns.
template <class T, class S, int rows, bool quarters>
void few_rows(int64_t k, int64_t depth, const T* a, const S* b, int64_t b_cs,
              const LinesAhead<S>& ahead, T* sums) {
  constexpr int lanes = kLanes<T>;
  // Every fourth column has a pointer of its own: the three after it are reached by an index, so
  // registers suffice.
  const S* column[(lanes + 3) / 4];
  for (int g = 0; g < (lanes + 3) / 4; ++g) column[g] = b + 4 * g * b_cs;
  const T* x = a;
  const S* next = ahead.first;
  Vector<T> totals[rows] = {};
  for (int64_t first = 0; first < k; first += depth) {
    const int64_t end = std::min(k, first + depth);
    Vector<T> chains[rows] = {};
    int64_t p = first;
    if constexpr (std::is_same_v<S, BFloat16>) {
      for (; p + 2 * lanes <= end; p += 2 * lanes) {
        Vector<T> pairs[lanes];
        load_turned_pairs(column, b_cs, pairs);
        const S* line = next;
#pragma GCC unroll 16
        for (int j = 0; j < lanes; ++j, line += ahead.column) __builtin_prefetch(line, 0, 2);
#pragma GCC unroll 16
        for (int q = 0; q < lanes; ++q) {
          const auto words = (WordLanes)pairs[q];
          const auto low = (Vector<T>)(words << 16), high = (Vector<T>)(words & 0xFFFF0000u);
#pragma GCC unroll 8
          for (int i = 0; i < rows; ++i) {
            chains[i] = multiply_add<T>(x[2 * q * rows + i] - Vector<T>{}, low, chains[i]);
            chains[i] = multiply_add<T>(x[(2 * q + 1) * rows + i] - Vector<T>{}, high, chains[i]);
          }
        }
        x += 2 * lanes * rows;
        next += 2 * lanes * ahead.step;
        for (const S*& from : column) from += 2 * lanes;
      }
    }
    for (; p + lanes <= end; p += lanes) {
      Vector<T> steps[lanes];
      load_turned<T, quarters>(column, b_cs, steps);
      const S* line = next;
#pragma GCC unroll 16
      for (int j = 0; j < lanes; ++j, line += ahead.column) __builtin_prefetch(line, 0, 2);
#pragma GCC unroll 16
      for (int q = 0; q < lanes; ++q) {
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
          chains[i] = multiply_add<T>(x[q * rows + i] - Vector<T>{}, steps[q], chains[i]);
        }
      }
      x += lanes * rows;
      next += lanes * ahead.step;
      for (const S*& from : column) from += lanes;
    }
    for (; p < end; ++p, x += rows, next += ahead.step) {
      Vector<T> step;
      for (int j = 0; j < lanes; ++j) step[j] = static_cast<T>(column[j / 4][j % 4 * b_cs]);
      for (int i = 0; i < rows; ++i) {
        chains[i] = multiply_add<T>(x[i] - Vector<T>{}, step, chains[i]);
      }
      for (const S*& from : column) ++from;
    }
    for (int i = 0; i < rows; ++i) totals[i] = first == 0 ? chains[i] : totals[i] + chains[i];
  }
  for (int i = 0; i < rows; ++i) store<T>(sums + i * lanes, totals[i]);
}

template <class T, class S>
using FewRows = void (*)(int64_t, int64_t, const T*, const S*, int64_t, const LinesAhead<S>&, T*);

template <class T, class S, bool quarters, int... i>
constexpr auto few_rows_kernels(std::integer_sequence<int, i...>) {
  return std::array<FewRows<T, S>, sizeof...(i)>{few_rows<T, S, i + 1, quarters>...};
}

/// The kernel for 1 to kFewRows rows; `far`: B is not in a cache.
template <class T, class S>
FewRows<T, S> few_rows_kernel(int64_t rows, bool far) {
  const auto at = static_cast<size_t>(rows - 1);
  if constexpr (kHasQuarters<T> && std::is_same_v<T, S>) {
    static constexpr auto quartered =
        few_rows_kernels<T, S, true>(std::make_integer_sequence<int, kQuarteredRows>{});
    if (far && rows <= kQuarteredRows) return quartered[at];
  }
  static constexpr auto kernels =
      few_rows_kernels<T, S, false>(std::make_integer_sequence<int, kFewRows>{});
  return kernels[at];
}

inline constexpr int64_t kFewWork = 1 << 16;     // multiply-adds a thread takes at a time, at least
inline constexpr int64_t kPiecesInRow = 32;      // each of which asks for the lines of the next
inline constexpr int64_t kPieceAhead = 1 << 18;  // bytes: two such pieces fit half of 1 MiB
inline constexpr int64_t kColumnAhead = 512;     // bytes of a column, elsewhere
inline constexpr int64_t kFar = 1 << 24;  // bytes of a weight that is taken to be in no cache

/// C [m, n] = A B by few_rows(): 1 to kFewRows rows, kLanes columns or more. store(j, columns,
/// sums, step) is called with the sums of some columns from j on, those of row i at sums + i *
/// step.
template <class T, class S, class Store>
struct FewProduct {
  int64_t m, n, k, depth;
  const S* a;
  int64_t a_rs;
  const S* b;
  int64_t b_cs;
  const Store& store;

  void run() const {
    const auto kernel = few_rows_kernel<T, S>(m, is_far());
    if constexpr (std::is_same_v<T, S>) {
      if (m == 1) return run_pieces(kernel, a);
    }
    const Workspace<T> rows(m * k);
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < m; ++i) rows.data()[p * m + i] = static_cast<T>(a[i * a_rs + p]);
    }
    run_pieces(kernel, rows.data());
  }

 private:
  void run_pieces(FewRows<T, S> kernel, const T* side_by_side) const {
    constexpr int64_t width = kLanes<T>;
    const int64_t pieces = (n + width - 1) / width;
    const int64_t grain =
        std::max({int64_t{1}, std::min(kPiecesInRow, pieces / 8), kFewWork / (k * width)});
    parallel_for(pieces, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_columns(i * width, kernel, side_by_side);
    });
  }
  bool is_far() const { return n * k * static_cast<int64_t>(sizeof(S)) > kFar; }
  // Whether to ask for the next piece, which follows in memory where columns do. Lines of columns
  // that lie a multiple of 4 KiB apart share places of the first-level cache; from a larger one
  // they come sooner by columns.
  bool next_piece() const {
    constexpr int64_t size = sizeof(S);
    return b_cs == k && kLanes<T> * k * size <= kPieceAhead && (is_far() || k * size % 4096 != 0);
  }
  // kLanes columns from j on, the last of which are computed beside some of those before.
  void run_columns(int64_t j, FewRows<T, S> kernel, const T* rows) const {
    constexpr int64_t width = kLanes<T>, size = sizeof(S);
    T sums[kFewRows * kLanes<T>];
    const int64_t first = std::min(j, n - width);
    const S* const from = b + first * b_cs;
    const LinesAhead<S> ahead = next_piece() ? LinesAhead<S>{from + width * k, width, width}
                                             : LinesAhead<S>{from + kColumnAhead / size, b_cs, 1};
    kernel(k, depth, rows, from, b_cs, ahead, sums);
    store(j, first + width - j, sums + (j - first), width);
  }
};

}  // namespace hero::core::cpu::micro
