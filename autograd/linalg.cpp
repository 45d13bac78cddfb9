#include <hero/autograd/creation.h>
#include <hero/autograd/linalg.h>
#include <hero/autograd/op.h>
#include <hero/autograd/ops.h>
#include <hero/core/functions/linalg.h>

namespace hero {

namespace {

// A^-1 b. dB = A^-T G, dA = -dB X^T; the engine sums over broadcast batches.
struct Solve : Op {
  static constexpr unsigned kSaveInputs = 0b01;
  static constexpr unsigned kSaveOutputs = 1;
  const char* name() const override { return "solve"; }
  Array forward(const Array& a, const Array& b) { return core::solve(a, b); }
  Grads backward(const Tensor& g) override {
    const Tensor gb = solve(input(0).t(), g);
    return {needs(0) ? -matmul(gb, output().t()) : Tensor(), gb};
  }
};

struct Inv : Op {
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
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  const char* name() const override { return "det"; }
  Array forward(const Array& a) { return core::determinant(a).value; }
  Grads backward(const Tensor& g) override {
    const Tensor a = input(0), value = output();
    if (a.numel() == 0) return {zeros_like(a)};
    const Tensor gm = reshape(g, kept());
    const bool regular = a.device().type == DeviceType::meta || all(value != 0).item<bool>();
    if (!regular) return {gm * cofactors(a)};
    return {(gm * reshape(value, kept())) * inv(a).t()};
  }

 private:
  Shape kept() const {
    Shape shape = input_shape(0);
    shape[shape.size() - 1] = shape[shape.size() - 2] = 1;
    return shape;
  }
};

struct LogDet : MultiOp {
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
  static constexpr unsigned kSaveOutputs = 1;
  const char* name() const override { return "cholesky"; }
  Array forward(const Array& a) { return core::cholesky(a); }
  Grads backward(const Tensor& g) override {
    const Tensor lower = output();
    const Tensor p = half_lower(matmul(lower.t(), tril(g)));
    const Tensor half = solve(lower.t(), p);
    const Tensor whole = solve(lower.t(), half.t());
    return {(whole + whole.t()) * 0.5};
  }
};

// With M = R Gr^T - Gq^T Q: dA = (Gq + Q copy(M)) R^-T, copy() mirroring the lower triangle.
struct QROp : MultiOp {
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
    return {solve(r, (gq + matmul(q, mirrored)).t()).t()};
  }
};

// With Z = (A^T A)^-1 G: dB = A Z and dA = (B - A X) Z^T - A Z X^T.
struct LeastSquares : Op {
  static constexpr unsigned kSaveInputs = 0b11;
  static constexpr unsigned kSaveOutputs = 1;
  const char* name() const override { return "lstsq"; }
  Array forward(const Array& a, const Array& b) { return core::lstsq(a, b); }
  Grads backward(const Tensor& g) override {
    const Tensor a = input(0), b = input(1), x = output();
    const Tensor r = qr(a).r;
    const Tensor z = solve(r, solve(r.t(), g));
    const Tensor gb = matmul(a, z);
    if (!needs(0)) return {Tensor(), gb};
    const Tensor residual = b - matmul(a, x);
    return {matmul(residual, z.t()) - matmul(gb, x.t()), gb};
  }
};

void check_matrix(const char* op, const Tensor& a) {
  check(a.ndim() >= 2, op, ": needs a matrix: got shape ", a.shape());
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b) {
  check_matrix("solve", a);
  Shape vectors = a.shape();
  vectors.pop_back();
  if (b.ndim() == 1 || b.shape() == vectors) {
    return squeeze(record(Solve{}, a, unsqueeze(b, -1)), -1);
  }
  return record(Solve{}, a, b);
}

Tensor inv(const Tensor& a) { return record(Inv{}, a); }

Tensor det(const Tensor& a) { return record(Det{}, a); }

SignLogDet slogdet(const Tensor& a) {
  const std::vector<Tensor> results = record_multi(LogDet{}, a);
  return {results[1].detach(), results[0]};
}

Tensor cholesky(const Tensor& a) { return record(Cholesky{}, a); }

QR qr(const Tensor& a) {
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

Tensor lstsq(const Tensor& a, const Tensor& b) {
  if (b.ndim() == 1) return squeeze(record(LeastSquares{}, a, unsqueeze(b, -1)), -1);
  return record(LeastSquares{}, a, b);
}

}  // namespace hero
