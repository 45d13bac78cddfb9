// Activations composed of other operations. Each keeps NaN and lets a gradient through there; its
// gradient where pieces meet is PyTorch's. Of halves each is one operation, see [note: rounded
// once].
#include <algorithm>

#include <hero/autograd/nn_ops.h>
#include <hero/autograd/ops/defined.h>
#include <hero/autograd/ops/in_float32.h>
#include <hero/autograd/ops/named.h>

namespace hero {

using detail::any_half, detail::in_float32;
namespace {

// A bound or value for integers: its whole part, within what 64 bits hold.
Scalar whole(double number) { return static_cast<int64_t>(std::clamp(number, -0x1p62, 0x1p62)); }

}  // namespace

// Scale and alpha for which mean 0 and variance 1 are a fixed point.
Tensor selu(const Tensor& x) {
  detail::check_defined("selu", {{"x", x}});
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  if (any_half(x)) {
    return in_float32("selu", {x}, [](const auto& in) { return selu(in[0]); });
  }
  return elu(x, kAlpha) * kScale;
}

Tensor celu(const Tensor& x, double alpha) {
  detail::check_defined("celu", {{"x", x}});
  check(alpha != 0.0, "celu: alpha must not be 0");
  if (any_half(x)) {
    return in_float32("celu", {x}, [=](const auto& in) { return celu(in[0], alpha); });
  }
  // The exponent stays below 0, so that the branch not taken neither overflows nor is NaN. At 0
  // both have the same slope, and the second derivative is 0, as in PyTorch.
  const Tensor is_below = x < 0;
  const Tensor below = expm1(where(is_below, x, 0) * (1.0 / alpha)) * alpha;
  return where(is_below, below, x);
}

Tensor hardsigmoid(const Tensor& x) {
  detail::check_defined("hardsigmoid", {{"x", x}});
  if (any_half(x)) {
    return in_float32("hardsigmoid", {x}, [](const auto& in) { return hardsigmoid(in[0]); });
  }
  return relu6(x + 3) / 6;
}

Tensor hardtanh(const Tensor& x, double low, double high) try {
  detail::check_defined("hardtanh", {{"x", x}});
  check(low <= high, "hardtanh: min_val ", low, " is above max_val ", high);
  if (!is_floating(x.dtype())) {
    // Integers stay integers; the bounds lose their fractions, as in PyTorch.
    return clamp(x, whole(low), whole(high));
  }
  return where(x <= low, low, where(x >= high, high, x));
} catch (const Error& error) {
  detail::name_op(error, "hardtanh", {{"x", x}});
}

Tensor tanhshrink(const Tensor& x) {
  detail::check_defined("tanhshrink", {{"x", x}});
  if (any_half(x)) {
    return in_float32("tanhshrink", {x}, [](const auto& in) { return tanhshrink(in[0]); });
  }
  return x - tanh(x);
}

Tensor softshrink(const Tensor& x, double lambda) {
  detail::check_defined("softshrink", {{"x", x}});
  check(lambda >= 0.0, "softshrink: lambda must not be negative: ", lambda);
  if (any_half(x)) {
    return in_float32("softshrink", {x}, [=](const auto& in) { return softshrink(in[0], lambda); });
  }
  return where(abs(x) <= lambda, 0, x - sign(x) * lambda);
}

Tensor hardshrink(const Tensor& x, double lambda) try {
  return where(abs(x) <= lambda, 0, x);
} catch (const Error& error) {
  detail::name_op(error, "hardshrink", {{"x", x}});
}

Tensor threshold(const Tensor& x, double threshold, double value) try {
  detail::check_defined("threshold", {{"x", x}});
  if (!is_floating(x.dtype())) {
    return where(x <= whole(threshold), whole(value), x);
  }
  return where(x <= threshold, value, x);
} catch (const Error& error) {
  detail::name_op(error, "threshold", {{"x", x}});
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  detail::check_defined("prelu", {{"x", x}, {"weight", weight}});
  if (any_half(x, weight)) {
    return in_float32("prelu", {x, weight}, [](const auto& in) { return prelu(in[0], in[1]); });
  }
  check(weight.ndim() <= 1, "prelu: weight must be [1] or [C]: got shape ", weight.shape());
  Tensor slope = weight;
  if (weight.numel() != 1) {
    const int64_t channels = x.ndim() > 1 ? x.size(1) : 1;
    check(weight.numel() == channels, "prelu: weight ", weight.shape(), " does not fit the ",
          channels, " channels of x ", x.shape());
    Shape shape = Shape::filled(x.ndim(), 1);
    shape[1] = channels;
    slope = reshape(weight, shape);
  } else if (x.ndim() == 0) {
    slope = reshape(weight, {});
  }
  // Elements above 0 are no factor of the slope's gradient, nor the slope one of theirs, even where
  // they are infinite.
  const Tensor above = x > 0;
  return where(above, x, where(above, 0, x) * slope);
}

Tensor glu(const Tensor& x, int64_t dim) try {
  detail::check_defined("glu", {{"x", x}});
  const int axis = normalize_dim("glu", dim, x.ndim());
  check(x.size(axis) % 2 == 0, "glu: size ", x.size(axis), " of dimension ", dim,
        " does not halve: x has shape ", x.shape());
  if (any_half(x)) {
    return in_float32("glu", {x}, [=](const auto& in) { return glu(in[0], dim); });
  }
  const int64_t half = x.size(axis) / 2;
  const std::vector<Tensor> halves = split(x, {half, half}, axis);
  return halves[0] * sigmoid(halves[1]);
} catch (const Error& error) {
  detail::name_op(error, "glu", {{"x", x}});
}

Tensor softmin(const Tensor& x, int64_t dim) try {
  return softmax(-x, dim);
} catch (const Error& error) {
  detail::name_op(error, "softmin", {{"x", x}});
}

}  // namespace hero
