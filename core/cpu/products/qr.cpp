// Householder's QR decomposition by blocks of reflections, whose product is 1 - V T V^T with a
// triangular T (Schreiber and Van Loan, "A storage-efficient WY representation for products of
// Householder transformations", 1989). The columns of the matrix are what is contiguous here.
#include <algorithm>
#include <vector>

#include <hero/core/cpu/products/factors.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/reflections.h>
#include <hero/core/cpu/products/transpose.h>

namespace hero::core::cpu {

namespace {

template <class T>
class QrFactors {
 public:
  explicit QrFactors(const VectorList<T>& matrix)
      : matrix_(matrix),
        inner_(std::min(matrix.count(), matrix.rows())),
        reflections_(inner_, matrix.rows()),
        factors_(static_cast<size_t>(inner_)),
        triangles_(inner_ * kFactorBlock),
        shares_(2 * std::max(matrix.count(), inner_) * kFactorBlock) {}

  // Leaves R in the matrix, beside what is not looked at.
  void reduce() {
    for (int64_t first = 0; first < inner_; first += kFactorBlock) {
      const int64_t end = end_of(first);
      for (int64_t k = first; k < end; ++k) {
        T* const u = reflections_[k];
        std::copy(matrix_[k] + k, matrix_[k] + matrix_.rows(), u + k);
        const Reflection<T> r = reflect(u, k, reflections_.length());
        factors_[static_cast<size_t>(k)] = r.factor;
        matrix_[k][k] = r.length;
        for (int64_t j = k + 1; j < end; ++j) apply_one(k, matrix_[j]);
      }
      if (end == matrix_.count()) continue;
      find_triangle(first, end - first);
      apply(first, matrix_, end, false);
    }
  }

  // The first columns of Q.
  void form(const VectorList<T>& q) {
    for (int64_t j = 0; j < inner_; ++j) q[j][j] = T(1);
    for (int64_t first = (inner_ - 1) / kFactorBlock * kFactorBlock; first >= 0;
         first -= kFactorBlock) {
      const int64_t end = end_of(first);
      if (end < inner_) apply(first, q, end, true);
      for (int64_t k = end - 1; k >= first; --k) {
        for (int64_t j = k; j < end; ++j) apply_one(k, q[j]);
      }
    }
  }

 private:
  int64_t end_of(int64_t first) const { return std::min(first + kFactorBlock, inner_); }
  T* triangle(int64_t first) const { return triangles_.data() + first * kFactorBlock; }

  void apply_one(int64_t k, T* x) const {
    apply_reflection(reflections_[k], factors_[static_cast<size_t>(k)], k, reflections_.length(),
                     x);
  }

  // T of the block of n reflections that begins with `first`.
  void find_triangle(int64_t first, int64_t n) const {
    const int64_t at = VectorList<T>::lanes_of(first), step = reflections_.step();
    const T* const u = reflections_[first] + at;
    T products[kFactorBlock * kFactorBlock];
    gemm<T>(n, n, reflections_.length() - at, u, step, 1, u, 1, step, products, n);
    T* const t = triangle(first);
    std::fill_n(t, n * n, T(0));
    for (int64_t k = 0; k < n; ++k) {
      const T factor = factors_[static_cast<size_t>(first + k)];
      t[k * n + k] = factor;
      for (int64_t i = 0; i < k; ++i) {
        T sum = T(0);
        for (int64_t l = i; l < k; ++l) sum += t[i * n + l] * products[l * n + k];
        t[i * n + k] = -factor * sum;
      }
    }
  }

  // x = (1 - V T V^T)^T x, or not turned, for each vector from number `from` on.
  void apply(int64_t first, const VectorList<T>& list, int64_t from, bool turned) const {
    const int64_t n = end_of(first) - first;
    const int64_t at = VectorList<T>::lanes_of(first), length = list.length() - at;
    const int64_t count = list.count() - from, step = list.step(), own = reflections_.step();
    const T* const u = reflections_[first] + at;
    T* const x = list[from] + at;
    T *const along = shares_.data(), *const share = along + count * n;
    gemm<T>(count, n, length, x, step, 1, u, 1, own, along, n);
    gemm<T>(count, n, n, along, n, 1, triangle(first), turned ? 1 : n, turned ? n : 1, share, n);
    gemm_add<T>(count, length, n, share, n, 1, u, own, 1, x, step, T(-1));
  }

  const VectorList<T>& matrix_;
  int64_t inner_;
  VectorList<T> reflections_;
  std::vector<T> factors_;
  Workspace<T> triangles_, shares_;
};

}  // namespace

template <class T>
void factor_qr(int64_t rows, int64_t columns, const T* a, T* q, T* r) {
  const int64_t inner = std::min(rows, columns);
  const VectorList<T> matrix(columns, rows), basis(inner, rows);
  transpose(rows, columns, a, columns, matrix[0], matrix.step());
  const PowerOfTwo<T> unit(largest_of(matrix));
  unit.divide(matrix);
  QrFactors<T> factors(matrix);
  factors.reduce();
  factors.form(basis);
  transpose(inner, rows, basis[0], basis.step(), q, inner);
  transpose(columns, inner, matrix[0], matrix.step(), r, columns);
  for (int64_t i = 0; i < inner; ++i) {
    std::fill_n(r + i * columns, i, T(0));
    for (int64_t j = i; j < columns; ++j) r[i * columns + j] = unit.times(r[i * columns + j]);
  }
}

template void factor_qr(int64_t, int64_t, const float*, float*, float*);
template void factor_qr(int64_t, int64_t, const double*, double*, double*);

}  // namespace hero::core::cpu
