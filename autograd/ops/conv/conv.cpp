// The operations of conv_maps.h, conv1d and conv2d.
#include <hero/autograd/graph/two_part_backward.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/conv/conv.h>
#include <hero/autograd/ops/conv/conv_maps.h>
#include <hero/autograd/ops/conv/volumes.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

using core::Activation;
using detail::Geometry;

// x, w and perhaps bias -> y, or relu of it: one pass over products that are still in the cache.
// Without relu the gradients need no composed definition, since they are recorded operations.
struct Conv : Op, TwoPartBackward {
  static constexpr AutocastRule kAutocast = AutocastRule::lower_precision;
  Geometry geometry;
  Activation activation;
  explicit Conv(const Geometry& g, Activation a = Activation::none) : geometry(g), activation(a) {}
  bool saves_input(int i) const {
    return activation != Activation::none || (i < 2 && needs(1 - i));
  }
  const char* name() const override { return geometry.is_volume() ? "conv3d" : "conv2d"; }
  Array forward(std::span<const Array> in) {
    const Array y =
        detail::convolve(in[0], in[1], geometry, in.size() > 2 ? in[2] : Array(), activation);
    if (input_count() > 0 && activation == Activation::relu) detail::Recorder::save(*this, y, -1);
    return y;
  }
  Grads backward(const Tensor& g) override;
  Grads gradients(const Tensor& g) const;
};

// y, w and perhaps bias -> x; of volumes a gradient alone.
template <AutocastRule rule>
struct ConvBack : Op, TwoPartBackward {
  static constexpr AutocastRule kAutocast = rule;
  Geometry geometry;
  explicit ConvBack(const Geometry& g) : geometry(g) {}
  bool saves_input(int i) const { return i < 2 && needs(1 - i); }
  const char* name() const override {
    return geometry.is_volume() ? "conv3d_input" : "conv_transpose2d";
  }
  Array forward(std::span<const Array> in) {
    return detail::convolve_back(in[0], in[1], geometry, in.size() > 2 ? in[2] : Array());
  }
  Grads backward(const Tensor& g) override;
};

// x, y -> w
struct ConvWeight : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Geometry geometry;
  explicit ConvWeight(const Geometry& g) : geometry(g) {}
  bool saves_input(int i) const { return needs(1 - i); }
  const char* name() const override {
    return geometry.is_volume() ? "conv3d_weight" : "conv2d_weight";
  }
  Array forward(const Array& x, const Array& y) { return detail::weight_gradient(x, y, geometry); }
  Grads backward(const Tensor& g) override;
};

Tensor input_gradient(const Geometry& g, const Tensor& y, const Tensor& w) {
  if (!g.is_volume()) return detail::record_transposed(g, {y, w});
  if (!g.is_mirrored()) return record_list(ConvBack<AutocastRule::fallthrough>(g), {y, w});
  return record_list(Conv(g.mirrored()), {y, flip(transpose(w, 0, 1), {2, 3, 4})});
}

// The gradient of a bias.
Tensor channel_sums(const Tensor& g) {
  return sum(g, g.ndim() == 5 ? Dims{0, 2, 3, 4} : Dims{0, 2, 3});
}

// see [note: three operations closed under differentiation]
Grads Conv::gradients(const Tensor& g) const {
  Grads grads{needs(0) ? input_gradient(geometry, g, input(1)) : Tensor(),
              needs(1) ? record(ConvWeight(geometry), input(0), g) : Tensor()};
  if (input_count() > 2) grads.push_back(needs(2) ? channel_sums(g) : Tensor());
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
template <AutocastRule rule>
Grads ConvBack<rule>::backward(const Tensor& g) {
  Grads grads{needs(0) ? record_list(Conv(geometry), {g, input(1)}) : Tensor(),
              needs(1) ? record(ConvWeight(geometry), g, input(0)) : Tensor()};
  if (input_count() > 2) grads.push_back(needs(2) ? channel_sums(g) : Tensor());
  return grads;
}
Grads ConvWeight::backward(const Tensor& g) {
  return {needs(0) ? input_gradient(geometry, input(1), g) : Tensor(),
          needs(1) ? record_list(Conv(geometry), {input(0), g}) : Tensor()};
}

Tensor convolution(const detail::ConvolutionSpec& spec, const Tensor& x, const Tensor& w,
                   const Tensor& bias, Activation activation = Activation::none) {
  if (const AutocastInputs in(AutocastRule::lower_precision, x, w, bias); in.changed()) {
    return convolution(spec, in[0], in[1], in[2], activation);
  }
  detail::check_operands(spec, x, w, bias, w.size(0));
  check(x.size(1) % spec.groups == 0 && x.size(1) / spec.groups == w.size(1) &&
            w.size(0) % spec.groups == 0,
        spec.op, ": x ", spec.shown(x), " does not fit weight ", spec.shown(w),
        " with groups = ", spec.groups, "; weight is [O, C / groups, ",
        spec.is_line ? "K]" : "KH, KW]");
  Geometry geometry{detail::window_of(spec, w), {}, spec.groups, x.shape(), w.shape(), x.shape()};
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
    return detail::in_float32(
        spec.op, AutocastRule::lower_precision, {x, w, bias},
        [=](const auto& in) { return convolution(spec, in[0], in[1], in[2], activation); });
  }
  const Tensor y = detail::add_channel_bias(record_list(Conv(geometry), inputs), bias);
  return activation == Activation::relu ? relu(y) : y;
}

}  // namespace

Tensor detail::record_convolution(const Geometry& geometry, const std::vector<Tensor>& inputs,
                                  Activation activation) {
  return record_list(Conv(geometry, activation), inputs);
}
Tensor detail::record_transposed(const Geometry& geometry, const std::vector<Tensor>& inputs) {
  return record_list(ConvBack<AutocastRule::lower_precision>(geometry), inputs);
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

// What conv2d and conv_transpose2d ask of their operands.

namespace detail {

Tensor add_channel_bias(const Tensor& y, const Tensor& bias) {
  return y + reshape(bias, {bias.numel(), 1, 1});
}

void check_operands(const ConvolutionSpec& spec, const Tensor& x, const Tensor& w,
                    const Tensor& bias, int64_t outputs) {
  const char* op = spec.op;
  check(x.ndim() == 4 && w.ndim() == 4, op, ": x must be [N, C, H, W] and weight 4-D too: got ",
        x.shape(), " and ", w.shape());
  const Shape shown = spec.shown(w);
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
  check(x.dtype() == w.dtype(), op, ": x is ", x.dtype(), " and weight ", w.dtype(),
        "; convert one with to()");
  check(spec.groups > 0, op, ": groups must be positive: ", spec.groups);
  for (int i = 0; i < 2; ++i) {
    const auto axis = static_cast<size_t>(i);
    check(spec.stride[axis] > 0 && spec.dilation[axis] > 0 && spec.padding[axis] >= 0, op,
          ": stride and dilation must be positive and padding not negative: ", spec.stride[axis],
          ", ", spec.dilation[axis], ", ", spec.padding[axis]);
    check(w.size(2 + i) > 0, op, ": empty kernel: weight has shape ", shown);
  }
  check(!bias.defined() || bias.shape() == Shape{outputs}, op, ": bias has shape ",
        bias.defined() ? bias.shape() : Shape{}, "; it should be ", Shape{outputs});
}

core::Window window_of(const ConvolutionSpec& spec, const Tensor& w) {
  core::Window window;
  for (int i = 0; i < 2; ++i) {
    const auto axis = static_cast<size_t>(i);
    window.kernel[i] = w.size(2 + i);
    window.stride[i] = spec.stride[axis];
    window.padding[i] = spec.padding[axis];
    window.dilation[i] = spec.dilation[axis];
  }
  return window;
}

int64_t window_reach(const char* op, const core::Window& window, int axis) {
  return (core::Checked{op, window.dilation[axis]} * (window.kernel[axis] - 1) + 1).value;
}

void bound_steps(const char* op, core::Window& window, int axis, int64_t padded) {
  constexpr int64_t kMost = int64_t{1} << 60;
  check(padded <= kMost, op, ": a padded input of ", padded, " is too large; use less padding");
  if (window.kernel[axis] == 1) window.dilation[axis] = 1;
  window.stride[axis] = std::min(window.stride[axis], padded);
}

}  // namespace detail

namespace {

// Zeros on both sides, pairs from the last dimension backwards: the half of what the kernel reaches
// beyond one element, the larger half behind.
std::vector<int64_t> same_padding(const char* op, const Tensor& weight,
                                  const std::vector<int64_t>& dilation) {
  std::vector<int64_t> padding;
  const int dims = static_cast<int>(dilation.size());
  check(weight.ndim() == dims + 2, op, ": weight has shape ", weight.shape());
  for (int i = dims - 1; i >= 0; --i) {
    const int64_t total =
        detail::reach_of(op, weight.size(2 + i), dilation[static_cast<size_t>(i)]) - 1;
    padding.push_back(total / 2);
    padding.push_back(total - total / 2);
  }
  return padding;
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              int64_t dilation, int64_t groups) {
  const detail::Named named("conv1d", {"x", x}, {"weight", weight});
  detail::check_defined("conv1d", {{"x", x}, {"weight", weight}});
  const bool same = padding == PaddingWord::same;
  return conv1d(same ? pad(x, same_padding("conv1d", weight, {dilation})) : x, weight, bias,
                {.dilation = dilation, .groups = groups});
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              Pair dilation, int64_t groups) {
  const detail::Named named("conv2d", {"x", x}, {"weight", weight});
  detail::check_defined("conv2d", {{"x", x}, {"weight", weight}});
  const bool same = padding == PaddingWord::same;
  return conv2d(same ? pad(x, same_padding("conv2d", weight, {dilation[0], dilation[1]})) : x,
                weight, bias, {.dilation = dilation, .groups = groups});
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              Triple dilation, int64_t groups) {
  const detail::Named named("conv3d", {"x", x}, {"weight", weight});
  detail::check_defined("conv3d", {{"x", x}, {"weight", weight}});
  const bool same = padding == PaddingWord::same;
  return conv3d(
      same ? pad(x, same_padding("conv3d", weight, {dilation[0], dilation[1], dilation[2]})) : x,
      weight, bias, {.dilation = dilation, .groups = groups});
}

}  // namespace hero
