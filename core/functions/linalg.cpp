#include <cmath>
#include <limits>

// Scalar code, so that results do not depend on the machine's vector width; under a namespace of
// our own, since a program may use Eigen with other settings and the linker would mix the two.
#define EIGEN_DONT_VECTORIZE
#define Eigen hero_eigen
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <Eigen/QR>

#include <hero/core/backend.h>
#include <hero/core/cpu/products/matrix_batch.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

using namespace linalg;

namespace {

// Eigen asks once for the sizes of the caches; see [note: forks]
[[maybe_unused]] const bool kLinalgCachesAtFork = at_fork([] { Eigen::l1CacheSize(); });

}  // namespace

namespace {

Array solve_as(const char* op, const Array& a, const Array& b) {
  check_square(op, a);
  check_pair(op, a, b);
  if (is_on_gpu(a)) return solve_as(op, a.to(kCpu), b.to(kCpu)).to(a.device());
  const Shape batch = broadcast_shapes(op, batch_of(a), batch_of(b));
  const Array out = Array::empty(matrices(batch, a.size(-1), b.size(-1)), a.dtype(), a.device());
  if (!has_bytes(a) || a.numel() == 0) return out;
  with_floats(a, [&]<class T>(TypeTag<T>) {
    const Batch<T> left(a, batch), right(b, batch), result(out, batch);
    for_each_matrix(op, batch, "singular", [&](int64_t i) {
      const Eigen::PartialPivLU<Matrix<T>> lu(left[i]);
      // As LAPACK does: a pivot that is exactly zero.
      if ((lu.matrixLU().diagonal().array() == T(0)).any()) return false;
      // Eigen would bind a reference to the data of no columns.
      if (b.size(-1) > 0) result[i] = lu.solve(right[i]);
      return true;
    });
  });
  return out;
}

}  // namespace

Array solve(const Array& a, const Array& b) { return solve_as("solve", a, b); }

Array inverse(const Array& a) {
  check_square("inv", a);
  const Array identity = Array::zeros({a.size(-1), a.size(-1)}, a.dtype(), a.device());
  backend(a.device()).fill(identity.diagonal(), 1);
  return solve_as("inv", a, identity);
}

Determinant determinant(const Array& a) {
  check_square("det", a);
  if (is_on_gpu(a)) {
    const Determinant here = determinant(a.to(kCpu));
    return {.sign = here.sign.to(a.device()),
            .logabs = here.logabs.to(a.device()),
            .value = here.value.to(a.device())};
  }
  const Shape batch = batch_of(a);
  Determinant out{Array::empty(batch, a.dtype(), a.device()),
                  Array::empty(batch, a.dtype(), a.device()),
                  Array::empty(batch, a.dtype(), a.device())};
  if (!has_bytes(a)) return out;
  with_floats(a, [&]<class T>(TypeTag<T>) {
    const Batch<T> matrix(a, batch);
    for_each_matrix("det", batch, "", [&](int64_t i) {
      T value = 1, sign = 1, logabs = 0;
      if (a.size(-1) > 0) {
        const Eigen::PartialPivLU<Matrix<T>> lu(matrix[i]);
        value = sign = static_cast<T>(lu.permutationP().determinant());
        for (const T pivot : lu.matrixLU().diagonal()) {
          value *= pivot;
          sign = pivot < T(0) ? -sign : pivot == T(0) ? T(0) : sign;
          logabs += std::log(std::abs(pivot));
        }
      }
      out.sign.data<T>()[i] = sign;
      out.logabs.data<T>()[i] = sign == T(0) ? -std::numeric_limits<T>::infinity() : logabs;
      out.value.data<T>()[i] = value;
      return true;
    });
  });
  return out;
}

Array cholesky(const Array& a) {
  check_square("cholesky", a);
  if (is_on_gpu(a)) return cholesky(a.to(kCpu)).to(a.device());
  const Shape batch = batch_of(a);
  const Array out = Array::zeros(a.shape(), a.dtype(), a.device());
  if (!has_bytes(a) || a.numel() == 0) return out;
  with_floats(a, [&]<class T>(TypeTag<T>) {
    const Batch<T> matrix(a, batch), result(out, batch);
    for_each_matrix("cholesky", batch, "not positive definite", [&](int64_t i) {
      const Eigen::LLT<Matrix<T>, Eigen::Lower> llt(matrix[i]);
      // Eigen looks at pivots only as numbers below zero: NaN passes.
      if (llt.info() != Eigen::Success || !llt.matrixLLT().diagonal().allFinite()) return false;
      result[i].template triangularView<Eigen::Lower>() = llt.matrixLLT();
      return true;
    });
  });
  return out;
}

QR qr(const Array& a) {
  check_input("qr", a);
  if (is_on_gpu(a)) {
    const QR here = qr(a.to(kCpu));
    return {here.q.to(a.device()), here.r.to(a.device())};
  }
  const Shape batch = batch_of(a);
  const int64_t rows = a.size(-2), columns = a.size(-1), inner = std::min(rows, columns);
  QR out{Array::empty(matrices(batch, rows, inner), a.dtype(), a.device()),
         Array::zeros(matrices(batch, inner, columns), a.dtype(), a.device())};
  if (!has_bytes(a) || a.numel() == 0) return out;
  with_floats(a, [&]<class T>(TypeTag<T>) {
    const Batch<T> matrix(a, batch), q(out.q, batch), r(out.r, batch);
    for_each_matrix("qr", batch, "", [&](int64_t i) {
      const Eigen::HouseholderQR<Matrix<T>> reflections(matrix[i]);
      q[i] = reflections.householderQ() * Matrix<T>::Identity(rows, inner);
      r[i].template triangularView<Eigen::Upper>() = reflections.matrixQR().topRows(inner);
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
    const Batch<T> left(a, batch), right(b, batch), result(out, batch);
    for_each_matrix("lstsq", batch, "without full column rank", [&](int64_t i) {
      const Eigen::ColPivHouseholderQR<Matrix<T>> reflections(left[i]);
      if (reflections.rank() < a.size(-1)) return false;
      if (b.size(-1) > 0) result[i] = reflections.solve(right[i]);
      return true;
    });
  });
  return out;
}

}  // namespace hero::core
