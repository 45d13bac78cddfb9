// What conv2d and conv_transpose2d ask of their operands.
#include <hero/autograd/ops/windows/conv_maps.h>

namespace hero::detail {

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

}  // namespace hero::detail
