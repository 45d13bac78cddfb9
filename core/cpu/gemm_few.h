#pragma once
// Products of a few rows with columns that lie one element of k after the other, as the weights of
// a linear layer do: B is read once, as fast as it comes, and turned in registers, not copied. Only
// gemm.cpp includes this.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <hero/core/cpu/gemm_kernel.h>
#include <hero/core/cpu/gemm_pack.h>

namespace hero::core::cpu::micro {

// Rows of A up to which turning B in registers beats packing it.
inline constexpr int kFewRows = 8;
inline constexpr int kFewAhead = 512;  // bytes of a column that are asked for before they are read

// sums[i * kLanes + j] = the chains of row i of A and column j of B in blocks of `depth` steps of
// k, added in order: row i of A at a + i * a_rs, column j of B at b + j * b_cs, both one step after
// the other; kLanes columns.
template <class T, int rows>
void few_rows(int64_t k, int64_t depth, const T* a, int64_t a_rs, const T* b, int64_t b_cs,
              T* sums) {
  constexpr int lanes = kLanes<T>;
  // Every fourth column has a pointer of its own: the three after it are reached by an index, so
  // registers suffice.
  const T* column[(lanes + 3) / 4];
  for (int g = 0; g < (lanes + 3) / 4; ++g) column[g] = b + 4 * g * b_cs;
  Vector<T> totals[rows] = {};
  for (int64_t first = 0; first < k; first += depth) {
    const int64_t end = std::min(k, first + depth);
    Vector<T> chains[rows] = {};
    int64_t p = first;
    for (; p + lanes <= end; p += lanes) {
      Vector<T> steps[lanes];
#pragma GCC unroll 16
      for (int j = 0; j < lanes; ++j) {
        const T* const from = column[j / 4] + (j % 4) * b_cs + p;
        steps[j] = load(from);
        // Into the second-level cache: columns that lie a power of two apart share places of the
        // first one.
        __builtin_prefetch(from + kFewAhead / static_cast<int>(sizeof(T)), 0, 2);
      }
      exchange_all<T, lanes / 2>(steps);
#pragma GCC unroll 16
      for (int q = 0; q < lanes; ++q) {
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
          const Vector<T> x = a[i * a_rs + p + q] - Vector<T>{};
          chains[i] = multiply_add<T>(x, steps[q], chains[i]);
        }
      }
    }
    for (; p < end; ++p) {
      Vector<T> step;
      for (int j = 0; j < lanes; ++j) step[j] = b[j * b_cs + p];
      for (int i = 0; i < rows; ++i) {
        chains[i] = multiply_add<T>(a[i * a_rs + p] - Vector<T>{}, step, chains[i]);
      }
    }
    for (int i = 0; i < rows; ++i) totals[i] = first == 0 ? chains[i] : totals[i] + chains[i];
  }
  for (int i = 0; i < rows; ++i) store<T>(sums + i * lanes, totals[i]);
}

template <class T>
using FewRows = void (*)(int64_t, int64_t, const T*, int64_t, const T*, int64_t, T*);

template <class T, int... i>
constexpr std::array<FewRows<T>, kFewRows> few_rows_kernels(std::integer_sequence<int, i...>) {
  return {few_rows<T, i + 1>...};
}

/// The kernel for 1 to kFewRows rows.
template <class T>
FewRows<T> few_rows_kernel(int64_t rows) {
  static constexpr auto kernels = few_rows_kernels<T>(std::make_integer_sequence<int, kFewRows>{});
  return kernels[static_cast<size_t>(rows - 1)];
}

}  // namespace hero::core::cpu::micro
