// The product of rows with a weight, with bias and activation in the product's memory.
#include <hero/autograd/graph/two_part_backward.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/matmul.h>

namespace hero {

namespace {

namespace k = core::kernels;
using core::Activation;

Tensor activate(Activation activation, const Tensor& z) {
  switch (activation) {
    case Activation::relu:
      return relu(z);
    case Activation::gelu:
      return gelu(z);
    case Activation::gelu_tanh:
      return gelu(z, Gelu::tanh);
    case Activation::none:
      break;
  }
  return z;
}

// Inputs: rows x [M, in], weight [out, in], perhaps bias [out]. With z = x W^T + b the gradients
// are those of two products; the weight's is made in the weight's own layout. The derivative of
// gelu needs z, which is kept beside the output; that of relu needs the output alone.
struct Linear : Op, TwoPartBackward {
  static constexpr AutocastRule kAutocast = AutocastRule::lower_precision;
  static constexpr unsigned kSaveInputs = 0b111;
  Activation activation;
  // [note: casts of frozen parameters] The parameter of which the weight is a cast that nothing
  // else keeps. It is in memory anyway, so it is saved in place of the cast, and backward casts it
  // again.
  Array parameter;
  explicit Linear(Activation a, Array frozen = {}) : activation(a), parameter(std::move(frozen)) {}
  bool keeps_z() const {
    return activation == Activation::gelu || activation == Activation::gelu_tanh;
  }
  // Without an activation the gradients are products of inputs; a recorded backward of one needs
  // them all.
  bool saves_input(int i) const {
    if (i == 1 && parameter.defined()) return false;  // forward() saves the parameter
    return saves(i);
  }
  bool saves(int i) const { return activation != Activation::none || (i < 2 && needs(1 - i)); }
  const char* name() const override { return "linear"; }

  Array forward(std::span<const Array> inputs) {
    const Array &x = inputs[0], &w = inputs[1];
    if (input_count() > 0 && parameter.defined()) {
      if (saves(1)) detail::Recorder::save(*this, parameter, 1);
      parameter = Array();
    }
    if (inputs.size() < 3 && activation == Activation::none) return core::matmul(x, w.t());
    core::check_same_device("linear", x, w);
    check(x.dtype() == w.dtype() && is_floating(x.dtype()),
          "linear: dtypes of x and weight: ", x.dtype(), " and ", w.dtype(),
          "; both must be the same floating one, convert with to()");
    const Array bias = inputs.size() > 2 ? inputs[2].contiguous() : Array();
    const Array out = Array::empty({x.size(0), w.size(0)}, x.dtype(), x.device());
    const Array z = keeps_z() ? out.empty_like() : Array();
    core::backend(x.device())
        .run(core::call::Linear{activation, x, w, bias.defined() ? &bias : nullptr, out,
                                keeps_z() ? &z : nullptr});
    if (keeps_z()) stash(z, 0);
    if (input_count() > 0 && activation == Activation::relu) detail::Recorder::save(*this, out, -1);
    return out;
  }

  Grads backward(const Tensor& g) override {
    if (activation == Activation::none) return gradients(g);
    if (!grad_enabled()) {
      return gradients(Tensor(in_both_parts([&] { return before_activation(g.array()); })));
    }
    std::vector<Tensor> inputs{input(0), weight()};
    if (input_count() > 2) inputs.push_back(input(2));
    return detail::composed_backward(*this, inputs, {g}, [this](const std::vector<Tensor>& in) {
      const Tensor sums = linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor());
      return std::vector<Tensor>{activate(activation, sums)};
    });
  }

  Array before_activation(const Array& g) const {
    if (activation == Activation::relu) {
      return core::map<k::ReluBackward>(g, output().array());
    }
    if (activation == Activation::gelu) return core::map<k::GeluBackward>(g, stashed(0));
    return core::map<k::GeluTanhBackward>(g, stashed(0));
  }
  // The saved weight, cast again where the parameter was saved.
  Tensor weight() const { return input(1).to(input_spec(1).dtype); }
  // g is the gradient of z.
  Grads gradients(const Tensor& g) const {
    if (!grad_enabled()) return arrays_of(g.array());
    Grads grads{needs(0) ? matmul(g, weight()) : Tensor(),
                needs(1) ? matmul(g.t(), input(0)) : Tensor()};
    if (input_count() > 2) grads.push_back(needs(2) ? sum(g, {0}) : Tensor());
    return grads;
  }
  Grads arrays_of(const Array& g) const {
    core::call::LinearBack back;
    back.g = g;
    Grads grads;
    grads.resize(input_count());
    const auto gradient = [&](int i) {
      const Array array = Array::empty(input_shape(i), g.dtype(), g.device());
      grads[i] = Tensor(array);
      return array;
    };
    if (needs(0)) back.w = weight().array(), back.g_x = gradient(0);
    if (needs(1)) back.x = input(0).array(), back.g_w = gradient(1);
    if (input_count() > 2 && needs(2)) back.g_bias = gradient(2);
    core::backend(g.device()).run(back);
    return grads;
  }
};

// The parameter of which Autocast has made `cast`, if no gradient needs either.
Array frozen_parameter(const Tensor& weight, const Tensor& cast) {
  const bool is_cast = weight.dtype() != cast.dtype();
  const bool is_frozen = weight.is_leaf() && !weight.requires_grad();
  if (!is_cast || !is_frozen || weight.ndim() != 2) return {};
  const Array& array = weight.array();
  return array.storage().tag() == MemoryTag::parameter ? array : Array();
}

Tensor run(Activation activation, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Array& parameter = {}) {
  if (const AutocastInputs in(AutocastRule::lower_precision, x, weight, bias); in.changed()) {
    return run(activation, in[0], in[1], in[2], frozen_parameter(weight, in[1]));
  }
  if (weight.ndim() == 1) {
    check(!bias.defined() || bias.ndim() == 0, "linear: a weight of shape ", weight.shape(),
          " has a single output, whose bias is a number: got shape ",
          bias.defined() ? bias.shape() : Shape());
    const Tensor one = bias.defined() ? reshape(bias, {1}) : bias;
    return squeeze(run(activation, x, unsqueeze(weight, 0), one), -1);
  }
  check(weight.ndim() == 2, "linear: needs 2 dimensions: got shape ", weight.shape());
  check(x.ndim() > 0 && x.size(-1) == weight.size(1), "linear: inner sizes differ: ", x.shape(),
        " x ", weight.shape(), " (weight is [out, in])");
  Shape shape = x.shape();
  shape.back() = weight.size(0);
  // One large product instead of a batch of small ones.
  Shape flat{1, x.size(-1)};
  for (int i = 0; i + 1 < x.ndim(); ++i) flat[0] *= x.shape()[i];
  const Tensor rows = x.ndim() == 2 ? x : reshape(x, flat);
  const bool fits = !bias.defined() || (bias.shape() == Shape{weight.size(0)} &&
                                        bias.dtype() == weight.dtype() && is_floating(x.dtype()));
  Tensor y;
  if (!fits && detail::any_half(x, weight, bias)) {
    return detail::in_float32("linear", AutocastRule::lower_precision, {x, weight, bias},
                              [=](const auto& in) { return run(activation, in[0], in[1], in[2]); });
  }
  if (fits) {
    std::vector<Tensor> inputs{rows, weight};
    if (bias.defined()) inputs.push_back(bias);
    y = record_list(Linear(activation, parameter), inputs);
  } else {
    // A bias that broadcasts or promotes.
    const Tensor sums = record_list(Linear(Activation::none, parameter), {rows, weight});
    y = activate(activation, sums + bias);
  }
  return x.ndim() == 2 ? y : reshape(y, shape);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const detail::Named named("linear", {"x", x}, {"weight", weight});
  detail::check_defined("linear", {{"x", x}, {"weight", weight}});
  return run(Activation::none, x, weight, bias);
}

Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const detail::Named named("linear_relu", {"x", x}, {"weight", weight});
  detail::check_defined("linear_relu", {{"x", x}, {"weight", weight}});
  return run(Activation::relu, x, weight, bias);
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias, Gelu approximate) {
  const detail::Named named("linear_gelu", {"x", x}, {"weight", weight});
  detail::check_defined("linear_gelu", {{"x", x}, {"weight", weight}});
  return run(approximate == Gelu::erf ? Activation::gelu : Activation::gelu_tanh, x, weight, bias);
}

// x1 W_o x2 for every o: one product with all W_o side by side, then one for each row.
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  detail::check_defined("bilinear", {{"x1", x1}, {"x2", x2}, {"weight", weight}});
  constexpr auto kName = "bilinear";
  if (detail::any_half(x1, x2, weight, bias)) {
    return detail::in_float32(kName, AutocastRule::fallthrough, {x1, x2, weight, bias},
                              [](const auto& in) { return bilinear(in[0], in[1], in[2], in[3]); });
  }
  check(weight.ndim() == 3, kName, ": weight must be [out, in1, in2]: got shape ", weight.shape());
  const int64_t outputs = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  check(x1.ndim() > 0 && x1.ndim() == x2.ndim() && x1.size(-1) == in1 && x2.size(-1) == in2, kName,
        ": inputs ", x1.shape(), " and ", x2.shape(), " do not fit weight ", weight.shape());
  Shape rows = x1.shape(), rows2 = x2.shape();
  rows.pop_back();
  rows2.pop_back();
  check(rows == rows2, kName, ": inputs differ before their last dimension: ", x1.shape(), " and ",
        x2.shape());
  const Tensor wide = reshape(permute(weight, {1, 0, 2}), {in1, outputs * in2});
  const Tensor left = reshape(matmul(reshape(x1, {-1, in1}), wide), {rows.numel(), outputs, in2});
  const Tensor y = matmul(left, reshape(x2, {rows.numel(), in2, 1}));
  Shape shape = rows;
  shape.push_back(outputs);
  const Tensor result = reshape(y, shape);
  return bias.defined() ? result + bias : result;
}

}  // namespace hero
