// Activations composed of other operations. Each keeps NaN, and its gradient where pieces meet is
// PyTorch's.
#include <algorithm>

#include <hero/autograd/nn_ops.h>

namespace hero {

namespace {

// A bound or value for integers: its whole part, within what 64 bits hold.
Scalar whole(double number) { return static_cast<int64_t>(std::clamp(number, -0x1p62, 0x1p62)); }

}  // namespace

// Scale and alpha for which mean 0 and variance 1 are a fixed point.
Tensor selu(const Tensor& x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return elu(x, kAlpha) * kScale;
}

Tensor celu(const Tensor& x, double alpha) {
  check(alpha != 0.0, "celu: alpha must not be 0");
  // The exponent stays below 0, so that the branch not taken does not overflow.
  const Tensor below = expm1(clamp(x, {}, 0.0) * (1.0 / alpha)) * alpha;
  return where(x > 0, x, below);
}

Tensor hardsigmoid(const Tensor& x) { return relu6(x + 3) / 6; }

Tensor hardtanh(const Tensor& x, double low, double high) {
  check(low <= high, "hardtanh: min_val ", low, " is above max_val ", high);
  if (!is_floating(x.dtype())) {
    // Integers stay integers; the bounds lose their fractions, as in PyTorch.
    return clamp(x, whole(low), whole(high));
  }
  return where(x <= low, low, where(x >= high, high, x));
}

Tensor tanhshrink(const Tensor& x) { return x - tanh(x); }

Tensor softshrink(const Tensor& x, double lambda) {
  check(lambda >= 0.0, "softshrink: lambda must not be negative: ", lambda);
  return where(abs(x) > lambda, x - sign(x) * lambda, x * 0);
}

Tensor hardshrink(const Tensor& x, double lambda) { return where(abs(x) <= lambda, 0, x); }

Tensor threshold(const Tensor& x, double threshold, double value) {
  if (!is_floating(x.dtype())) {
    return where(x <= whole(threshold), whole(value), x);
  }
  return where(x <= threshold, value, x);
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
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
  return where(x > 0, x, x * slope);
}

Tensor glu(const Tensor& x, int64_t dim) {
  const int axis = normalize_dim("glu", dim, x.ndim());
  check(x.size(axis) % 2 == 0, "glu: size ", x.size(axis), " of dimension ", dim,
        " does not halve: x has shape ", x.shape());
  const std::vector<Tensor> halves = split(x, x.size(axis) / 2, axis);
  return halves[0] * sigmoid(halves[1]);
}

Tensor softmin(const Tensor& x, int64_t dim) { return softmax(-x, dim); }

}  // namespace hero
