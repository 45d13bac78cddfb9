// Singular values, eigenvalues of symmetric matrices, and least squares.
#include <algorithm>

#include <hero/core/device/backend.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/functions/matrix_batch.h>

namespace hero::core {

using namespace linalg;

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
  check_matrices("svd", batch, "not finite",
                 backend(a.device()).run(call::FactorSVD{a, out.u, out.s, out.vh}));
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
  check_matrices("eigh", batch, "not finite",
                 backend(a.device()).run(call::FactorEigh{a, out.values, out.vectors}));
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
  check_matrices("lstsq", batch, "without full column rank",
                 backend(a.device()).run(call::LeastSquares{a, b, out}));
  return out;
}

}  // namespace hero::core
