// Singular values, eigenvalues of symmetric matrices, and least squares.
#include <algorithm>
#include <cmath>

#include <hero/core/cpu/kernels.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/functions/matrix_batch.h>

namespace hero::core {

using namespace linalg;

namespace {

template <class T>
bool all_finite(const T* x, int64_t count) {
  return std::all_of(x, x + count, [](T value) { return std::isfinite(value); });
}

}  // namespace

SVD svd(const Array& a) {
  check_input("svd", a);
  if (is_on_gpu(a)) {
    const SVD here = svd(a.to(kCpu));
    return {here.u.to(a.device()), here.s.to(a.device()), here.vh.to(a.device())};
  }
  const Shape batch = batch_of(a);
  const int64_t rows = a.size(-2), columns = a.size(-1), inner = std::min(rows, columns);
  Shape values = batch;
  values.push_back(inner);
  SVD out{Array::empty(matrices(batch, rows, inner), a.dtype(), a.device()),
          Array::empty(values, a.dtype(), a.device()),
          Array::empty(matrices(batch, inner, columns), a.dtype(), a.device())};
  if (!has_bytes(a) || a.numel() == 0) return out;
  with_floats(a, [&]<class T>(TypeTag<T>) {
    const Batch matrix(a.contiguous(), batch);
    const bool tall = rows > columns;
    // Of a tall matrix, the other one's vectors are the rows of u^T.
    const Array turned = Array::empty(matrices(batch, inner, rows), a.dtype());
    const Batch left(turned, batch), right(out.vh, batch);
    for_each_matrix("svd", batch, "not finite", rows * columns * inner, [&](int64_t i) {
      if (!all_finite(matrix.at<T>(i), rows * columns)) return false;
      const cpu::WideSVD<T> wide{.rows = inner,
                                 .columns = std::max(rows, columns),
                                 .a = matrix.at<T>(i),
                                 .row_step = tall ? 1 : columns,
                                 .column_step = tall ? columns : 1,
                                 .p = tall ? right.at<T>(i) : left.at<T>(i),
                                 .s = out.s.data<T>() + i * inner,
                                 .q = tall ? left.at<T>(i) : right.at<T>(i)};
      check(cpu::kernels().matrices<T>().svd(wide),
            "svd: the singular values of a matrix did not converge: shape ", a.shape());
      return true;
    });
    backend(kCpu).run(call::Copy{turned.t(), out.u});
  });
  return out;
}

Eigh eigh(const Array& a) {
  check_square("eigh", a);
  if (is_on_gpu(a)) {
    const Eigh here = eigh(a.to(kCpu));
    return {here.values.to(a.device()), here.vectors.to(a.device())};
  }
  const Shape batch = batch_of(a);
  const int64_t n = a.size(-1);
  Shape values = batch;
  values.push_back(n);
  Eigh out{Array::empty(values, a.dtype(), a.device()),
           Array::empty(a.shape(), a.dtype(), a.device())};
  if (!has_bytes(a) || a.numel() == 0) return out;
  with_floats(a, [&]<class T>(TypeTag<T>) {
    const Batch matrix(a.contiguous(), batch), vectors(out.vectors, batch);
    for_each_matrix("eigh", batch, "not finite", n * n * n, [&](int64_t i) {
      for (int64_t k = 0; k < n; ++k) {
        if (!all_finite(matrix.at<T>(i) + k * n, k + 1)) return false;
      }
      check(cpu::kernels().matrices<T>().eigen_symmetric(
                n, matrix.at<T>(i), out.values.data<T>() + i * n, vectors.at<T>(i)),
            "eigh: the eigenvalues of a matrix did not converge: shape ", a.shape());
      return true;
    });
  });
  return out;
}

Array lstsq(const Array& a, const Array& b) {
  check_input("lstsq", a);
  check_pair("lstsq", a, b);
  check(a.size(-2) >= a.size(-1), "lstsq: fewer equations than unknowns: ", a.shape());
  if (is_on_gpu(a)) return lstsq(a.to(kCpu), b.to(kCpu)).to(a.device());
  const Shape batch = broadcast_shapes("lstsq", batch_of(a), batch_of(b));
  const Array out = Array::empty(matrices(batch, a.size(-1), b.size(-1)), a.dtype(), a.device());
  if (!has_bytes(a) || a.numel() == 0) return out;
  with_floats(a, [&]<class T>(TypeTag<T>) {
    const Batch left(a.contiguous(), batch), right(b.contiguous(), batch), result(out, batch);
    const int64_t rows = a.size(-2), columns = a.size(-1), sides = b.size(-1);
    for_each_matrix("lstsq", batch, "without full column rank", rows * columns * columns,
                    [&](int64_t i) {
                      return cpu::kernels().matrices<T>().least_squares(
                          rows, columns, sides, left.at<T>(i), right.at<T>(i), result.at<T>(i));
                    });
  });
  return out;
}

}  // namespace hero::core
