#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <hero/core/device/backend.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/functions/matrix_batch.h>

namespace hero::core {

using namespace linalg;

LU factor_lu(const char* op, const Array& a, bool singular_will_do) {
  check_input(op, a);
  const int64_t rows = a.size(-2), columns = a.size(-1), inner = std::min(rows, columns);
  const Shape batch = batch_of(a);
  Shape each = batch;
  each.push_back(inner);
  if (!has_bytes(a)) return {a, Array::empty(each, kInt64, a.device())};
  const LU out{a.to(kCpu).clone(), Array::empty(each, kInt64)};
  if (a.numel() == 0) return out;
  const auto singular = backend(kCpu).run(call::FactorLU{out.factors, out.pivots});
  if (!singular_will_do) check_matrices(op, batch, "singular", singular);
  return out;
}

Array row_order(const char* op, const Array& pivots, int64_t rows, int64_t base) {
  const int64_t count = pivots.size(-1);
  Shape shape = pivots.shape();
  shape.back() = rows;
  const Array out = Array::empty(shape, kInt64, has_bytes(pivots) ? Device(kCpu) : pivots.device());
  if (!has_bytes(pivots)) return out;
  if (out.numel() == 0) return out.to(pivots.device());
  const Array here = pivots.to(kCpu).to(kInt64).contiguous();
  auto* const order = out.data<int64_t>();
  for (int64_t i = 0; i < out.numel() / rows; ++i) {
    for (int64_t k = 0; k < rows; ++k) order[i * rows + k] = k;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t pivot = here.data<int64_t>()[i * count + k] - base;
      check(pivot >= 0 && pivot < rows, op, ": pivot ", pivot + base, " is not between ", base,
            " and ", rows - 1 + base);
      std::swap(order[i * rows + k], order[i * rows + pivot]);
    }
  }
  return out.to(pivots.device());
}

Array solve_factored(const LU& lu, const Array& b, bool turned) {
  const Array& a = lu.factors;
  const int64_t n = a.size(-1), columns = b.size(-1);
  const Shape batch = broadcast_shapes("solve", batch_of(a), batch_of(b));
  const Shape shape = matrices(batch, n, columns);
  if (!has_bytes(a)) return Array::empty(shape, a.dtype(), b.device());
  const Array out = b.to(kCpu).expand(shape).clone();
  if (out.numel() == 0) return out.to(b.device());
  backend(kCpu).run(call::SolveLU{a, lu.pivots, turned, out});
  return out.to(b.device());
}

Array solve(const Array& a, const Array& b, LU* factors) {
  check_square("solve", a);
  check_pair("solve", a, b);
  LU lu = factor_lu("solve", a, false);
  const Array out = solve_factored(lu, b, false);
  if (factors != nullptr) *factors = std::move(lu);
  return out;
}

Array inverse(const Array& a) {
  check_square("inv", a);
  const Array identity = Array::zeros({a.size(-1), a.size(-1)}, a.dtype(), a.device());
  backend(a.device()).run(call::Fill{identity.diagonal(), 1});
  return solve_factored(factor_lu("inv", a, false), identity, false);
}

Determinant determinant(const Array& a) {
  check_square("det", a);
  const Shape batch = batch_of(a);
  const Device where = has_bytes(a) ? Device(kCpu) : a.device();
  Determinant out{Array::empty(batch, a.dtype(), where), Array::empty(batch, a.dtype(), where),
                  Array::empty(batch, a.dtype(), where)};
  if (!has_bytes(a)) return out;
  const LU lu = factor_lu("det", a, true);
  const int64_t n = a.size(-1);
  with_floats(a, [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < batch.numel(); ++i) {
      const T* const factors = lu.factors.data<T>() + i * n * n;
      const int64_t* const pivots = lu.pivots.data<int64_t>() + i * n;
      T value = 1, sign = 1, logabs = 0;
      // Apart from the value, since part of a product may be out of range where all of it is not.
      int64_t exponent = 0;
      for (int64_t k = 0; k < n; ++k) {
        const T pivot = factors[k * (n + 1)];
        const bool turns = pivots[k] != k;
        int of_pivot = 0, of_value = 0;
        value = std::frexp(value * std::frexp(turns ? -pivot : pivot, &of_pivot), &of_value);
        exponent += of_pivot + of_value;
        sign = turns ? -sign : sign;
        if (!(pivot > T(0))) sign *= pivot < T(0) ? T(-1) : pivot;
        logabs += std::log(std::abs(pivot));
      }
      value = std::ldexp(value, static_cast<int>(std::clamp<int64_t>(exponent, -9999, 9999)));
      out.sign.data<T>()[i] = sign;
      out.logabs.data<T>()[i] = sign == T(0) ? -std::numeric_limits<T>::infinity() : logabs;
      out.value.data<T>()[i] = value;
    }
  });
  return {.sign = out.sign.to(a.device()),
          .logabs = out.logabs.to(a.device()),
          .value = out.value.to(a.device())};
}

Array cholesky(const Array& a) {
  check_square("cholesky", a);
  if (is_on_gpu(a)) return cholesky(a.to(kCpu)).to(a.device());
  const Shape batch = batch_of(a);
  const Array out = Array::empty(a.shape(), a.dtype(), a.device());
  if (!has_bytes(a) || a.numel() == 0) return out;
  check_matrices("cholesky", batch, "not positive definite",
                 backend(a.device()).run(call::FactorCholesky{a, out}));
  return out;
}

Array cholesky_fault(const Array& a) {
  check_square("cholesky", a);
  if (is_on_gpu(a)) return cholesky_fault(a.to(kCpu)).to(a.device());
  const Shape batch = batch_of(a);
  if (!has_bytes(a)) return Array::empty(batch, kInt32, a.device());
  const Array out = Array::zeros(batch, kInt32);
  if (a.numel() > 0) backend(a.device()).run(call::CholeskyFaults{a, out});
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
         Array::empty(matrices(batch, inner, columns), a.dtype(), a.device())};
  if (!has_bytes(a) || a.numel() == 0) return out;
  backend(a.device()).run(call::FactorQR{a, out.q, out.r});
  return out;
}

Array solve_triangular(const Array& a, const Array& b, const Triangular& how) {
  constexpr auto kName = "solve_triangular";
  check_square(kName, a);
  check_pair(kName, a, b);
  if (is_on_gpu(a)) return solve_triangular(a.to(kCpu), b.to(kCpu), how).to(a.device());
  const Shape batch = broadcast_shapes(kName, batch_of(a), batch_of(b));
  const Shape shape = matrices(batch, b.size(-2), b.size(-1));
  if (!has_bytes(a)) return Array::empty(shape, a.dtype(), a.device());
  const Array out = b.expand(shape).clone();
  if (out.numel() > 0) backend(a.device()).run(call::SolveTriangular{how.upper, how.unit, a, out});
  return out;
}

}  // namespace hero::core
