#pragma once
// What a product of halves does with its float32 sums.
#include <cstdint>

#include <hero/core/cpu/caches.h>

namespace hero::core::cpu {

/// A receiver of the sums of a product of halves: it is called once for each part of C, on any
/// thread.
class HalfSums {
 public:
  /// Rows [row, row + rows) and columns [column, column + columns) of C: element (i, j) of the part
  /// is sums[i * step + j], and may be overwritten. There are at most kSumsColumns columns; of a
  /// product by gemm_bf16() rows up to the next multiple of 16 can be read.
  virtual void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
                    int64_t step) const = 0;
  /// Called before the last chains of such a part are computed, which takes longer than a memory
  /// access: may prefetch the cache lines that take() will read or write.
  virtual void prefetch(int64_t /*row*/, int64_t /*column*/, int64_t /*rows*/,
                        int64_t /*columns*/) const {}

 protected:
  ~HalfSums() = default;
};
inline constexpr int64_t kSumsColumns = 32;

/// Prefetches the cache lines of a part's rows, which begin at `first` and are `step` elements
/// apart. (g++ leaves out a call of a function that only prefetches, so there is none.)
template <class T>
[[gnu::always_inline]] inline void prefetch_part(const T* first, int64_t step, int64_t rows,
                                                 int64_t columns) {
  constexpr int64_t kLine = kCacheLine / sizeof(T);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; j += kLine) __builtin_prefetch(first + i * step + j, 0, 2);
  }
}

/// Calls body(j) for the columns of a part's row; a row of whole vectors has a length that the
/// compiler knows. (g++ would unroll the shorter loop into scalars.)
template <class Body>
[[gnu::always_inline]] inline void each_column(int64_t columns, const Body& body) {
  constexpr int64_t kHalf = kSumsColumns / 2;
  if (columns == kSumsColumns) {
#pragma GCC ivdep
    for (int64_t j = 0; j < kSumsColumns; ++j) body(j);
  } else if (columns == kHalf) {
#pragma GCC unroll 1
#pragma GCC ivdep
    for (int64_t j = 0; j < kHalf; ++j) body(j);
  } else {
#pragma GCC ivdep
    for (int64_t j = 0; j < columns; ++j) body(j);
  }
}

/// Hands out the sums of C^T as those of C.
class TurnedSums final : public HalfSums {
 public:
  explicit TurnedSums(const HalfSums& to) : to_(to) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
            int64_t step) const override {
    float turned[kSumsColumns * kSumsColumns];
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) turned[j * kSumsColumns + i] = sums[i * step + j];
    }
    to_.take(column, row, columns, rows, turned, kSumsColumns);
  }

 private:
  const HalfSums& to_;
};

/// Stores the sums, or adds them to what is there: C [m, n], rows c_rs apart.
class SumsIntoFloats final : public HalfSums {
 public:
  SumsIntoFloats(float* c, int64_t c_rs, bool add) : c_(c), c_rs_(c_rs), add_(add) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
            int64_t step) const override {
    for (int64_t i = 0; i < rows; ++i) {
      float* const to = c_ + (row + i) * c_rs_ + column;
      const float* const from = sums + i * step;
      if (add_) {
        each_column(columns, [=](int64_t j) { to[j] += from[j]; });
      } else {
        each_column(columns, [=](int64_t j) { to[j] = from[j]; });
      }
    }
  }
  void prefetch(int64_t row, int64_t column, int64_t rows, int64_t columns) const override {
    prefetch_part(c_ + row * c_rs_ + column, c_rs_, rows, columns);
  }

 private:
  float* c_;
  int64_t c_rs_;
  bool add_;
};

/// Stores them rounded to H.
template <class H>
class SumsIntoHalves final : public HalfSums {
 public:
  SumsIntoHalves(H* c, int64_t c_rs) : c_(c), c_rs_(c_rs) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
            int64_t step) const override {
    for (int64_t i = 0; i < rows; ++i) {
      H* const to = c_ + (row + i) * c_rs_ + column;
      const float* const from = sums + i * step;
      each_column(columns, [=](int64_t j) { to[j] = H(from[j]); });
    }
  }
  void prefetch(int64_t row, int64_t column, int64_t rows, int64_t columns) const override {
    prefetch_part(c_ + row * c_rs_ + column, c_rs_, rows, columns);
  }

 private:
  H* c_;
  int64_t c_rs_;
};

}  // namespace hero::core::cpu
