// Cholesky factors by recursive halving, as upper triangles U = L^T, whose contiguous rows fill
// vectors.
#include <algorithm>
#include <cmath>
#include <limits>

#include <hero/core/cpu/products/factors.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/transpose.h>
#include <hero/core/cpu/products/triangular.h>
#include <hero/core/cpu/workspace.h>

namespace hero::core::cpu {

namespace {

using micro::Vector;

// false for NaN, too
template <class T>
bool is_pivot(T x) {
  return x > T(0) && x <= std::numeric_limits<T>::max();
}

// Of few columns, where vectors would be empty: the operations on an element are those of a block.
template <class T>
bool factor_few(int64_t n, T* l) {
  for (int64_t k = 0; k < n; ++k) {
    if (!is_pivot(l[k * n + k])) return false;
    const T pivot = std::sqrt(l[k * n + k]);
    l[k * n + k] = pivot;
    for (int64_t i = k + 1; i < n; ++i) {
      T* const row = l + i * n;
      row[k] /= pivot;
      for (int64_t j = k + 1; j <= i; ++j) {
        row[j] = micro::multiply_add(-l[j * n + k], row[k], row[j]);
      }
    }
  }
  return true;
}

template <class T>
class CholeskyFactor {
 public:
  // Of the upper triangle of u; below it anything may stand, and stands afterwards.
  CholeskyFactor(T* u, int64_t step) : u_(u), step_(step) {}

  [[gnu::noinline, gnu::noclone]] bool factor(int64_t first, int64_t count) const {
    if (count <= kFactorBlock) return factor_block(at(first, first), count);
    const int64_t above = factor_half(count), below = count - above, middle = first + above;
    if (!factor(first, above)) return false;
    T* const beside = at(first, middle);
    // U11^T U12 = A12
    TriangularSystem<T>{false, false, above, below, at(first, first), 1, step_, beside, step_}
        .solve();
    // A22 - U12^T U12, by columns down to where the triangle ends.
    for (int64_t j = 0; j < below; j += kColumns) {
      const int64_t columns = std::min(kColumns, below - j);
      gemm_add<T>(j + columns, columns, above, beside, 1, step_, beside + j, step_, 1,
                  at(middle, middle + j), step_, T(-1));
    }
    return factor(middle, below);
  }

 private:
  static constexpr int64_t kColumns = 64;
  T* at(int64_t row, int64_t column) const { return u_ + row * step_ + column; }

  // In a copy with room for vectors that begin anywhere.
  bool factor_block(T* u, int64_t count) const {
    constexpr int64_t lanes = micro::kLanes<T>, kStep = 2 * kFactorBlock;
    T block[kFactorBlock * kStep];
    std::fill_n(block, count * kStep, T(0));
    for (int64_t i = 0; i < count; ++i) std::copy_n(u + i * step_, count, block + i * kStep);
    for (int64_t k = 0; k < count; ++k) {
      T* const row = block + k * kStep;
      if (!is_pivot(row[k])) return false;
      const T pivot = std::sqrt(row[k]);
      for (int64_t j = k; j < count; j += lanes) {
        micro::store<T>(row + j, micro::load(row + j) / pivot);
      }
      row[k] = pivot;
      for (int64_t i = k + 1; i < count; ++i) {
        T* const other = block + i * kStep;
        const Vector<T> x = -row[i] - Vector<T>{};
        for (int64_t j = i; j < count; j += lanes) {
          micro::store<T>(other + j,
                          micro::multiply_add<T>(x, micro::load(row + j), micro::load(other + j)));
        }
      }
    }
    for (int64_t i = 0; i < count; ++i) std::copy_n(block + i * kStep, count, u + i * step_);
    return true;
  }

  T* u_;
  int64_t step_;
};

}  // namespace

template <class T>
bool factor_cholesky(int64_t n, const T* a, T* l) {
  constexpr int64_t kRows = kFactorBlock, kFew = 8;
  if (n <= kFew) {
    std::copy_n(a, n * n, l);
    if (!factor_few(n, l)) return false;
  } else {
    const int64_t step = n + micro::kLanes<T>;  // so that rows do not share the places of a cache
    const Workspace<T> room(n * step);
    T* const u = room.data();
    for (int64_t i = 0; i < n; i += kRows) {
      const int64_t rows = std::min(kRows, n - i);
      transpose(rows, i + rows, a + i * n, n, u + i, step);
    }
    if (!CholeskyFactor<T>(u, step).factor(0, n)) return false;
    for (int64_t i = 0; i < n; i += kRows) {
      const int64_t rows = std::min(kRows, n - i);
      transpose(rows, n - i, u + i * step + i, step, l + i * n + i, n);
    }
  }
  for (int64_t i = 0; i + 1 < n; ++i) std::fill(l + i * n + i + 1, l + (i + 1) * n, T(0));
  return true;
}

template bool factor_cholesky(int64_t, const float*, float*);
template bool factor_cholesky(int64_t, const double*, double*);

}  // namespace hero::core::cpu
