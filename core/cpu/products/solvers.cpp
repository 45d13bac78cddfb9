// Factors of batches of matrices, and triangular systems of equations.
#include <algorithm>
#include <cmath>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/factors.h>
#include <hero/core/cpu/products/triangular.h>
#include <hero/core/cpu/products/wide_svd.h>
#include <hero/core/functions/matrix_batch.h>

namespace hero::core::cpu {

using namespace linalg;

namespace {

using FirstMatrix = std::optional<int64_t>;

template <class T>
bool are_finite(const T* x, int64_t count) {
  return std::all_of(x, x + count, [](T value) { return std::isfinite(value); });
}

// Whether the first k rows and columns of a [n, n] have a factor.
template <class T>
bool has_factor(int64_t n, int64_t k, const T* a) {
  std::vector<T> part(static_cast<size_t>(k * k)), factor(part.size());
  for (int64_t i = 0; i < k; ++i) std::copy(a + i * n, a + i * n + k, part.data() + i * k);
  return factor_cholesky(k, part.data(), factor.data());
}

// By halving, with factors of a's parts.
template <class T>
int32_t cholesky_fault_of(int64_t n, const T* a) {
  if (has_factor(n, n, a)) return 0;
  int64_t good = 0, bad = n;
  while (bad - good > 1) {
    const int64_t middle = (good + bad) / 2;
    (has_factor(n, middle, a) ? good : bad) = middle;
  }
  return static_cast<int32_t>(bad);
}

}  // namespace

void CpuBackend::run(const call::SolveTriangular& call) {
  const Shape batch = batch_of(call.b);
  with_floats(call.a, [&]<class T>(TypeTag<T>) {
    const Batch left(call.a, batch), result(call.b, batch);
    const int64_t n = call.a.size(-1), columns = call.b.size(-1);
    each_matrix(batch, n * n * columns, [&](int64_t i) {
      TriangularSystem<T>{
          call.upper,         call.unit,       n,      columns, left.at<T>(i), left.row_step(),
          left.column_step(), result.at<T>(i), columns}
          .solve();
    });
  });
}

FirstMatrix CpuBackend::run(const call::FactorCholesky& call) {
  const Shape batch = batch_of(call.l);
  return with_floats(call.a, [&]<class T>(TypeTag<T>) {
    const Batch matrix(call.a.contiguous(), batch), result(call.l, batch);
    const int64_t n = call.a.size(-1);
    return first_without(batch, n * n * n, [&](int64_t i) {
      return factor_cholesky(n, matrix.at<T>(i), result.at<T>(i));
    });
  });
}

void CpuBackend::run(const call::CholeskyFaults& call) {
  const Shape& batch = call.faults.shape();
  with_floats(call.a, [&]<class T>(TypeTag<T>) {
    const Batch matrix(call.a.contiguous(), batch);
    const int64_t n = call.a.size(-1);
    each_matrix(batch, n * n * n, [&](int64_t i) {
      call.faults.data<int32_t>()[i] = cholesky_fault_of(n, matrix.at<T>(i));
    });
  });
}

void CpuBackend::run(const call::FactorQR& call) {
  const Shape batch = batch_of(call.q);
  const int64_t rows = call.a.size(-2), columns = call.a.size(-1);
  with_floats(call.a, [&]<class T>(TypeTag<T>) {
    const Batch matrix(call.a.contiguous(), batch), q(call.q, batch), r(call.r, batch);
    each_matrix(batch, rows * columns * std::min(rows, columns), [&](int64_t i) {
      factor_qr(rows, columns, matrix.at<T>(i), q.at<T>(i), r.at<T>(i));
    });
  });
}

FirstMatrix CpuBackend::run(const call::FactorSVD& call) {
  const Shape batch = batch_of(call.u);
  const int64_t rows = call.a.size(-2), columns = call.a.size(-1), inner = std::min(rows, columns);
  return with_floats(call.a, [&]<class T>(TypeTag<T>) {
    const Batch matrix(call.a.contiguous(), batch);
    const bool tall = rows > columns;
    // Of a tall matrix, the other one's vectors are the rows of u^T.
    const Array turned = Array::empty(matrices(batch, inner, rows), call.a.dtype());
    const Batch left(turned, batch), right(call.vh, batch);
    const FirstMatrix found = first_without(batch, rows * columns * inner, [&](int64_t i) {
      if (!are_finite(matrix.at<T>(i), rows * columns)) return false;
      const WideSVD<T> wide{.rows = inner,
                            .columns = std::max(rows, columns),
                            .a = matrix.at<T>(i),
                            .row_step = tall ? 1 : columns,
                            .column_step = tall ? columns : 1,
                            .p = tall ? right.at<T>(i) : left.at<T>(i),
                            .s = call.s.data<T>() + i * inner,
                            .q = tall ? left.at<T>(i) : right.at<T>(i)};
      check(wide.run(), "svd: the singular values of a matrix did not converge: shape ",
            call.a.shape());
      return true;
    });
    if (!found) run(call::Copy{turned.t(), call.u});
    return found;
  });
}

FirstMatrix CpuBackend::run(const call::FactorEigh& call) {
  const Shape batch = batch_of(call.vectors);
  const int64_t n = call.a.size(-1);
  return with_floats(call.a, [&]<class T>(TypeTag<T>) {
    const Batch matrix(call.a.contiguous(), batch), vectors(call.vectors, batch);
    return first_without(batch, n * n * n, [&](int64_t i) {
      for (int64_t k = 0; k < n; ++k) {
        if (!are_finite(matrix.at<T>(i) + k * n, k + 1)) return false;
      }
      check(eigen_symmetric(n, matrix.at<T>(i), call.values.data<T>() + i * n, vectors.at<T>(i)),
            "eigh: the eigenvalues of a matrix did not converge: shape ", call.a.shape());
      return true;
    });
  });
}

}  // namespace hero::core::cpu
