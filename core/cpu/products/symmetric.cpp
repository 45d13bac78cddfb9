// Eigenvalues of symmetric matrices in three steps: reflections from both sides make the matrix
// tridiagonal, their product is formed, and rotations make it diagonal (tridiagonal.h). See Golub
// and Van Loan, "Matrix Computations", 8.3.
#include <algorithm>
#include <vector>

#include <hero/core/cpu/products/factors.h>
#include <hero/core/cpu/products/reflections.h>
#include <hero/core/cpu/products/transpose.h>
#include <hero/core/cpu/products/tridiagonal.h>

namespace hero::core::cpu {

namespace {

// Row by row, a step behind: what the reflection of row k - 1 leaves of the matrix, A - u w^T - w
// u^T, is computed while the products with the u of row k are.
template <class T>
class SymmetricReduction {
 public:
  using V = LaneVector<T>;
  static constexpr int64_t kWidth = VectorList<T>::kWidth;

  SymmetricReduction(const VectorList<T>& matrix, Tridiagonal<T>& to)
      : reflections(matrix.count(), matrix.count()),
        factors(static_cast<size_t>(matrix.count())),
        matrix_(matrix),
        to_(to),
        others_(2, matrix.count()) {}

  void run() {
    const int64_t n = matrix_.count();
    for (int64_t k = 0; k < n; ++k) {
      T* const row = matrix_[k];
      if (k > 0) take_off(k, k);
      to_.d[static_cast<size_t>(k)] = row[k];
      if (k + 1 == n) break;
      T* const u = reflections[k];
      std::copy(row + k + 1, row + n, u + k + 1);
      const Reflection<T> r = reflect(u, k + 1, reflections.length());
      factors[static_cast<size_t>(k)] = r.factor;
      to_.e[static_cast<size_t>(k)] = r.length;
      multiply(k);
    }
  }

  VectorList<T> reflections;
  std::vector<T> factors;

 private:
  // Row j, from element k on, without what the reflection of row k - 1 takes off.
  void take_off(int64_t k, int64_t j) const {
    const T *const u = reflections[k - 1], *const w = others_[(k - 1) % 2];
    const T a = u[j], b = w[j];
    T* const row = matrix_[j];
    for (int64_t i = VectorList<T>::lanes_of(k); i < matrix_.length(); i += kWidth) {
      const V v = lanes_at(row + i) - (a * lanes_at(w + i) + b * lanes_at(u + i));
      lanes_at(row + i) = v;
    }
  }

  // w = p - (factor / 2 u^T p) u with p = factor A u.
  void multiply(int64_t k) const {
    const int64_t n = matrix_.count(), length = matrix_.length();
    const T factor = factors[static_cast<size_t>(k)];
    const T* const u = reflections[k];
    T* const w = others_[k % 2];
    const int64_t begin = VectorList<T>::lanes_of(k + 1);
    const int64_t grain = std::max<int64_t>(1, kGrain / (n - k));
    parallel_for(n - k - 1, grain, [&](int64_t first, int64_t last) {
      for (int64_t j = k + 1 + first; j < k + 1 + last; ++j) {
        if (k > 0) take_off(k, j);
        const T* const row = matrix_[j];
        V sum = {};
        for (int64_t i = begin; i < length; i += kWidth) sum += lanes_at(row + i) * lanes_at(u + i);
        w[j] = factor * sum_of_lanes<T>(sum);
      }
    });
    std::fill(w + begin, w + k + 1, T(0));
    V sum = {};
    for (int64_t i = begin; i < length; i += kWidth) sum += lanes_at(w + i) * lanes_at(u + i);
    const T share = factor / 2 * sum_of_lanes<T>(sum);
    for (int64_t i = begin; i < length; i += kWidth) {
      const V v = lanes_at(w + i) - share * lanes_at(u + i);
      lanes_at(w + i) = v;
    }
  }

  const VectorList<T>& matrix_;
  Tridiagonal<T>& to_;
  VectorList<T> others_;  // w of this row and of the one before
};

}  // namespace

template <class T>
bool eigen_symmetric(int64_t n, const T* a, T* values, T* vectors) {
  const VectorList<T> matrix(n, n), basis(n, n), none(0, 0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) matrix[i][j] = matrix[j][i] = a[i * n + j];
  }
  const PowerOfTwo<T> unit(largest_of(matrix));
  unit.divide(matrix);
  Tridiagonal<T> tridiagonal(n);
  SymmetricReduction<T> reduction(matrix, tridiagonal);
  reduction.run();
  form_product(reduction.reflections, reduction.factors, 1, basis);
  if (!tridiagonal.diagonalize([&](const Sweeps<T>& sweeps) { rotate(basis, none, sweeps); })) {
    return false;
  }
  const std::vector<int64_t> order = order_of(tridiagonal.d);
  // The matrix is no longer needed.
  for (int64_t j = 0; j < n; ++j) {
    const int64_t i = order[static_cast<size_t>(j)];
    values[j] = unit.times(tridiagonal.d[static_cast<size_t>(i)]);
    std::copy_n(basis[i], n, matrix[j]);
  }
  transpose(n, n, matrix[0], matrix.step(), vectors, n);
  return true;
}

template bool eigen_symmetric(int64_t, const float*, float*, float*);
template bool eigen_symmetric(int64_t, const double*, double*, double*);

}  // namespace hero::core::cpu
