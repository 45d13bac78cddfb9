// Singular values, symmetric eigenvalues, pseudoinverses, triangular systems and functions of
// these.
#include <algorithm>
#include <limits>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/linalg/power_of_two.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

Tensor diagonal_matrix(const Tensor& values) {
  return unsqueeze(values, -1) *
         eye(values.size(-1), {.dtype = values.dtype(), .device = values.device()});
}

// b_j - a_i with 1 on the diagonal: denominators.
Tensor gaps(const Tensor& values) {
  const Tensor difference = unsqueeze(values, -2) - unsqueeze(values, -1);
  return difference + eye(values.size(-1), {.dtype = values.dtype(), .device = values.device()});
}

Tensor skew(const Tensor& x) { return x - x.t(); }

// With E_ij = s_j^2 - s_i^2: dA = U (skew(U^T gU) / E S + S skew(V^T gV) / E + diag(gs)) V^T, and
// what of gU and gV lies outside of the columns of U and V.
struct SvdOp : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveOutputs = 0b111;
  const char* name() const override { return "svd"; }
  std::vector<Array> forward(const Array& a) {
    core::SVD result = core::svd(a);
    return {result.u, result.s, result.vh};
  }
  Grads backward(const Grads& grads) override {
    const Tensor u = output(0), s = output(1), vh = output(2);
    const int64_t rows = u.size(-2), columns = vh.size(-1), inner = s.size(-1);
    if (input_shape(0).numel() == 0) {
      return {zeros(input_shape(0), {.dtype = u.dtype(), .device = u.device()})};
    }
    Tensor middle = grads[1].defined() ? diagonal_matrix(grads[1]) : Tensor();
    const auto add = [&middle](const Tensor& term) {
      middle = middle.defined() ? middle + term : term;
    };
    const bool has_u = grads[0].defined(), has_v = grads[2].defined();
    const Tensor row_s = unsqueeze(s, -2), column_s = unsqueeze(s, -1);
    Tensor e, total, gv;
    if (has_u || has_v) {
      // E in factors, whose product may be out of range.
      e = gaps(s);
      total = row_s + column_s + eye(s.size(-1), {.dtype = s.dtype(), .device = s.device()});
    }
    if (has_u) add(skew(matmul(u.t(), grads[0])) / e * (row_s / total));
    if (has_v) {
      gv = grads[2].t();
      add((column_s / total) * (skew(matmul(vh, gv)) / e));
    }
    if (!middle.defined()) return {Tensor()};
    Tensor result = matmul(matmul(u, middle), vh);
    if (has_u && rows > inner) {
      const Tensor scaled = grads[0] / row_s;
      result = result + matmul(scaled - matmul(u, matmul(u.t(), scaled)), vh);
    }
    if (has_v && columns > inner) {
      const Tensor scaled = (gv / row_s).t();
      result = result + matmul(u, scaled - matmul(matmul(scaled, vh.t()), vh));
    }
    return {result};
  }
};

// dA = V (V^T gV / (l_j - l_i) + diag(gl)) V^T, made symmetric.
struct EighOp : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveOutputs = 0b11;
  const char* name() const override { return "eigh"; }
  std::vector<Array> forward(const Array& a) {
    core::Eigh result = core::eigh(a);
    return {result.values, result.vectors};
  }
  Grads backward(const Grads& grads) override {
    const Tensor values = output(0), vectors = output(1);
    if (input_shape(0).numel() == 0) {
      return {zeros(input_shape(0), {.dtype = values.dtype(), .device = values.device()})};
    }
    Tensor middle;
    if (grads[1].defined()) {
      const Tensor one = eye(values.size(-1), {.dtype = values.dtype(), .device = values.device()});
      middle = matmul(vectors.t(), grads[1]) / gaps(values) * (1.0 - one);
    }
    if (grads[0].defined()) {
      const Tensor own = diagonal_matrix(grads[0]);
      middle = middle.defined() ? middle + own : own;
    }
    if (!middle.defined()) return {Tensor()};
    const Tensor whole = matmul(matmul(vectors, middle), vectors.t());
    return {(whole + whole.t()) * 0.5};
  }
};

// How small a singular value may be.
struct Tolerance {
  std::optional<double> rtol = {};
  double atol = 0.0;
  PinvOptions each = {};  // tensors, instead of the numbers

  // True for the magnitudes [.., K] that count, of matrices of this shape.
  Tensor counted(const Tensor& s, const Shape& shape) const {
    if (s.size(-1) == 0) return s > 0;
    const double epsilon = s.dtype() == kFloat64 ? std::numeric_limits<double>::epsilon()
                                                 : double{std::numeric_limits<float>::epsilon()};
    const double plain =
        epsilon * static_cast<double>(std::max(shape[shape.size() - 1], shape[shape.size() - 2]));
    const Tensor most = amax(s, Dims{-1}, true);
    if (!each.atol.defined() && !each.rtol.defined()) {
      return s > clamp_min(most * rtol.value_or(atol > 0.0 ? 0.0 : plain), atol);
    }
    const auto column = [&](const Tensor& x) { return unsqueeze(x.detach().to(s.dtype()), -1); };
    Tensor bound = each.rtol.defined()
                       ? column(each.rtol)
                       : full({1}, plain, {.dtype = s.dtype(), .device = s.device()});
    if (!each.atol.defined()) return s > most * bound;
    const Tensor least = column(each.atol);
    if (!each.rtol.defined()) bound = where(least > 0, 0, bound);
    return s > maximum(most * bound, least);
  }
};

// u diag(s) vh, with magnitudes in s, of a symmetric matrix by its eigenvectors.
core::SVD values_of(const Array& a, bool symmetric) {
  if (!symmetric) return core::svd(a);
  const core::Eigh found = core::eigh(a);
  const Tensor values(found.values), vectors(found.vectors);
  const Tensor turned = vectors * unsqueeze(where(values < 0, -1, ones_like(values)), -2);
  return {turned.array(), abs(values).array(), vectors.t().array()};
}

struct Pinv : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  Tolerance tolerance;
  explicit Pinv(Tolerance t) : tolerance(std::move(t)) {}
  const char* name() const override { return "pinv"; }
  Array forward(const Array& a) {
    const NoGrad no_grad;
    const Autocast off({.enabled = false});
    const core::SVD found = values_of(a, tolerance.each.hermitian);
    const Tensor u(found.u), s(found.s), vh(found.vh);
    const Tensor counts = tolerance.counted(s, a.shape());
    const Tensor inverse = where(counts, 1.0 / where(counts, s, 1), 0);
    return matmul(vh.t() * unsqueeze(inverse, -2), u.t()).array();
  }
  // Of p / unit and a unit, which are both about 1.
  Grads backward(const Tensor& g) override {
    const Tensor unit = detail::power_of_two(output());
    const Tensor a = input(0) * unit, p = output() / unit, pt = p.t(), gt = g.t();
    const Tensor direct = matmul(matmul(pt, g), pt);
    const Tensor right = matmul(gt, matmul(p, pt)), left = matmul(matmul(pt, p), gt);
    const Tensor all =
        right - matmul(a, matmul(p, right)) + left - matmul(matmul(left, p), a) - direct;
    return {all * unit * unit};
  }
};

// a^-1 b. dB = a^-T g, dA = -dB X^T within the triangle.
struct SolveTriangular : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 0b01;
  static constexpr unsigned kSaveOutputs = 1;
  core::Triangular how;
  explicit SolveTriangular(const core::Triangular& h) : how(h) {}
  const char* name() const override { return "solve_triangular"; }
  Array forward(const Array& a, const Array& b) { return core::solve_triangular(a, b, how); }
  Grads backward(const Tensor& g) override {
    const core::Triangular turned{.upper = !how.upper, .unit = how.unit};
    const Tensor gb = record(SolveTriangular(turned), input(0).t(), g);
    if (!needs(0)) return {Tensor(), gb};
    const Tensor whole = -matmul(gb, output().t());
    const int64_t beside = how.unit ? 1 : 0;
    return {how.upper ? triu(whole, beside) : tril(whole, -beside), gb};
  }
};

}  // namespace

Tensor detail::power_of_two(const Tensor& x) {
  const NoGrad no_grad;
  if (x.numel() == 0) return ones({1}, {.dtype = x.dtype(), .device = x.device()});
  const Tensor most = amax(abs(x.detach()), Dims{-2, -1}, true);
  const Tensor power = ldexp(ones_like(most), frexp(most).exponent - 1);
  return where(logical_and(most > 0, isfinite(most)), power, 1);
}

SVD svd(const Tensor& a) {
  const std::vector<Tensor> results = record_multi(SvdOp{}, a);
  return {results[0], results[1], results[2]};
}
Tensor svdvals(const Tensor& a) {
  const detail::Named named("svdvals", {"a", a});
  return svd(a).s;
}
Eigh eigh(const Tensor& a) {
  detail::check_defined("eigh", {{"a", a}});
  const std::vector<Tensor> results = record_multi(EighOp{}, a);
  return {results[0], results[1]};
}
Tensor eigvalsh(const Tensor& a) {
  const detail::Named named("eigvalsh", {"a", a});
  detail::check_defined("eigvalsh", {{"a", a}});
  return eigh(a).eigenvalues;
}
Eigh eigh(const Tensor& a, Triangle triangle) {
  detail::check_defined("eigh", {{"a", a}});
  return eigh(triangle == Triangle::lower ? a : a.t());
}
Tensor eigvalsh(const Tensor& a, Triangle triangle) {
  const detail::Named named("eigvalsh", {"a", a});
  detail::check_defined("eigvalsh", {{"a", a}});
  return eigh(a, triangle).eigenvalues;
}
Tensor pinv(const Tensor& a, std::optional<double> rtol, double atol) {
  const detail::Named named("pinv", {"a", a});
  return record(Pinv({.rtol = rtol, .atol = atol}), a);
}
Tensor pinv(const Tensor& a, const PinvOptions& options) {
  const detail::Named named("pinv", {"a", a});
  detail::check_defined("pinv", {{"a", a}});
  return record(Pinv({.each = options}), a);
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& options) {
  detail::check_defined("solve_triangular", {{"a", a}, {"b", b}});
  if (options.left) {
    return record(SolveTriangular({.upper = options.upper, .unit = options.unitriangular}), a, b);
  }
  const core::Triangular turned{.upper = !options.upper, .unit = options.unitriangular};
  return record(SolveTriangular(turned), a.t(), b.t()).t();
}

Tensor cholesky(const Tensor& a, Triangle triangle) {
  detail::check_defined("cholesky", {{"a", a}});
  return triangle == Triangle::lower ? cholesky(a) : cholesky(a.t()).t();
}
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, Triangle triangle) {
  const detail::Named named("cholesky_solve", {"b", b}, {"factor", factor});
  detail::check_defined("cholesky_solve", {{"b", b}, {"factor", factor}});
  const Tensor lower = triangle == Triangle::lower ? factor : factor.t();
  const Tensor half = solve_triangular(lower, b, {.upper = false});
  return solve_triangular(lower.t(), half);
}
Tensor cholesky_inverse(const Tensor& factor, Triangle triangle) {
  const detail::Named named("cholesky_inverse", {"factor", factor});
  detail::check_defined("cholesky_inverse", {{"factor", factor}});
  check(factor.ndim() >= 2, "cholesky_inverse: needs a matrix: got shape ", factor.shape());
  check(!core::has_values(factor.device()) ||
            all(diagonal(factor.detach(), 0, -2, -1) != 0.0).item<bool>(),
        "cholesky_inverse: a factor has a 0 on its diagonal: the matrix is singular");
  const Tensor one = eye(factor.size(-1), {.dtype = factor.dtype(), .device = factor.device()});
  return cholesky_solve(one, factor, triangle);
}

Tensor logdet(const Tensor& a) {
  const detail::Named named("logdet", {"a", a});
  const SignLogDet found = slogdet(a);
  return where(found.sign < 0, std::numeric_limits<double>::quiet_NaN(), found.logabsdet);
}
Tensor matrix_rank(const Tensor& a, std::optional<double> rtol, double atol) {
  const detail::Named named("matrix_rank", {"a", a});
  detail::check_defined("matrix_rank", {{"a", a}});
  const Tensor s = svdvals(a.detach());
  return sum(Tolerance{.rtol = rtol, .atol = atol}.counted(s, a.shape()), Dims{-1});
}
Tensor matrix_rank(const Tensor& a, const PinvOptions& options) {
  const detail::Named named("matrix_rank", {"a", a});
  detail::check_defined("matrix_rank", {{"a", a}});
  const NoGrad no_grad;
  const Tensor s = options.hermitian ? abs(eigvalsh(a)) : svdvals(a);
  return sum(Tolerance{.each = options}.counted(s, a.shape()), Dims{-1});
}
Tensor matrix_norm(const Tensor& a, MatrixNorm which) {
  const detail::Named named("matrix_norm", {"a", a});
  detail::check_defined("matrix_norm", {{"a", a}});
  check(a.ndim() >= 2, "matrix_norm: needs a matrix: got shape ", a.shape());
  if (which == MatrixNorm::fro) return norm(a, 2.0, Dims{-2, -1});
  if (a.size(-1) == 0 || a.size(-2) == 0) return sum(a, Dims{-2, -1});
  switch (which) {
    case MatrixNorm::nuc:
      return sum(svdvals(a), Dims{-1});
    case MatrixNorm::inf:
      return amax(sum(abs(a), Dims{-1}), Dims{-1});
    case MatrixNorm::minus_inf:
      return amin(sum(abs(a), Dims{-1}), Dims{-1});
    case MatrixNorm::one:
      return amax(sum(abs(a), Dims{-2}), Dims{-1});
    case MatrixNorm::minus_one:
      return amin(sum(abs(a), Dims{-2}), Dims{-1});
    case MatrixNorm::minus_two:
      return amin(svdvals(a), Dims{-1});
    default:
      return amax(svdvals(a), Dims{-1});
  }
}
Tensor matrix_norm(const Tensor& a, MatrixNorm which, const Dims& dims, bool keepdim) {
  const detail::Named named("matrix_norm", {"a", a});
  detail::check_defined("matrix_norm", {{"a", a}});
  check(dims.size() == 2, "matrix_norm: needs two dimensions: got ", dims);
  const Tensor found = matrix_norm(movedim(a, dims, {-2, -1}), which);
  if (!keepdim) return found;
  Shape shape = a.shape();
  for (const int64_t dim : dims) shape[normalize_dim("matrix_norm", dim, a.ndim())] = 1;
  return reshape(found, shape);
}

// Singular values and vectors by random projections.

namespace {

// An orthonormal basis [.., M, q] of about what the q largest singular values reach.
Tensor basis_of(const Tensor& a, int64_t q, int64_t niter) {
  const Tensor random = randn({a.size(-1), q}, {.dtype = a.dtype(), .device = a.device()});
  Tensor basis = qr(matmul(a, random)).q;
  for (int64_t i = 0; i < niter; ++i) {
    basis = qr(matmul(a.t(), basis)).q;
    basis = qr(matmul(a, basis)).q;
  }
  return basis;
}

}  // namespace

LowRank svd_lowrank(const Tensor& a, int64_t q, int64_t niter, const Tensor& mean) {
  const detail::Named named("svd_lowrank", {"a", a});
  detail::check_defined("svd_lowrank", {{"a", a}});
  check(a.ndim() >= 2, "svd_lowrank: needs a matrix: got shape ", a.shape());
  check(q >= 0 && q <= std::min(a.size(-2), a.size(-1)), "svd_lowrank: q ", q,
        " is not between 0 and the smaller size of ", a.shape());
  check(niter >= 0, "svd_lowrank: niter is negative: ", niter);
  const Tensor centered = mean.defined() ? a - mean : a;
  // The basis is that of the shorter side.
  const bool wide = a.size(-2) < a.size(-1);
  const Tensor tall = wide ? centered.t() : centered;
  const Tensor basis = basis_of(tall, q, niter);
  const SVD small = svd(matmul(basis.t(), tall));
  const Tensor u = matmul(basis, small.u), v = small.vh.t();
  return wide ? LowRank{v, small.s, u} : LowRank{u, small.s, v};
}

LowRank pca_lowrank(const Tensor& a, const PCAOptions& options) {
  const detail::Named named("pca_lowrank", {"a", a});
  detail::check_defined("pca_lowrank", {{"a", a}});
  check(a.ndim() >= 2, "pca_lowrank: needs a matrix: got shape ", a.shape());
  const int64_t least = std::min(a.size(-2), a.size(-1));
  const int64_t q = options.q.value_or(std::min<int64_t>(6, least));
  return svd_lowrank(a, q, options.niter, options.center ? mean(a, {-2}, true) : Tensor());
}

}  // namespace hero
