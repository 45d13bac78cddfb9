// Matrix products.
#include <hero/autograd/graph/op.h>
#include <hero/autograd/graph/two_part_backward.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/functions/matmul.h>

namespace hero {

namespace {

// Both operands have at least two dimensions here; batches broadcast, and the engine sums over what
// was broadcast. dA = G B^T, dB = A^T G.
// [snippet: product]
struct MatMul : Op, TwoPartBackward {
  static constexpr AutocastRule kAutocast = AutocastRule::lower_precision;
  bool saves_input(int i) const { return needs(1 - i); }
  const char* name() const override { return "matmul"; }
  Array forward(const Array& a, const Array& b) { return core::matmul(a, b); }
  Grads backward(const Tensor& g) override {
    return {needs(0) ? matmul(g, input(1).t()) : Tensor(),
            needs(1) ? matmul(input(0).t(), g) : Tensor()};
  }
};
// [end]

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  detail::check_defined("matmul", {{"a", a}, {"b", b}});
  check(a.ndim() > 0 && b.ndim() > 0, "matmul: operands need dimensions: ", a.shape(), " x ",
        b.shape(), "; use mul() for scalars");
  // A vector is a row on the left and a column on the right; its dimension is dropped again.
  if (a.ndim() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.ndim() == 1 ? 0 : -2);
  if (b.ndim() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  return record(MatMul{}, a, b);
}

Tensor mm(const Tensor& a, const Tensor& b) {
  const detail::Named named("mm", {"a", a}, {"b", b});
  detail::check_defined("mm", {{"a", a}, {"b", b}});
  detail::check_ndim("mm", a, 2);
  detail::check_ndim("mm", b, 2);
  return matmul(a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  const detail::Named named("bmm", {"a", a}, {"b", b});
  detail::check_defined("bmm", {{"a", a}, {"b", b}});
  detail::check_ndim("bmm", a, 3);
  detail::check_ndim("bmm", b, 3);
  check(a.size(0) == b.size(0), "bmm: batches differ: ", a.shape(), " x ", b.shape());
  return matmul(a, b);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  const detail::Named named("dot", {"a", a}, {"b", b});
  detail::check_defined("dot", {{"a", a}, {"b", b}});
  detail::check_ndim("dot", a, 1);
  detail::check_ndim("dot", b, 1);
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  detail::check_defined("outer", {{"a", a}, {"b", b}});
  detail::check_ndim("outer", a, 1);
  detail::check_ndim("outer", b, 1);
  return unsqueeze(a, 1) * unsqueeze(b, 0);
}

}  // namespace hero
