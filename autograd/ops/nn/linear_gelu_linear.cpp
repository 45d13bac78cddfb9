// Two products with gelu between them: a transformer's feed-forward part.
#include <hero/autograd/graph/two_part_backward.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/matmul.h>

namespace hero {

namespace {

using core::Activation;

// Inputs: rows x [M, in], weights [hidden, in] and [out, hidden], and perhaps their biases,
// [hidden] and [out]. u = x W1^T + b1, h = gelu(u), y = h W2^T + b2; u and h are kept. The gradient
// of u is one step of the backend, and so is no array beside that of h.
struct LinearGeluLinear : Op, TwoPartBackward {
  static constexpr AutocastRule kAutocast = AutocastRule::lower_precision;
  static constexpr unsigned kSaveInputs = 0b1111;
  Gelu approximate;
  explicit LinearGeluLinear(Gelu a) : approximate(a) {}
  const char* name() const override { return "linear_gelu_linear"; }
  Activation activation() const {
    return approximate == Gelu::erf ? Activation::gelu : Activation::gelu_tanh;
  }

  Array forward(std::span<const Array> inputs) {
    const Array &x = inputs[0], &w1 = inputs[1], &w2 = inputs[2];
    const Array u = Array::empty({x.size(0), w1.size(0)}, x.dtype(), x.device());
    const Array h = u.empty_like();
    core::Backend& device = core::backend(x.device());
    const bool has_bias = inputs.size() > 3;
    const Array b1 = has_bias ? inputs[3].contiguous() : Array();
    device.run(core::call::Linear{activation(), x, w1, has_bias ? &b1 : nullptr, h, &u});
    stash(u, 0);
    stash(h, 1);
    if (!has_bias) return core::matmul(h, w2.t());
    const Array b2 = inputs[4].contiguous();
    const Array y = Array::empty({x.size(0), w2.size(0)}, x.dtype(), x.device());
    device.run(core::call::Linear{Activation::none, h, w2, &b2, y, nullptr});
    return y;
  }

  Grads backward(const Tensor& g) override {
    const bool has_bias = input_count() > 3;
    if (grad_enabled()) return recorded(g, has_bias);
    Grads grads;
    grads.resize(input_count());
    const auto gradient = [&](int i) {
      const Array array = Array::empty(input_shape(i), g.dtype(), g.device());
      grads[i] = Tensor(array);
      return array;
    };
    const auto wants_bias = [&](int i) { return has_bias && needs(i); };
    core::call::LinearBack outer, inner;
    outer.g = g.array();
    if (needs(2)) outer.x = stashed(1), outer.g_w = gradient(2);
    if (wants_bias(4)) outer.g_bias = gradient(4);
    const auto gradient_of_u = [&] {
      outer.activation = activation();
      outer.u = stashed(0);
      outer.w = input(2).array();
      outer.g_x = outer.u.empty_like();
      return outer.g_x;
    };
    const bool wants_inner = needs(0) || needs(1) || wants_bias(3);
    if (wants_inner) inner.g = in_both_parts(gradient_of_u);
    core::Backend& device = core::backend(g.device());
    device.run(outer);
    if (!wants_inner) return grads;
    if (needs(0)) inner.w = input(1).array(), inner.g_x = gradient(0);
    if (needs(1)) inner.x = input(0).array(), inner.g_w = gradient(1);
    if (wants_bias(3)) inner.g_bias = gradient(3);
    device.run(inner);
    return grads;
  }

  // The second bias is added last and is no part of the other gradients.
  Grads recorded(const Tensor& g, bool has_bias) const {
    std::vector<Tensor> inputs;
    for (int i = 0; i < (has_bias ? 4 : 3); ++i) inputs.push_back(input(i));
    Grads grads =
        detail::composed_backward(*this, inputs, {g}, [this](const std::vector<Tensor>& in) {
          const Tensor u = linear(in[0], in[1], in.size() > 3 ? in[3] : Tensor());
          return std::vector<Tensor>{linear(gelu(u, approximate), in[2])};
        });
    if (has_bias) grads.push_back(needs(4) ? sum(g, {0}) : Tensor());
    return grads;
  }
};

// Whether all are of one floating dtype and of the shapes above, the biases both there or both not;
// what is not is left to linear(), which promotes, broadcasts or says what is wrong.
bool fits(const Tensor& x, const LinearWeights& in, const LinearWeights& out) {
  const Tensor &w1 = in.weight, &w2 = out.weight;
  const auto suits = [&](const Tensor& w) {
    return w.ndim() == 2 && w.dtype() == x.dtype() && w.device() == x.device();
  };
  const auto shifts = [](const LinearWeights& l) {
    return l.bias.shape() == Shape{l.weight.size(0)} && l.bias.dtype() == l.weight.dtype() &&
           l.bias.device() == l.weight.device();
  };
  if (x.ndim() == 0 || !is_floating(x.dtype()) || !suits(w1) || !suits(w2)) return false;
  if (x.size(-1) != w1.size(1) || w1.size(0) != w2.size(1)) return false;
  if (in.bias.defined() != out.bias.defined()) return false;
  return !in.bias.defined() || (shifts(in) && shifts(out));
}

}  // namespace

Tensor linear_gelu_linear(const Tensor& x, const LinearWeights& in, const LinearWeights& out,
                          Gelu approximate) {
  const detail::Named named("linear_gelu_linear", {"x", x});
  if (const AutocastInputs cast(AutocastRule::lower_precision, x, in.weight, in.bias, out.weight,
                                out.bias);
      cast.changed()) {
    return linear_gelu_linear(cast[0], {cast[1], cast[2]}, {cast[3], cast[4]}, approximate);
  }
  if (!fits(x, in, out)) {
    return linear(linear_gelu(x, in.weight, in.bias, approximate), out.weight, out.bias);
  }
  Shape shape = x.shape();
  shape.back() = out.weight.size(0);
  Shape flat{1, x.size(-1)};
  for (int i = 0; i + 1 < x.ndim(); ++i) flat[0] *= x.shape()[i];
  std::vector<Tensor> inputs{x.ndim() == 2 ? x : reshape(x, flat), in.weight, out.weight};
  if (in.bias.defined()) {
    inputs.push_back(in.bias);
    inputs.push_back(out.bias);
  }
  const Tensor y = record_list(LinearGeluLinear(approximate), inputs);
  return x.ndim() == 2 ? y : reshape(y, shape);
}

}  // namespace hero
