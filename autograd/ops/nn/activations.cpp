// Activations. A NaN stays NaN, and its gradient is passed on; the gradient at a kink is PyTorch's.
// Half precision is rounded once, see [note: formulas].
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/elementwise_op.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/number.h>
#include <hero/autograd/ops/detail/part_of_batch.h>

namespace hero {

namespace {

namespace k = core::kernels;

const double kInvRootTwoPi = 1.0 / std::sqrt(2.0 * std::numbers::pi);

// A bound or value for integers: its whole part, within what 64 bits hold.
Scalar whole(double number) { return static_cast<int64_t>(std::clamp(number, -0x1p62, 0x1p62)); }

// A function of the input alone and its derivative, with up to two parameters: `value(x, a, b)` and
// `gradient(dy, x, a, b)`.
struct Curve : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  const char* op;
  Term (*value)(Term x, double a, double b);
  Term (*gradient)(Term dy, Term x, double a, double b);
  double a, b;
  Curve(const char* n, decltype(value) v, decltype(gradient) g, double first = 0.0,
        double second = 0.0)
      : op(n), value(v), gradient(g), a(first), b(second) {}
  const char* name() const override { return op; }
  Array forward(const Array& x) {
    core::FusedExpression f(name());
    return f.run(value(f(x), a, b));
  }
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [this](Term dy, Term x) { return gradient(dy, x, a, b); })};
  }
};

Term zero_within(Term dy, Term x, double bound, double) { return where(abs(x) <= bound, 0, dy); }

struct LogSigmoid : ElementwiseOp<k::LogSigmoid, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * sigmoid(-x); })};
  }
};
struct Relu : ElementwiseOp<k::Relu, AutocastRule::fallthrough, Save::output> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled() && is_floating(g.dtype())) return in_one_pass<k::ReluBackward>(g, output());
    return {where(output() <= 0, 0, g)};
  }
};
struct Silu : ElementwiseOp<k::Silu, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::SiluBackward>(g, input(0));
    return {derived(g, input(0), [](Term dy, Term x) {
      const Term s = sigmoid(x);
      return dy * (s * (x * (1.0 - s) + 1));
    })};
  }
};
struct Mish : ElementwiseOp<k::Mish, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) {
      const Term t = tanh(softplus(x, 1.0, 20.0));
      return dy * (t + x * sigmoid(x) * (1.0 - square(t)));
    })};
  }
};
// [snippet: op]
struct Softsign : ElementwiseOp<k::Softsign, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / square(abs(x) + 1); })};
  }
};
// [end]
struct Hardswish : ElementwiseOp<k::Hardswish, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::HardswishBackward>(g, input(0));
    return {derived(g, input(0), [](Term dy, Term x) {
      return dy * where(x <= -3, 0, where(x < 3, x / 3.0 + 0.5, 1));
    })};
  }
};
// x Phi(x); its derivative is Phi(x) + x phi(x).
struct GeluErf : ElementwiseOp<k::Gelu, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::GeluBackward>(g, input(0));
    return {derived(g, input(0), [](Term dy, Term x) {
      const Term cdf = erf(x * std::numbers::sqrt2 / 2.0) * 0.5 + 0.5;
      const Term density = exp(square(x) * -0.5) * kInvRootTwoPi;
      return dy * (cdf + x * density);
    })};
  }
};
// x s(2u) with u = a (x + b x^3) and s the logistic function; s' = s (1 - s).
struct GeluTanh : ElementwiseOp<k::GeluTanh, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::GeluTanhBackward>(g, input(0));
    return {derived(g, input(0), [](Term dy, Term x) {
      const double a = std::sqrt(2.0 / std::numbers::pi);
      const double b = 0.044715;
      const Term x2 = square(x);
      const Term s = sigmoid(x * (x2 * b + 1) * (2.0 * a));
      const Term slope = (x2 * (3.0 * b) + 1) * (2.0 * a);
      return dy * (s * (x * (1.0 - s) * slope + 1));
    })};
  }
};
struct LeakyRelu : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  double slope;
  explicit LeakyRelu(double s) : slope(s) {}
  const char* name() const override { return "leaky_relu"; }
  Array forward(const Array& x) { return core::map<k::LeakyRelu>(x, Scalar(slope)); }
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::LeakyReluBackward>(g, input(0), slope);
    return {derived(g, input(0), [this](Term dy, Term x) { return where(x > 0, dy, dy * slope); })};
  }
};
struct Elu : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  double alpha;
  explicit Elu(double a) : alpha(a) {}
  const char* name() const override { return "elu"; }
  Array forward(const Array& x) { return core::map<k::Elu>(x, Scalar(alpha)); }
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::EluBackward>(g, input(0), alpha);
    return {derived(g, input(0), [this](Term dy, Term x) {
      // On the border the second derivative is 0, as in PyTorch.
      const Term below = exp(where(x < 0, x, 0)) * alpha;
      return where(x <= 0, dy * below, dy);
    })};
  }
};
struct Softplus : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 1;
  double beta, threshold;
  Softplus(double b, double t) : beta(b), threshold(t) {}
  const char* name() const override { return "softplus"; }
  Array forward(const Array& x) {
    if (beta != 1.0) return core::map<k::Softplus>(x, Scalar(beta), Scalar(threshold));
    // The same bits, without a division by beta.
    core::FusedExpression formula;
    const Term t = formula(x);
    return formula.run(where(t > threshold, t, -logsigmoid(-t)));
  }
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::SoftplusBackward>(g, input(0), beta, threshold);
    return {derived(g, input(0), [this](Term dy, Term x) {
      const Term scaled = beta == 1.0 ? x : x * beta;
      // On the border the second derivative is 0, as in PyTorch.
      const Term below = sigmoid(where(scaled >= threshold, threshold, scaled));
      return where(scaled > threshold, dy, dy * below);
    })};
  }
};

}  // namespace

Tensor relu(const Tensor& x) { return record(Relu{}, x); }
Tensor leaky_relu(const Tensor& x, double slope) { return record(LeakyRelu(slope), x); }
Tensor elu(const Tensor& x, double alpha) { return record(Elu(alpha), x); }
Tensor gelu(const Tensor& x, Gelu approximate) {
  const detail::Named named("gelu", {"x", x});
  return approximate == Gelu::erf ? record(GeluErf{}, x) : record(GeluTanh{}, x);
}
Tensor silu(const Tensor& x) { return record(Silu{}, x); }
Tensor mish(const Tensor& x) { return record(Mish{}, x); }
Tensor softplus(const Tensor& x, double beta, double threshold) {
  return record(Softplus(beta, threshold), x);
}
Tensor softsign(const Tensor& x) { return record(Softsign{}, x); }
Tensor hardswish(const Tensor& x) { return record(Hardswish{}, x); }
Tensor logsigmoid(const Tensor& x) { return record(LogSigmoid{}, x); }
// Scale and alpha for which mean 0 and variance 1 are a fixed point.
Tensor selu(const Tensor& x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  const auto value = [](Term t, double, double) { return core::term<k::Elu>(t, kAlpha) * kScale; };
  const auto gradient = [](Term dy, Term t, double, double) {
    if (!grad_enabled()) return core::term<k::EluBackward>(dy * kScale, t, kAlpha);
    // On the border the second derivative is 0, as in PyTorch.
    const Term scaled = dy * kScale, below = exp(where(t < 0, t, 0)) * kAlpha;
    return where(t <= 0, scaled * below, scaled);
  };
  return record(Curve("selu", value, gradient), x);
}

Tensor celu(const Tensor& x, double alpha) {
  check(alpha != 0.0, "celu: alpha must not be 0");
  const auto value = [](Term t, double a, double inverse) {
    return where(t < 0, expm1(t * inverse) * a, t);
  };
  // At 0 both pieces have the same slope, and the second derivative is 0, as in PyTorch. The
  // exponent stays below 0, so that what is not taken does not overflow.
  const auto gradient = [](Term dy, Term t, double, double inverse) {
    return where(t < 0, dy * exp(where(t < 0, t, 0) * inverse), dy);
  };
  return record(Curve("celu", value, gradient, alpha, 1.0 / alpha), x);
}

Tensor hardsigmoid(const Tensor& x) {
  const auto value = [](Term t, double, double) { return clamp(t + 3, 0, 6) / 6; };
  const auto gradient = [](Term dy, Term t, double, double) {
    if (!grad_enabled()) return core::term<k::HardtanhBackward>(dy / 6, t, -3.0, 3.0);
    return where(t <= -3, 0, where(t >= 3, 0, dy / 6));
  };
  return record(Curve("hardsigmoid", value, gradient), x);
}

// The gradient of NaN goes through, unlike clamp's.
Tensor hardtanh(const Tensor& x, double low, double high) {
  const detail::Named named("hardtanh", {"x", x});
  detail::check_defined("hardtanh", {{"x", x}});
  check(low <= high, "hardtanh: min_val ", low, " is above max_val ", high);
  // Integers stay integers; the bounds lose their fractions, as in PyTorch.
  if (!is_floating(x.dtype())) return clamp(x, whole(low), whole(high));
  const auto value = [](Term t, double a, double b) {
    const Term held = clamp(t, a, b);
    return a == 0.0 || b == 0.0 ? held + 0.0 : held;  // -0 is a bound of 0, too
  };
  const auto gradient = [](Term dy, Term t, double a, double b) {
    if (!grad_enabled()) return core::term<k::HardtanhBackward>(dy, t, a, b);
    return where(t <= a, 0, where(t >= b, 0, dy));
  };
  return record(Curve("hardtanh", value, gradient, detail::as_element(low, x.dtype()),
                      detail::as_element(high, x.dtype())),
                x);
}

Tensor relu6(const Tensor& x) {
  const detail::Named named("relu6", {"x", x});
  return hardtanh(x, 0.0, 6.0);
}

Tensor tanhshrink(const Tensor& x) {
  const auto value = [](Term t, double, double) { return t - tanh(t); };
  const auto gradient = [](Term dy, Term t, double, double) { return dy * square(tanh(t)); };
  return record(Curve("tanhshrink", value, gradient), x);
}

Tensor softshrink(const Tensor& x, double lambda) {
  check(lambda >= 0.0, "softshrink: lambda must not be negative: ", lambda);
  const auto value = [](Term t, double bound, double) {
    if (std::isinf(bound)) return where(abs(t) <= bound, 0, t);
    return t - clamp(t, -bound, bound);
  };
  return record(Curve("softshrink", value, zero_within, lambda), x);
}

Tensor hardshrink(const Tensor& x, double lambda) {
  const detail::Named named("hardshrink", {"x", x});
  detail::check_defined("hardshrink", {{"x", x}});
  if (!is_floating(x.dtype())) return where(abs(x) <= lambda, 0, x);
  const auto value = [](Term t, double bound, double) { return where(abs(t) <= bound, 0, t); };
  return record(Curve("hardshrink", value, zero_within, detail::as_element(lambda, x.dtype())), x);
}

Tensor threshold(const Tensor& x, double threshold, double value) {
  const detail::Named named("threshold", {"x", x});
  detail::check_defined("threshold", {{"x", x}});
  if (!is_floating(x.dtype())) {
    return where(x <= whole(threshold), whole(value), x);
  }
  const auto above = [](Term t, double bound, double below) { return where(t <= bound, below, t); };
  const auto gradient = [](Term dy, Term t, double bound, double) {
    return where(t <= bound, 0, dy);
  };
  return record(
      Curve("threshold", above, gradient, detail::as_element(threshold, x.dtype()), value), x);
}

namespace {

// x, slope: elements above 0 are no factor of the slope's gradient, nor the slope one of theirs,
// even where they are infinite.
struct Prelu : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b11;
  const char* name() const override { return "prelu"; }
  Array forward(const Array& x, const Array& slope) {
    core::FusedExpression f(name());
    const Term t = f(x);
    return f.run(where(t > 0, t, t * f(slope)));
  }
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), t = f(input(0));
    return f.run({{needs(0), where(t > 0, dy, where(t > 0, 0, dy) * f(input(1)))},
                  {needs(1), where(t > 0, 0, dy * where(t > 0, 0, t))}});
  }
};

// The first half of x times the sigmoid of the second.
struct Glu : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  int axis;
  explicit Glu(int a) : axis(a) {}
  const char* name() const override { return "glu"; }
  Array forward(const Array& x) {
    const int64_t half = x.size(axis) / 2;
    core::FusedExpression f;
    return f.run(f(x.slice(axis, 0, half)) * sigmoid(f(x.slice(axis, half, 2 * half))));
  }
  Grads backward(const Tensor& g) override {
    const Tensor x = input(0);
    const int64_t half = x.size(axis) / 2;
    FusedExpression f;
    const Term dy = f(g), a = f(slice(x, axis, 0, half));
    const Term s = sigmoid(f(slice(x, axis, half, 2 * half)));
    const Term to_a = dy * s, to_b = dy * a * (s * (1.0 - s));
    if (grad_enabled()) return {cat({f.run(to_a), f.run(to_b)}, axis)};
    const Array both = Array::empty(x.shape(), x.dtype(), x.device());
    Array halves[] = {both.slice(axis, 0, half), both.slice(axis, half, 2 * half)};
    f.run_into(std::array{to_a, to_b}, halves);
    return {Tensor(both)};
  }
};

}  // namespace

Tensor prelu(const Tensor& x, const Tensor& weight) {
  detail::check_defined("prelu", {{"x", x}, {"weight", weight}});
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
  return record(Prelu{}, x, slope);
}

Tensor glu(const Tensor& x, int64_t dim) {
  const detail::Named named("glu", {"x", x});
  detail::check_defined("glu", {{"x", x}});
  const int axis = normalize_dim("glu", dim, x.ndim());
  check(x.size(axis) % 2 == 0, "glu: size ", x.size(axis), " of dimension ", dim,
        " does not halve: x has shape ", x.shape());
  return record(Glu(axis), x);
}

Tensor softmin(const Tensor& x, int64_t dim) {
  const detail::Named named("softmin", {"x", x});
  return softmax(-x, dim);
}

Tensor rrelu(const Tensor& x, double lower, double upper, bool training) {
  detail::check_defined("rrelu", {{"x", x}});
  check(lower <= upper, "rrelu: lower ", lower, " is above upper ", upper);
  check(is_floating(x.dtype()), "rrelu: x is ", x.dtype(), "; it must be floating");
  if (!training) return leaky_relu(x, (lower + upper) / 2.0);
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  return where(x <= 0, x * (detail::rand_of_part(x.shape(), like) * (upper - lower) + lower), x);
}

}  // namespace hero
