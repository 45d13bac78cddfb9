#pragma once
// Products that read or write a large matrix with contiguous rows once: a few rows times such a
// matrix, and a column times a row. Only gemm.cpp includes this.
#include <algorithm>
#include <cstdint>

#include <hero/core/cpu/products/gemm_kernel.h>
#include <hero/core/cpu/products/gemm_pack.h>
#include <hero/core/cpu/products/half_sums.h>
#include <hero/core/cpu/streaming_stores.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu::micro {

// The number of rows of A up to which reading B by rows is faster than by panels of columns.
inline constexpr int kLineRows = 4;

/// C [m, n] = A B, of at most kLineRows rows, where those of B and C are contiguous: some steps of
/// k of a piece of columns at a time, so that memory is read in long pieces. The chains are gemm's,
/// in blocks of `depth` steps. Sums of halves go to `to` in place of C.
template <class T, class S>
struct LineProduct {
  int64_t m, n, k, depth;
  const S* a;
  int64_t a_rs, a_cs;
  const S* b;
  int64_t b_rs;
  T* c;
  int64_t c_rs;
  const HalfSums* to = nullptr;

  void run() const {
    const int64_t grain = std::max<int64_t>(1, kWork / (m * k * kColumns));
    parallel_for((n + kColumns - 1) / kColumns, grain, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) run_columns(piece * kColumns);
    });
  }

 private:
  static constexpr int64_t kColumns = 2048 / sizeof(T);
  static constexpr int64_t kSteps = 8, kWork = 1 << 17;

  void run_columns(int64_t column) const {
    constexpr int64_t lanes = kLanes<T>;
    const int64_t width = std::min(kColumns, n - column);
    T chains[kLineRows * kColumns];
    T sums[kIsHalf<S> ? kLineRows * kColumns : 1];
    T* const totals = kIsHalf<S> ? sums : c + column;
    const int64_t step = kIsHalf<S> ? kColumns : c_rs;
    for (int64_t first = 0; first < k; first += depth) {
      const int64_t end = std::min(k, first + depth);
      std::fill_n(chains, m * kColumns, T(0));
      for (int64_t p = first; p < end; p += kSteps) {
        for (int64_t i = 0; i < m; ++i) {
          add_steps(a + i * a_rs + p * a_cs, b + p * b_rs + column, std::min(kSteps, end - p),
                    width, chains + i * kColumns);
        }
      }
      for (int64_t i = 0; i < m; ++i) {
        T* const total = totals + i * step;
        for (int64_t j = 0; j < width; j += lanes) {
          const int64_t count = std::min(lanes, width - j);
          const Vector<T> sum = load(chains + i * kColumns + j);
          store_part<T>(total + j, first == 0 ? sum : load_part(total + j, count) + sum, count);
        }
      }
    }
    if constexpr (kIsHalf<S>) {
      for (int64_t j = 0; j < width; j += kSumsColumns)
        to->take(0, column + j, m, std::min(kSumsColumns, width - j), sums + j, kColumns);
    }
  }

  void add_steps(const S* x, const S* lines, int64_t steps, int64_t width, T* chains) const {
    constexpr int64_t lanes = kLanes<T>;
    Vector<T> factors[kSteps];
    for (int64_t q = 0; q < steps; ++q) factors[q] = static_cast<T>(x[q * a_cs]) - Vector<T>{};
    for (int64_t j = 0; j < width; j += lanes) {
      const int64_t count = std::min(lanes, width - j);
      const S* const from = lines + j;
      Vector<T> sum = load(chains + j);
      if (steps == kSteps && count == lanes) {
#pragma GCC unroll 8
        for (int q = 0; q < kSteps; ++q) {
          sum = multiply_add<T>(factors[q], load_as<T>(from + q * b_rs), sum);
        }
      } else {
#pragma GCC unroll 1
        for (int64_t q = 0; q < steps; ++q) {
          const S* const line = from + q * b_rs;
          const Vector<T> v = count == lanes ? load_as<T>(line) : load_part_as<T>(line, count);
          sum = multiply_add<T>(factors[q], v, sum);
        }
      }
      store<T>(chains + j, sum);
    }
  }
};

/// C [m, n] = a column times a row, past the caches: C is too large for them.
template <class T>
void outer_product(int64_t m, int64_t n, const T* a, int64_t a_rs, const T* b, T* c, int64_t c_rs) {
  constexpr int64_t lanes = kLanes<T>, kColumns = 8192 / sizeof(T), kWork = 1 << 16;
  parallel_for(m, std::max<int64_t>(1, kWork / n), [&](int64_t begin, int64_t end) {
    T line[kColumns];
    for (int64_t i = begin; i < end; ++i) {
      const Vector<T> x = a[i * a_rs] - Vector<T>{};
      for (int64_t column = 0; column < n; column += kColumns) {
        const int64_t width = std::min(kColumns, n - column);
        int64_t j = 0;
        for (; j + lanes <= width; j += lanes) {
          store<T>(line + j, multiply_add<T>(x, load(b + column + j), Vector<T>{}));
        }
        for (; j < width; ++j) line[j] = multiply_add(a[i * a_rs], b[column + j], T(0));
        copy_streaming(reinterpret_cast<const std::byte*>(line),
                       reinterpret_cast<std::byte*>(c + i * c_rs + column),
                       width * static_cast<int64_t>(sizeof(T)));
      }
    }
    end_copies();
  });
}

}  // namespace hero::core::cpu::micro
