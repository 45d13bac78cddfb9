// conv_transpose2d: the transpose of a convolution.
#include <hero/autograd/ops/defined.h>
#include <hero/autograd/ops/in_float32.h>
#include <hero/autograd/ops/windows/conv.h>

namespace hero {

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  detail::check_defined("conv_transpose2d", {{"x", x}, {"weight", weight}});
  constexpr auto kName = "conv_transpose2d";
  if (x.ndim() == 3) return squeeze(conv_transpose2d(unsqueeze(x, 0), weight, bias, options), 0);
  const detail::ConvolutionSpec spec{kName, options.stride, options.padding, options.dilation,
                                     options.groups};
  const core::Checked outputs =
      core::Checked{kName, weight.ndim() == 4 ? weight.size(1) : 0} * options.groups;
  detail::check_operands(spec, x, weight, bias, outputs.value);
  check(x.size(1) == weight.size(0) && x.size(1) % options.groups == 0, kName, ": x ", x.shape(),
        " does not fit weight ", weight.shape(), " with groups = ", options.groups,
        "; weight is [C, O / groups, KH, KW]");
  detail::Geometry geometry{detail::window_of(spec, weight), options.groups, x.shape(),
                            weight.shape(), x.shape()};
  geometry.x[1] = outputs.value;
  for (int i = 0; i < 2; ++i) {
    core::Window& window = geometry.window;
    const int64_t extra = options.output_padding[static_cast<size_t>(i)];
    check(extra >= 0 && (extra < window.stride[i] || extra < window.dilation[i]), kName,
          ": output_padding ", extra, " must be smaller than stride or dilation");
    const core::Checked moved = core::Checked{kName, x.size(2 + i) - 1} * window.stride[i];
    const int64_t padded = (moved + detail::window_reach(kName, window, i) + extra).value;
    geometry.x[2 + i] =
        (core::Checked{kName, padded} - window.padding[i] - window.padding[i]).value;
    // Beyond the last place that y has; columns have no more places than y.
    geometry.window.surplus[i] = extra;
    const auto axis = static_cast<size_t>(i);
    const bool cut_off = geometry.x[2 + i] == 0 && options.padding[axis] > 0;
    check(geometry.x[2 + i] > 0 || cut_off, kName, ": the output would be empty: x ", x.shape(),
          ", weight ", weight.shape());
    if (cut_off) {  // nothing of an output that is there, so that gradients are zeros
      ConvTranspose2dOptions larger = options;
      --larger.padding[axis];
      return slice(conv_transpose2d(x, weight, bias, larger), 2 + i, 0, 0);
    }
    detail::bound_steps(kName, window, i, padded);
  }
  if (!bias.defined()) return detail::record_transposed(geometry, {x, weight});
  if (bias.dtype() == x.dtype()) return detail::record_transposed(geometry, {x, weight, bias});
  if (detail::any_half(x, bias)) {
    return detail::in_float32(kName, {x, weight, bias}, [=](const auto& in) {
      return conv_transpose2d(in[0], in[1], in[2], options);
    });
  }
  return detail::add_channel_bias(detail::record_transposed(geometry, {x, weight}), bias);
}

}  // namespace hero
