// conv2d and conv1d, and the operations of conv.h.
#include <hero/autograd/graph/two_part_backward.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/windows/conv_maps.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

using core::Activation;
using detail::Geometry;

// x, w and perhaps bias -> y, or relu of it: one pass over products that are still in the cache.
// Without relu the gradients need no composed definition, since they are recorded operations.
struct Conv : Op, TwoPartBackward {
  static constexpr unsigned kSaveInputs = 0b111;
  Geometry geometry;
  Activation activation;
  explicit Conv(const Geometry& g, Activation a = Activation::none) : geometry(g), activation(a) {}
  bool saves_input(int i) const {
    return activation != Activation::none || (i < 2 && needs(1 - i));
  }
  const char* name() const override { return "conv2d"; }
  Array forward(std::span<const Array> in) {
    const Array y =
        detail::convolve(in[0], in[1], geometry, in.size() > 2 ? in[2] : Array(), activation);
    if (input_count() > 0 && activation == Activation::relu) detail::Recorder::save(*this, y, -1);
    return y;
  }
  Grads backward(const Tensor& g) override;
  Grads gradients(const Tensor& g) const;
};

// y, w and perhaps bias -> x
struct ConvBack : Op, TwoPartBackward {
  Geometry geometry;
  explicit ConvBack(const Geometry& g) : geometry(g) {}
  bool saves_input(int i) const { return i < 2 && needs(1 - i); }
  const char* name() const override { return "conv_transpose2d"; }
  Array forward(std::span<const Array> in) {
    return detail::convolve_back(in[0], in[1], geometry, in.size() > 2 ? in[2] : Array());
  }
  Grads backward(const Tensor& g) override;
};

// x, y -> w
struct ConvWeight : Op {
  Geometry geometry;
  explicit ConvWeight(const Geometry& g) : geometry(g) {}
  bool saves_input(int i) const { return needs(1 - i); }
  const char* name() const override { return "conv2d_weight"; }
  Array forward(const Array& x, const Array& y) { return detail::weight_gradient(x, y, geometry); }
  Grads backward(const Tensor& g) override;
};

// see [note: three operations closed under differentiation]
Grads Conv::gradients(const Tensor& g) const {
  Grads grads{needs(0) ? record_list(ConvBack(geometry), {g, input(1)}) : Tensor(),
              needs(1) ? record(ConvWeight(geometry), input(0), g) : Tensor()};
  if (input_count() > 2) grads.push_back(needs(2) ? sum(g, {0, 2, 3}) : Tensor());
  return grads;
}
Grads Conv::backward(const Tensor& g) {
  if (activation == Activation::none) return gradients(g);
  if (!grad_enabled()) {
    return gradients(Tensor(in_both_parts(
        [&] { return core::map<core::kernels::ReluBackward>(g.array(), output().array()); })));
  }
  std::vector<Tensor> inputs;
  for (int i = 0; i < input_count(); ++i) inputs.push_back(input(i));
  return detail::composed_backward(*this, inputs, {g}, [this](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{relu(record_list(Conv(geometry), in))};
  });
}
Grads ConvBack::backward(const Tensor& g) {
  Grads grads{needs(0) ? record_list(Conv(geometry), {g, input(1)}) : Tensor(),
              needs(1) ? record(ConvWeight(geometry), g, input(0)) : Tensor()};
  if (input_count() > 2) grads.push_back(needs(2) ? sum(g, {0, 2, 3}) : Tensor());
  return grads;
}
Grads ConvWeight::backward(const Tensor& g) {
  return {needs(0) ? record_list(ConvBack(geometry), {input(1), g}) : Tensor(),
          needs(1) ? record_list(Conv(geometry), {input(0), g}) : Tensor()};
}

Tensor convolution(const detail::ConvolutionSpec& spec, const Tensor& x, const Tensor& w,
                   const Tensor& bias, Activation activation = Activation::none) {
  if (const AutocastInputs in(spec.op, x, w, bias); in.changed()) {
    return convolution(spec, in[0], in[1], in[2], activation);
  }
  detail::check_operands(spec, x, w, bias, w.size(0));
  check(x.size(1) % spec.groups == 0 && x.size(1) / spec.groups == w.size(1) &&
            w.size(0) % spec.groups == 0,
        spec.op, ": x ", spec.shown(x), " does not fit weight ", spec.shown(w),
        " with groups = ", spec.groups, "; weight is [O, C / groups, ",
        spec.is_line ? "K]" : "KH, KW]");
  Geometry geometry{detail::window_of(spec, w), spec.groups, x.shape(), w.shape(), x.shape()};
  geometry.y[1] = w.size(0);
  for (int i = 0; i < 2; ++i) {
    core::Window& window = geometry.window;
    const int64_t spanned = detail::window_reach(spec.op, window, i);
    const int64_t padded =
        (core::Checked{spec.op, x.size(2 + i)} + window.padding[i] + window.padding[i]).value;
    check(padded >= spanned, spec.op, ": kernel of reach ", spanned,
          " is larger than the padded input of ", padded, ": x ", spec.shown(x), ", weight ",
          spec.shown(w));
    geometry.y[2 + i] = (padded - spanned) / window.stride[i] + 1;
    detail::bound_steps(spec.op, window, i, padded);
  }
  std::vector<Tensor> inputs{x, w};
  if (bias.defined() && bias.dtype() == w.dtype()) inputs.push_back(bias);
  if (!bias.defined() || inputs.size() > 2) return record_list(Conv(geometry, activation), inputs);
  if (detail::any_half(x, bias)) {
    return detail::in_float32(spec.op, {x, w, bias}, [=](const auto& in) {
      return convolution(spec, in[0], in[1], in[2], activation);
    });
  }
  const Tensor y = detail::add_channel_bias(record_list(Conv(geometry), inputs), bias);
  return activation == Activation::relu ? relu(y) : y;
}

}  // namespace

Tensor detail::record_transposed(const Geometry& geometry, const std::vector<Tensor>& inputs) {
  return record_list(ConvBack(geometry), inputs);
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  const detail::Named named("conv2d", {"x", x}, {"weight", weight});
  detail::check_defined("conv2d", {{"x", x}, {"weight", weight}});
  if (x.ndim() == 3) return squeeze(conv2d(unsqueeze(x, 0), weight, bias, options), 0);
  return convolution({"conv2d", options.stride, options.padding, options.dilation, options.groups},
                     x, weight, bias);
}

Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv2dOptions& options) {
  const detail::Named named("conv2d_relu", {"x", x}, {"weight", weight});
  detail::check_defined("conv2d_relu", {{"x", x}, {"weight", weight}});
  if (x.ndim() == 3) return squeeze(conv2d_relu(unsqueeze(x, 0), weight, bias, options), 0);
  const detail::ConvolutionSpec spec{"conv2d", options.stride, options.padding, options.dilation,
                                     options.groups};
  return convolution(spec, x, weight, bias, Activation::relu);
}

// An image of height 1.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  const detail::Named named("conv1d", {"x", x}, {"weight", weight});
  detail::check_defined("conv1d", {{"x", x}, {"weight", weight}});
  if (x.ndim() == 2) return squeeze(conv1d(unsqueeze(x, 0), weight, bias, options), 0);
  check(x.ndim() == 3 && weight.ndim() == 3, "conv1d: x must be [N, C, L] and weight 3-D too: got ",
        x.shape(), " and ", weight.shape());
  const detail::ConvolutionSpec spec{
      "conv1d", {1, options.stride}, {0, options.padding}, {1, options.dilation}, options.groups,
      true};
  return squeeze(convolution(spec, unsqueeze(x, 2), unsqueeze(weight, 2), bias), 2);
}

}  // namespace hero
