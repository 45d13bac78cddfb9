#include <limits>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/linalg/power_of_two.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/linalg.h>

namespace hero {

namespace {

// A^-1 b. dB = A^-T G, dA = -dB X^T; the engine sums over broadcast batches. A is factored once:
// the node of a gradient, and of its gradient, has the factors, of A or, turned, of A^T.
struct Solve : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 0b01;
  static constexpr unsigned kSaveOutputs = 1;
  core::LU lu;
  bool turned = false;
  const char* name() const override { return "solve"; }
  Array forward(const Array& a, const Array& b) {
    const bool has_factors = lu.factors.defined();
    const Array x = has_factors ? core::solve_factored(lu, b, turned) : core::solve(a, b, &lu);
    stash(lu.factors, 0);
    stash(lu.pivots, 1);
    lu = {};
    return x;
  }
  Grads backward(const Tensor& g) override {
    Solve back;
    back.lu = {stashed(0), stashed(1)};
    back.turned = !turned;
    const Tensor gb = record(std::move(back), input(0).t(), g);
    return {needs(0) ? -matmul(gb, output().t()) : Tensor(), gb};
  }
};

struct Inv : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveOutputs = 1;
  const char* name() const override { return "inv"; }
  Array forward(const Array& a) { return core::inverse(a); }
  Grads backward(const Tensor& g) override {
    const Tensor transposed = output().t();
    return {-matmul(matmul(transposed, g), transposed)};
  }
};

// Every minor's determinant with its sign: cofactors without an inverse. n^5 work, but the only
// way that holds for singular matrices and can be differentiated again.
Tensor cofactors(const Tensor& a) {
  const int64_t n = a.size(-1);
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < n; ++i) {
    const Tensor without = cat({slice(a, -2, 0, i), slice(a, -2, i + 1)}, -2);
    std::vector<Tensor> row;
    for (int64_t j = 0; j < n; ++j) {
      const Tensor minor = cat({slice(without, -1, 0, j), slice(without, -1, j + 1)}, -1);
      const Tensor value = det(minor);
      row.push_back((i + j) % 2 == 0 ? value : -value);
    }
    rows.push_back(stack(row, -1));
  }
  return stack(rows, -2);
}

// d det = <cofactors, dA>; where A has an inverse the cofactors are det * A^-T.
struct Det : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  const char* name() const override { return "det"; }
  Array forward(const Array& a) { return core::determinant(a).value; }
  Grads backward(const Tensor& g) override {
    const Tensor a = input(0), value = output();
    if (a.numel() == 0) return {zeros_like(a)};
    const Tensor gm = reshape(g, kept());
    const bool is_extreme =
        core::has_values(a.device()) && any(logical_or(value == 0, isinf(value))).item<bool>();
    if (is_extreme) return {gm * extreme_cofactors(a)};
    return {(gm * reshape(value, kept())) * inv(a).t()};
  }

 private:
  // Of singular matrices, or where a determinant is out of range: what it is times an element of
  // the inverse may not be, so each takes a root of it.
  Tensor extreme_cofactors(const Tensor& a) const {
    const SignLogDet found = slogdet(a);
    if (any(found.sign == 0).item<bool>()) return cofactors(a);
    const Tensor root = reshape(exp(found.logabsdet * 0.5), kept());
    return inv(a).t() * root * (root * reshape(found.sign, kept()));
  }

  Shape kept() const {
    Shape shape = input_shape(0);
    shape[shape.size() - 1] = shape[shape.size() - 2] = 1;
    return shape;
  }
};

struct LogDet : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "slogdet"; }
  std::vector<Array> forward(const Array& a) {
    core::Determinant d = core::determinant(a);
    return {d.logabs, d.sign};
  }
  Grads backward(const Grads& grads) override {
    if (!grads[0].defined()) return {Tensor()};
    return {unsqueeze(unsqueeze(grads[0], -1), -1) * inv(input(0)).t()};
  }
};

// The lower triangle with half the diagonal.
Tensor half_lower(const Tensor& x) { return (tril(x) + tril(x, -1)) * 0.5; }

// L^-T P L^-1, made symmetric, with P the half lower triangle of L^T G.
struct Cholesky : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveOutputs = 1;
  const char* name() const override { return "cholesky"; }
  Array forward(const Array& a) { return core::cholesky(a); }
  Grads backward(const Tensor& g) override {
    const Tensor lower = output();
    const Tensor p = half_lower(matmul(lower.t(), tril(g)));
    const Tensor half = solve_triangular(lower.t(), p);
    const Tensor whole = solve_triangular(lower.t(), half.t());
    return {(whole + whole.t()) * 0.5};
  }
};

// With M = R Gr^T - Gq^T Q: dA = (Gq + Q copy(M)) R^-T, copy() mirroring the lower triangle.
struct QROp : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveOutputs = 0b11;
  const char* name() const override { return "qr"; }
  std::vector<Array> forward(const Array& a) {
    core::QR result = core::qr(a);
    return {result.q, result.r};
  }
  Grads backward(const Grads& grads) override {
    if (input_shape(0).numel() == 0) {
      return {zeros(input_shape(0), {.dtype = output(0).dtype(), .device = output(0).device()})};
    }
    const Tensor q = output(0), r = output(1);
    const Tensor gr = grads[1].defined() ? triu(grads[1]) : zeros_like(r);
    const Tensor gq = grads[0].defined() ? grads[0] : zeros_like(q);
    const Tensor m = matmul(r, gr.t()) - matmul(gq.t(), q);
    const Tensor mirrored = tril(m) + tril(m, -1).t();
    // X R^-T, solved from the left.
    return {solve_triangular(r, (gq + matmul(q, mirrored)).t()).t()};
  }
};

// With Z = (A^T A)^-1 G: dB = A Z and dA = (B - A X) Z^T - A Z X^T, where Z is computed for a
// matrix that is divided by a power of two about its largest element.
struct LeastSquares : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 0b11;
  static constexpr unsigned kSaveOutputs = 1;
  const char* name() const override { return "lstsq"; }
  Array forward(const Array& a, const Array& b) { return core::lstsq(a, b); }
  Grads backward(const Tensor& g) override {
    const Tensor a = input(0), b = input(1), x = output();
    const Tensor r = qr(a).r, unit = detail::power_of_two(r);
    const Tensor z = solve_triangular(r / unit, solve_triangular(r.t(), g, {.upper = false}));
    const Tensor gb = matmul(a / unit, z);
    if (!needs(0)) return {Tensor(), gb};
    const Tensor residual = (b - matmul(a, x)) / unit;
    return {matmul(residual, z.t()) - matmul(gb, x.t()), gb};
  }
};

void check_matrix(const char* op, const Tensor& a) {
  check(a.ndim() >= 2, op, ": needs a matrix: got shape ", a.shape());
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b) {
  detail::check_defined("solve", {{"a", a}, {"b", b}});
  check_matrix("solve", a);
  Shape vectors = a.shape();
  vectors.pop_back();
  if (b.ndim() == 1 || b.shape() == vectors) {
    return squeeze(record(Solve{}, a, unsqueeze(b, -1)), -1);
  }
  return record(Solve{}, a, b);
}

Tensor solve(const Tensor& a, const Tensor& b, SolveSide side) {
  detail::check_defined("solve", {{"a", a}, {"b", b}});
  if (side == SolveSide::left) return solve(a, b);
  check_matrix("solve", a);
  check_matrix("solve", b);
  return record(Solve{}, a.t(), b.t()).t();
}

Tensor inv(const Tensor& a) { return record(Inv{}, a); }

Tensor det(const Tensor& a) { return record(Det{}, a); }

SignLogDet slogdet(const Tensor& a) {
  const detail::Named named("slogdet", {"a", a});
  const std::vector<Tensor> results = record_multi(LogDet{}, a);
  return {results[1].detach(), results[0]};
}

Tensor cholesky(const Tensor& a) {
  detail::check_defined("cholesky", {{"a", a}});
  return record(Cholesky{}, a);
}

QR qr(const Tensor& a) {
  detail::check_defined("qr", {{"a", a}});
  check_matrix("qr", a);
  const int64_t rows = a.size(-2);
  if (a.size(-1) <= rows) {
    const std::vector<Tensor> results = record_multi(QROp{}, a);
    return {results[0], results[1]};
  }
  // The first square part decides Q; the other columns of R are Q^T A.
  const QR square = qr(slice(a, -1, 0, rows));
  return {square.q, cat({square.r, matmul(square.q.t(), slice(a, -1, rows))}, -1)};
}

namespace {

// A basis of what is orthogonal to a's columns, [.., M, M - N], orthonormal where these are
// independent: the further columns of Q after columns of the identity beside them.
Tensor complement(const Tensor& a) {
  const NoGrad no_grad;
  const int64_t rows = a.size(-2), columns = a.size(-1);
  Shape shape = a.shape();
  shape.back() = rows - columns;
  const Tensor one = eye(rows, rows - columns, {.dtype = a.dtype(), .device = a.device()});
  return slice(qr(cat({a.detach(), one.expand(shape)}, -1)).q, -1, columns);
}

}  // namespace

QR qr(const Tensor& a, QRMode mode) {
  detail::check_defined("qr", {{"a", a}});
  check_matrix("qr", a);
  if (mode == QRMode::reduced) return qr(a);
  const int64_t rows = a.size(-2), columns = a.size(-1);
  const bool has_gradient = mode == QRMode::complete && rows <= columns;
  check(has_gradient || !(grad_enabled() && a.requires_grad()), "qr: a mode without derivative, ",
        mode == QRMode::r ? "r" : "complete of more rows than columns",
        "; use QRMode::reduced, or detach()");
  const QR found = qr(a);
  if (mode == QRMode::r) return {Tensor(), found.r};
  if (rows <= columns) return found;
  Shape below = found.r.shape();
  below[below.size() - 2] = rows - columns;
  const Tensor none = zeros(below, {.dtype = a.dtype(), .device = a.device()});
  return {cat({found.q, complement(a)}, -1), cat({found.r, none}, -2)};
}

SVD svd(const Tensor& a, const SVDOptions& options) {
  const auto [u, s, vh] = svd(a);
  if (!options.full_matrices) return {u, s, vh};
  const int64_t rows = u.size(-2), columns = vh.size(-1), inner = s.size(-1);
  return {rows > inner ? cat({u, complement(u)}, -1) : u, s,
          columns > inner ? cat({vh, complement(vh.t()).t()}, -2) : vh};
}

namespace {

// An Error if rows of the matrix depend on each other, by the diagonal of their R.
void check_rank(const Tensor& diagonal, const Shape& shape) {
  if (!core::has_values(diagonal.device()) || diagonal.numel() == 0) return;
  const Tensor length = abs(diagonal);
  const double eps = diagonal.dtype() == kFloat64 ? 0x1p-52 : 0x1p-23;
  const Tensor bound = amax(length, -1, true) * (eps * static_cast<double>(shape.back()));
  check(all(length > bound).item<bool>(), "lstsq: a matrix of ", shape, " is without full rank");
}

}  // namespace

Tensor lstsq(const Tensor& a, const Tensor& b) {
  const detail::Named named("lstsq", {"a", a}, {"b", b});
  detail::check_defined("lstsq", {{"a", a}, {"b", b}});
  if (b.ndim() == 1) return squeeze(lstsq(a, unsqueeze(b, -1)), -1);
  if (a.ndim() < 2 || a.size(-2) >= a.size(-1)) return record(LeastSquares{}, a, b);
  // Of all X with a X = b the shortest one lies in the span of a's rows, the columns of q.
  const auto [q, r] = qr(a.t());
  check_rank(diagonal(r.detach(), 0, -2, -1), a.shape());
  return matmul(q, solve_triangular(r.t(), b, {.upper = false}));
}

// Norms of vectors, and systems of tensors that are matrices once their dimensions are joined.

namespace {

// The sizes of dims [first, last).
Shape part(const Shape& shape, int64_t first, int64_t last) {
  Shape sizes;
  for (int64_t i = first; i < last; ++i) sizes.push_back(shape[static_cast<int>(i)]);
  return sizes;
}

}  // namespace

Tensor vector_norm(const Tensor& x, double p, const Dims& dims, bool keepdim) {
  const detail::Named named("vector_norm", {"x", x});
  detail::check_defined("vector_norm", {{"x", x}});
  return norm(x, p, dims, keepdim);
}

Tensor tensorinv(const Tensor& a, int64_t ind) {
  const detail::Named named("tensorinv", {"a", a});
  detail::check_defined("tensorinv", {{"a", a}});
  check(ind > 0 && ind <= a.ndim(), "tensorinv: ind must lie in [1, ", a.ndim(), "]: got ", ind);
  const Shape first = part(a.shape(), 0, ind), rest = part(a.shape(), ind, a.ndim());
  check(first.numel() == rest.numel(), "tensorinv: ", first, " and ", rest,
        " differ in their number of elements");
  Shape shape = rest;
  for (int i = 0; i < first.size(); ++i) shape.push_back(first[i]);
  return reshape(inv(reshape(a, {first.numel(), rest.numel()})), shape);
}

Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims) {
  const detail::Named named("tensorsolve", {"a", a}, {"b", b});
  detail::check_defined("tensorsolve", {{"a", a}, {"b", b}});
  Dims last;
  for (int64_t i = 0; i < dims.size(); ++i) last.push_back(i - dims.size());
  const Tensor moved = dims.empty() ? a : movedim(a, dims, last);
  check(moved.ndim() >= b.ndim() && part(moved.shape(), 0, b.ndim()).numel() == b.numel(),
        "tensorsolve: a ", moved.shape(), " must begin with the sizes of b ", b.shape());
  const Shape unknown = part(moved.shape(), b.ndim(), moved.ndim());
  check(unknown.numel() == b.numel(), "tensorsolve: there are ", unknown.numel(), " unknowns for ",
        b.numel(), " equations");
  const Tensor solved =
      solve(reshape(moved, {b.numel(), unknown.numel()}), reshape(b, {b.numel(), 1}));
  return reshape(solved, unknown);
}

// Solvers with an error code for each matrix.

namespace {

// True where a matrix has no result, as [.., 1, 1].
Tensor refused(const Tensor& info) { return unsqueeze(unsqueeze(info != 0, -1), -1); }

// The identity in the place of what has no result.
Tensor harmless(const Tensor& a, const Tensor& info) {
  const Tensor one = eye(a.size(-1), {.dtype = a.dtype(), .device = a.device()});
  return where(refused(info), one, a);
}

Tensor nan_where(const Tensor& bad, const Tensor& result) {
  return where(bad, std::numeric_limits<double>::quiet_NaN(), result);
}

Tensor singular_at(const char* op, const Tensor& a) {
  check(a.ndim() >= 2 && a.size(-1) == a.size(-2), op, ": matrix is not square: ", a.shape());
  return lu_factor_ex(a.detach()).info;
}

}  // namespace

CholeskyEx cholesky_ex(const Tensor& a, Triangle triangle) {
  const detail::Named named("cholesky_ex", {"a", a});
  detail::check_defined("cholesky_ex", {{"a", a}});
  const Tensor lower = triangle == Triangle::lower ? a : a.t();
  const Tensor info(core::cholesky_fault(lower.array()));
  const Tensor l = nan_where(refused(info), cholesky(harmless(lower, info)));
  return {triangle == Triangle::lower ? l : l.t(), info};
}

InvEx inv_ex(const Tensor& a) {
  const detail::Named named("inv_ex", {"a", a});
  detail::check_defined("inv_ex", {{"a", a}});
  const Tensor info = singular_at("inv_ex", a);
  return {nan_where(refused(info), inv(harmless(a, info))), info};
}

SolveEx solve_ex(const Tensor& a, const Tensor& b, SolveSide side) {
  const detail::Named named("solve_ex", {"a", a}, {"b", b});
  detail::check_defined("solve_ex", {{"a", a}, {"b", b}});
  const Tensor info = singular_at("solve_ex", a);
  Shape vectors = a.shape();
  vectors.pop_back();
  const bool is_vector = side == SolveSide::left && (b.ndim() == 1 || b.shape() == vectors);
  const Tensor bad = is_vector ? unsqueeze(info != 0, -1) : refused(info);
  return {nan_where(bad, solve(harmless(a, info), b, side)), info};
}

}  // namespace hero
