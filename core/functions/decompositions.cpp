// Singular values; eigenvalues of symmetric matrices and triangular systems, by Eigen.
#include <cmath>
#include <limits>

// Scalar code, so that results do not depend on the machine's vector width; under a namespace of
// our own, since a program may use Eigen with other settings and the linker would mix the two.
#define EIGEN_DONT_VECTORIZE
#define Eigen hero_eigen
#include <Eigen/Eigenvalues>

#include <hero/core/cpu/kernels.h>
#include <hero/core/cpu/products/matrix_batch.h>
#include <hero/core/cpu/products/wide_svd.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

using namespace linalg;

namespace {

// Eigen asks once for the sizes of the caches; see [note: forks]
[[maybe_unused]] const bool kEigenCachesAtFork = at_fork([] { Eigen::l1CacheSize(); });

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
    const Batch<T> matrix(a, batch), u(out.u, batch), vh(out.vh, batch);
    const bool tall = rows > columns;
    for_each_matrix("svd", batch, "not finite", [&](int64_t i) {
      if (!matrix[i].allFinite()) return false;
      Matrix<T> left(inner, rows), right(inner, columns);
      const cpu::WideSVD<T> wide{.rows = inner,
                                 .columns = std::max(rows, columns),
                                 .a = matrix[i].data(),
                                 .row_step = tall ? 1 : columns,
                                 .column_step = tall ? columns : 1,
                                 .p = tall ? right.data() : left.data(),
                                 .s = out.s.data<T>() + i * inner,
                                 .q = tall ? left.data() : right.data()};
      check(cpu::kernels().matrices<T>().svd(wide),
            "svd: the singular values of a matrix did not converge: shape ", a.shape());
      u[i] = left.transpose();
      vh[i] = right;
      return true;
    });
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
    const Batch<T> matrix(a, batch), vectors(out.vectors, batch);
    for_each_matrix("eigh", batch, "not finite", [&](int64_t i) {
      const Matrix<T> lower = matrix[i].template selfadjointView<Eigen::Lower>();
      if (!lower.allFinite()) return false;
      const Eigen::SelfAdjointEigenSolver<Matrix<T>> found(lower);
      if (found.info() != Eigen::Success) return false;
      vectors[i] = found.eigenvectors();
      View<T>(out.values.data<T>() + i * n, 1, n) = found.eigenvalues().transpose();
      return true;
    });
  });
  return out;
}

Array solve_triangular(const Array& a, const Array& b, const Triangular& how) {
  constexpr auto kName = "solve_triangular";
  check_square(kName, a);
  check_pair(kName, a, b);
  if (is_on_gpu(a)) return solve_triangular(a.to(kCpu), b.to(kCpu), how).to(a.device());
  const Shape batch = broadcast_shapes(kName, batch_of(a), batch_of(b));
  const Array out = Array::empty(matrices(batch, b.size(-2), b.size(-1)), a.dtype(), a.device());
  if (!has_bytes(a) || out.numel() == 0) return out;
  with_floats(a, [&]<class T>(TypeTag<T>) {
    const Batch<T> left(a, batch), right(b, batch), result(out, batch);
    for_each_matrix(kName, batch, "", [&](int64_t i) {
      const auto matrix = left[i];
      if (how.upper && how.unit) {
        result[i] = matrix.template triangularView<Eigen::UnitUpper>().solve(right[i]);
      } else if (how.upper) {
        result[i] = matrix.template triangularView<Eigen::Upper>().solve(right[i]);
      } else if (how.unit) {
        result[i] = matrix.template triangularView<Eigen::UnitLower>().solve(right[i]);
      } else {
        result[i] = matrix.template triangularView<Eigen::Lower>().solve(right[i]);
      }
      return true;
    });
  });
  return out;
}

}  // namespace hero::core
