// Softmax and its logarithm.
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>

namespace hero {

namespace {

using core::SoftmaxKind;

struct Softmax : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveOutputs = 1;
  SoftmaxKind kind;
  int dim;
  Softmax(SoftmaxKind k, int d) : kind(k), dim(d) {}
  const char* name() const override {
    return kind == SoftmaxKind::softmax ? "softmax" : "log_softmax";
  }
  Array forward(const Array& x) {
    const Array out = x.empty_like();
    core::backend(x.device()).run(core::call::Softmax{kind, x, dim, out});
    return out;
  }
  Grads backward(const Tensor& g) override {
    const Tensor y = output();
    if (!grad_enabled()) return {fused(g.array(), y.array())};
    if (kind == SoftmaxKind::softmax) return {y * (g - sum(g * y, {dim}, true))};
    return {g - exp(y) * sum(g, {dim}, true)};
  }
  Tensor fused(const Array& g, const Array& y) const {
    const Array out = y.empty_like();
    core::backend(y.device()).run(core::call::SoftmaxBack{kind, g, y, dim, out});
    return Tensor(out);
  }
};

Tensor run(const char* op, SoftmaxKind kind, const Tensor& x, int64_t dim) {
  detail::check_defined(op, {{"x", x}});
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
  if (x.ndim() == 0) return reshape(run(op, kind, reshape(x, {1}), dim), {});
  return record(Softmax(kind, normalize_dim(op, dim, x.ndim())), x);
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim) {
  const detail::Named named("softmax", {"x", x});
  return run("softmax", SoftmaxKind::softmax, x, dim);
}
Tensor log_softmax(const Tensor& x, int64_t dim) {
  const detail::Named named("log_softmax", {"x", x});
  return run("log_softmax", SoftmaxKind::log_softmax, x, dim);
}

Tensor softmax(const Tensor& x, int64_t dim, DType dtype) {
  const detail::Named named("softmax", {"x", x});
  return softmax(x.to(dtype), dim);
}
Tensor log_softmax(const Tensor& x, int64_t dim, DType dtype) {
  const detail::Named named("log_softmax", {"x", x});
  return log_softmax(x.to(dtype), dim);
}

}  // namespace hero
