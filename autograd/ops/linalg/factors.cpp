// LU factors and systems solved by them, products of reflections, condition numbers.
#include <limits>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

Tensor one_like(const Tensor& a, int64_t rows, int64_t columns) {
  return eye(rows, columns, {.dtype = a.dtype(), .device = a.device()});
}

// Row i of the result is row order[i] of x, [.., M, N]; batches broadcast.
Tensor rows_in_order(Tensor x, const Tensor& order) {
  Tensor index = unsqueeze(order, -1);
  while (x.ndim() < index.ndim()) x = unsqueeze(x, 0);
  while (index.ndim() < x.ndim()) index = unsqueeze(index, 0);
  return take_along_dim(x, index, -2);
}

// The factors in one matrix. With Phi = tril(L^T gL, -1) + triu(gU U^T) a square matrix has the
// gradient P L^-T Phi U^-T. What lies right of its square is L^-1 times the rest of P^T a, what
// lies below it the rest times U^-1: each takes its share from the other triangle.
struct LuFactor : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveOutputs = 1;
  bool singular_will_do;
  explicit LuFactor(bool will_do) : singular_will_do(will_do) {}
  const char* name() const override { return "lu_factor"; }
  std::vector<Array> forward(const Array& a) {
    const core::LU found = core::factor_lu(name(), a, singular_will_do);
    stash(core::row_order(name(), found.pivots, a.size(-2), 0).to(a.device()), 0);
    const Array counted = core::map<core::kernels::Add>(found.pivots, Scalar(1));
    return {found.factors.to(a.device()), counted.to(kInt32).to(a.device())};
  }
  Grads backward(const Grads& grads) override {
    const Tensor both = output(0);
    const Tensor& g = grads[0];
    const int64_t rows = both.size(-2), columns = both.size(-1), inner = std::min(rows, columns);
    if (both.numel() == 0) return {zeros_like(both)};
    const Tensor square = slice(slice(both, -1, 0, inner), -2, 0, inner);
    const Tensor top = slice(g, -2, 0, inner), gs = slice(top, -1, 0, inner);
    const Tensor lt = (tril(square, -1) + one_like(both, inner, inner)).t();
    const Tensor ut = triu(square).t();
    Tensor of_l = matmul(lt, tril(gs, -1)), of_u = matmul(triu(gs), ut);
    const Tensor right = slice(top, -1, inner), below = slice(g, -2, inner);
    if (columns > inner) of_l = of_l - matmul(right, slice(both, -1, inner).t());
    if (rows > inner) of_u = of_u - matmul(slice(both, -2, inner).t(), below);
    const TriangularOptions by_l{.unitriangular = true};
    Tensor result = solve_triangular(lt, tril(of_l, -1) + triu(of_u), by_l);
    if (rows > inner) result = cat({result, below}, -2);
    result = solve_triangular(ut, result, {.upper = false, .left = false});
    if (columns > inner) result = cat({result, solve_triangular(lt, right, by_l)}, -1);
    return {rows_in_order(result, argsort(Tensor(stashed(0))))};
  }
};

LUFactors factors_of(const Tensor& a, bool singular_will_do) {
  const std::vector<Tensor> found = record_multi(LuFactor(singular_will_do), a);
  return {found[0], found[1]};
}

void check_factors(const char* op, const Tensor& factors, const Tensor& pivots) {
  check(factors.ndim() >= 2, op, ": needs a matrix: got shape ", factors.shape());
  Shape shape = factors.shape();
  shape.pop_back();
  shape.back() = std::min(factors.size(-2), factors.size(-1));
  check(pivots.shape() == shape && (pivots.dtype() == kInt32 || pivots.dtype() == kInt64), op,
        ": pivots of ", factors.shape(), " are integers of shape ", shape, "; got ", pivots.dtype(),
        " ", pivots.shape());
}

Tensor order_of(const char* op, const Tensor& pivots, int64_t rows) {
  return Tensor(core::row_order(op, pivots.array(), rows, 1));
}

// V and T of the product I - V T V^T of reflections: T = (I + D S)^-1 D with D of tau on the
// diagonal and S above the diagonal of V^T V (Schreiber and Van Loan, SIAM J. Sci. Stat. Comput.
// 10, 1989).
struct Reflections {
  Tensor v, t;
  Reflections(const char* op, const Tensor& a, const Tensor& tau) {
    check(a.ndim() >= 2 && tau.ndim() == a.ndim() - 1, op,
          ": needs a matrix and a vector: got shapes ", a.shape(), " and ", tau.shape());
    const int64_t count = tau.size(-1);
    check(std::min(a.size(-2), a.size(-1)) >= count, op,
          ": needs at least as many rows and columns as reflections: got shapes ", a.shape(),
          " and ", tau.shape());
    v = tril(slice(a, -1, 0, count), -1) + one_like(a, a.size(-2), count);
    const Tensor one = one_like(a, count, count), own = unsqueeze(tau, -1);
    t = solve_triangular(one + own * triu(matmul(v.t(), v), 1), own * one, {.unitriangular = true});
  }
};

}  // namespace

LUFactors lu_factor(const Tensor& a) {
  detail::check_defined("lu_factor", {{"a", a}});
  return factors_of(a, false);
}

LUFactorsEx lu_factor_ex(const Tensor& a) {
  const detail::Named named("lu_factor_ex", {"a", a});
  detail::check_defined("lu_factor_ex", {{"a", a}});
  const LUFactors found = factors_of(a, true);
  const NoGrad no_grad;
  // NaN is no pivot either.
  const Tensor bad = logical_not(abs(diagonal(found.lu.detach(), 0, -2, -1)) > 0.0);
  const int64_t count = bad.size(-1);
  const Tensor place =
      arange(1, count + 1, 1, {.dtype = kInt32, .device = a.device()});  // the first that is bad
  const Tensor end = full({1}, count + 1, {.dtype = kInt32, .device = a.device()});
  Shape ends = bad.shape();
  ends.back() = 1;
  const Tensor first = amin(cat({where(bad, place, count + 1), end.expand(ends)}, -1), Dims{-1});
  return {found.lu, found.pivots, where(first > count, 0, first).to(kInt32)};
}

PLU lu(const Tensor& a) {
  const detail::Named named("lu", {"a", a});
  detail::check_defined("lu", {{"a", a}});
  const LUFactors found = factors_of(a, true);
  return lu_unpack(found.lu, found.pivots);
}

PLU lu_unpack(const Tensor& factors, const Tensor& pivots, const UnpackOptions& options) {
  constexpr auto kName = "lu_unpack";
  detail::check_defined(kName, {{"factors", factors}, {"pivots", pivots}});
  check_factors(kName, factors, pivots);
  const int64_t rows = factors.size(-2), columns = factors.size(-1),
                inner = std::min(rows, columns);
  PLU out;
  if (options.data) {
    out.l = tril(slice(factors, -1, 0, inner), -1) + one_like(factors, rows, inner);
    out.u = triu(slice(factors, -2, 0, inner));
  }
  if (options.pivots) {
    const Tensor counted = arange(rows, {.dtype = kInt64, .device = factors.device()});
    const Tensor order = order_of(kName, pivots, rows);
    out.p = eq(unsqueeze(order, -2), unsqueeze(counted, -1)).to(factors.dtype());
  }
  return out;
}

Tensor lu_solve(const Tensor& factors, const Tensor& pivots, const Tensor& b,
                const LUSolveOptions& options) {
  const detail::Named named("lu_solve", {"factors", factors}, {"pivots", pivots}, {"b", b});
  constexpr auto kName = "lu_solve";
  detail::check_defined(kName, {{"factors", factors}, {"pivots", pivots}, {"b", b}});
  check_factors(kName, factors, pivots);
  check(factors.size(-2) == factors.size(-1), kName, ": matrix is not square: ", factors.shape());
  check(b.ndim() >= 2, kName, ": needs a matrix on the right side: got shape ", b.shape());
  if (!options.left) {
    return lu_solve(factors, pivots, b.t(), {.adjoint = !options.adjoint}).t();
  }
  check(b.size(-2) == factors.size(-1), kName, ": rows differ: ", factors.shape(), " and ",
        b.shape());
  const Tensor order = order_of(kName, pivots, factors.size(-1));
  const TriangularOptions by_l{.upper = options.adjoint, .unitriangular = true};
  const TriangularOptions by_u{.upper = !options.adjoint};
  if (options.adjoint) {
    const Tensor x = solve_triangular(factors.t(), solve_triangular(factors.t(), b, by_u), by_l);
    return rows_in_order(x, argsort(order));
  }
  const Tensor x = rows_in_order(b, order);
  return solve_triangular(factors, solve_triangular(factors, x, by_l), by_u);
}

Tensor householder_product(const Tensor& a, const Tensor& tau) {
  const detail::Named named("householder_product", {"a", a}, {"tau", tau});
  detail::check_defined("householder_product", {{"a", a}, {"tau", tau}});
  const Reflections q("householder_product", a, tau);
  check(a.size(-2) >= a.size(-1),
        "householder_product: needs at least as many rows as columns: ", a.shape());
  const int64_t rows = a.size(-2), columns = a.size(-1);
  return one_like(a, rows, columns) - matmul(q.v, matmul(q.t, slice(q.v, -2, 0, columns).t()));
}

Tensor ormqr(const Tensor& a, const Tensor& tau, const Tensor& other, const OrmqrOptions& options) {
  const detail::Named named("ormqr", {"a", a}, {"tau", tau}, {"other", other});
  detail::check_defined("ormqr", {{"a", a}, {"tau", tau}, {"other", other}});
  const Reflections q("ormqr", a, tau);
  const Tensor t = options.transpose ? q.t.t() : q.t;
  if (options.left) return other - matmul(q.v, matmul(t, matmul(q.v.t(), other)));
  return other - matmul(matmul(matmul(other, q.v), t), q.v.t());
}

Tensor cond(const Tensor& a, MatrixNorm which) {
  const detail::Named named("cond", {"a", a});
  detail::check_defined("cond", {{"a", a}});
  check(a.ndim() >= 2, "cond: needs a matrix: got shape ", a.shape());
  const bool of_values =
      which == MatrixNorm::two || which == MatrixNorm::minus_two || which == MatrixNorm::nuc;
  check(which == MatrixNorm::two || which == MatrixNorm::minus_two || a.size(-1) == a.size(-2),
        "cond: matrix is not square: ", a.shape());
  if (a.size(-1) == 0 || a.size(-2) == 0) return sum(a, Dims{-2, -1});
  if (of_values) {
    const Tensor s = svdvals(a);
    if (which == MatrixNorm::nuc) return sum(s, Dims{-1}) * sum(1.0 / s, Dims{-1});
    const Tensor largest = select(s, -1, 0), smallest = select(s, -1, s.size(-1) - 1);
    return which == MatrixNorm::two ? largest / smallest : smallest / largest;
  }
  const LUFactors found = factors_of(a, true);
  const Tensor zero = diagonal(found.lu, 0, -2, -1) == 0;
  const Tensor singular = unsqueeze(unsqueeze(any(zero, Dims{-1}), -1), -1);
  const Tensor inverse = lu_solve(found.lu, found.pivots, one_like(a, a.size(-1), a.size(-1)));
  const Tensor bounded = where(singular, std::numeric_limits<double>::infinity(), inverse);
  return matrix_norm(a, which) * matrix_norm(bounded, which);
}

}  // namespace hero
