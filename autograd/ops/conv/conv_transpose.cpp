// conv_transpose2d: the transpose of a convolution.
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/conv/conv.h>
#include <hero/autograd/ops/conv/conv_maps.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

namespace {

Tensor transposed(const detail::ConvolutionSpec& spec, Pair output_padding, const Tensor& x,
                  const Tensor& weight, const Tensor& bias) {
  const char* op = spec.op;
  if (const AutocastInputs in(AutocastRule::lower_precision, x, weight, bias); in.changed()) {
    return transposed(spec, output_padding, in[0], in[1], in[2]);
  }
  const core::Checked outputs =
      core::Checked{op, weight.ndim() == 4 ? weight.size(1) : 0} * spec.groups;
  detail::check_operands(spec, x, weight, bias, outputs.value);
  check(x.size(1) == weight.size(0) && x.size(1) % spec.groups == 0, op, ": x ", spec.shown(x),
        " does not fit weight ", spec.shown(weight), " with groups = ", spec.groups,
        "; weight is [C, O / groups, ", spec.is_line ? "K]" : "KH, KW]");
  detail::Geometry geometry{
      detail::window_of(spec, weight), {}, spec.groups, x.shape(), weight.shape(), x.shape()};
  geometry.x[1] = outputs.value;
  for (int i = 0; i < 2; ++i) {
    core::Window& window = geometry.window;
    const int64_t extra = output_padding[static_cast<size_t>(i)];
    check(extra >= 0 && (extra < window.stride[i] || extra < window.dilation[i]), op,
          ": output_padding ", extra, " must be smaller than stride or dilation");
    const core::Checked moved = core::Checked{op, x.size(2 + i) - 1} * window.stride[i];
    const int64_t padded = (moved + detail::window_reach(op, window, i) + extra).value;
    geometry.x[2 + i] = (core::Checked{op, padded} - window.padding[i] - window.padding[i]).value;
    // Beyond the last place that y has; columns have no more places than y.
    geometry.window.surplus[i] = extra;
    const auto axis = static_cast<size_t>(i);
    const bool cut_off = geometry.x[2 + i] == 0 && spec.padding[axis] > 0;
    check(geometry.x[2 + i] > 0 || cut_off, op, ": the output would be empty: x ", spec.shown(x),
          ", weight ", spec.shown(weight));
    if (cut_off) {  // nothing of an output that is there, so that gradients are zeros
      detail::ConvolutionSpec larger = spec;
      --larger.padding[axis];
      return slice(transposed(larger, output_padding, x, weight, bias), 2 + i, 0, 0);
    }
    detail::bound_steps(op, window, i, padded);
  }
  if (!bias.defined()) return detail::record_transposed(geometry, {x, weight});
  if (bias.dtype() == x.dtype()) return detail::record_transposed(geometry, {x, weight, bias});
  if (detail::any_half(x, bias)) {
    return detail::in_float32(
        op, AutocastRule::lower_precision, {x, weight, bias},
        [=](const auto& in) { return transposed(spec, output_padding, in[0], in[1], in[2]); });
  }
  return detail::add_channel_bias(detail::record_transposed(geometry, {x, weight}), bias);
}

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  detail::check_defined("conv_transpose2d", {{"x", x}, {"weight", weight}});
  if (x.ndim() == 3) return squeeze(conv_transpose2d(unsqueeze(x, 0), weight, bias, options), 0);
  return transposed(
      {"conv_transpose2d", options.stride, options.padding, options.dilation, options.groups},
      options.output_padding, x, weight, bias);
}

// An image of height 1.
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dOptions& options) {
  const detail::Named named("conv_transpose1d", {"x", x}, {"weight", weight});
  detail::check_defined("conv_transpose1d", {{"x", x}, {"weight", weight}});
  if (x.ndim() == 2) return squeeze(conv_transpose1d(unsqueeze(x, 0), weight, bias, options), 0);
  check(x.ndim() == 3 && weight.ndim() == 3,
        "conv_transpose1d: x must be [N, C, L] or [C, L] and weight [C, O / groups, K]: got ",
        x.shape(), " and ", weight.shape());
  const detail::ConvolutionSpec spec{"conv_transpose1d",   {1, options.stride},
                                     {0, options.padding}, {1, options.dilation},
                                     options.groups,       true};
  return squeeze(
      transposed(spec, {0, options.output_padding}, unsqueeze(x, 2), unsqueeze(weight, 2), bias),
      2);
}

}  // namespace hero
