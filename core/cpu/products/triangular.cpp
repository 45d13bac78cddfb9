// Triangular systems by recursive halving: solve the first half of the unknowns, subtract their
// share from the other equations by a product, solve the second half. See Golub and Van Loan,
// "Matrix Computations", 3.1.
#include <algorithm>

#include <hero/core/cpu/products/factors.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/gemm_kernel.h>
#include <hero/core/cpu/products/triangular.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

using micro::Vector;

// Unknowns [first, first + count), one after the other, in some vectors of columns of B.
template <class T, int vectors>
[[gnu::noinline, gnu::noclone]] void solve_columns(const TriangularSystem<T>& s, int64_t first,
                                                   int64_t count, int64_t column, int64_t width) {
  constexpr int64_t lanes = micro::kLanes<T>;
  const bool whole = width == vectors * lanes;
  const T* const a = s.a + first * (s.row_step + s.column_step);
  T* const b = s.b + first * s.b_step + column;
  Vector<T> known[kFactorBlock * vectors];
  for (int64_t step = 0; step < count; ++step) {
    const int64_t i = s.upper ? count - 1 - step : step;
    Vector<T> sums[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const T* const from = b + i * s.b_step + v * lanes;
      sums[v] = whole ? micro::load(from) : micro::load_part(from, width);
    }
    for (int64_t before = 0; before < step; ++before) {
      const int64_t j = s.upper ? count - 1 - before : before;
      const Vector<T> x = -a[i * s.row_step + j * s.column_step] - Vector<T>{};
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        sums[v] = micro::multiply_add<T>(x, known[before * vectors + v], sums[v]);
      }
    }
    const T pivot = s.unit ? T(1) : a[i * (s.row_step + s.column_step)];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      if (!s.unit) sums[v] /= pivot;
      known[step * vectors + v] = sums[v];
      T* const to = b + i * s.b_step + v * lanes;
      whole ? micro::store<T>(to, sums[v]) : micro::store_part<T>(to, sums[v], width);
    }
  }
}

template <class T>
void solve_block(const TriangularSystem<T>& s, int64_t first, int64_t count) {
  constexpr int64_t lanes = micro::kLanes<T>;
  int64_t column = 0;
  for (; column + 4 * lanes <= s.columns; column += 4 * lanes) {
    solve_columns<T, 4>(s, first, count, column, 4 * lanes);
  }
  for (; column < s.columns; column += lanes) {
    solve_columns<T, 1>(s, first, count, column, std::min(lanes, s.columns - column));
  }
}

template <class T>
[[gnu::noinline, gnu::noclone]] void solve_range(const TriangularSystem<T>& s, int64_t first,
                                                 int64_t count) {
  if (count <= kFactorBlock) return solve_block(s, first, count);
  const int64_t above = factor_half(count), below = count - above, middle = first + above;
  const auto take_off = [&](int64_t to, int64_t rows, int64_t from, int64_t steps) {
    gemm_add<T>(rows, s.columns, steps, s.a + to * s.row_step + from * s.column_step, s.row_step,
                s.column_step, s.b + from * s.b_step, s.b_step, 1, s.b + to * s.b_step, s.b_step,
                T(-1));
  };
  if (s.upper) {
    solve_range(s, middle, below);
    take_off(first, above, middle, below);
    solve_range(s, first, above);
  } else {
    solve_range(s, first, above);
    take_off(middle, below, first, above);
    solve_range(s, middle, below);
  }
}

}  // namespace

template <class T>
void TriangularSystem<T>::solve() const {
  constexpr int64_t kSlice = 128, kWork = 1 << 18;  // columns of a chunk; steps worth a thread
  if (n * n / 2 * columns < kWork) return solve_range(*this, 0, n);
  parallel_for((columns + kSlice - 1) / kSlice, 1, [&](int64_t begin, int64_t end) {
    TriangularSystem slice = *this;
    slice.b = b + begin * kSlice;
    slice.columns = std::min(columns, end * kSlice) - begin * kSlice;
    solve_range(slice, 0, n);
  });
}

template struct TriangularSystem<float>;
template struct TriangularSystem<double>;

}  // namespace hero::core::cpu
