// Elementwise operations of one input: the derivative beside each, in tensor operations.
#include <cmath>
#include <numbers>

#include <hero/autograd/creation.h>
#include <hero/autograd/ops/defined.h>
#include <hero/autograd/ops/map_op.h>
#include <hero/autograd/ops/math/clamp.h>
#include <hero/autograd/ops/named.h>

namespace hero {

namespace k = core::kernels;

namespace {

// Mathematical constants of the derivatives.
const double kLn2 = std::numbers::ln2;
const double kTwoOverRootPi = 2.0 / std::sqrt(std::numbers::pi);
const double kInvRootTwoPi = 1.0 / std::sqrt(2.0 * std::numbers::pi);

struct Neg : Map<k::Neg> {
  Grads backward(const Tensor& g) override { return {-g}; }
};
struct Abs : Map<k::Abs, Save::input> {
  Grads backward(const Tensor& g) override { return {g * sign(x())}; }
};
struct Exp : Map<k::Exp, Save::output> {
  Grads backward(const Tensor& g) override { return {g * y()}; }
};
struct Exp2 : Map<k::Exp2, Save::output> {
  Grads backward(const Tensor& g) override { return {g * y() * kLn2}; }
};
// Of y + 1 little is left where y is near -1, and in half precision nothing.
struct Expm1 : Map<k::Expm1, Save::input> {
  Grads backward(const Tensor& g) override { return {g * exp(x())}; }
};
struct Log : Map<k::Log, Save::input> {
  Grads backward(const Tensor& g) override { return {g / x()}; }
};
struct Log2 : Map<k::Log2, Save::input> {
  Grads backward(const Tensor& g) override { return {g / (x() * kLn2)}; }
};
struct Log1p : Map<k::Log1p, Save::input> {
  Grads backward(const Tensor& g) override { return {g / (x() + 1)}; }
};
struct Sqrt : Map<k::Sqrt, Save::output> {
  Grads backward(const Tensor& g) override { return {g / (y() * 2)}; }
};
struct Rsqrt : Map<k::Rsqrt, Save::output> {
  Grads backward(const Tensor& g) override { return {g * (y() * square(y())) * -0.5}; }
};
// 2x first, then times g: the rounding on which the printed step counts of tutorial 05 rest.
struct Square : Map<k::Square, Save::input> {
  Grads backward(const Tensor& g) override { return {g * (x() * 2)}; }
};
struct Reciprocal : Map<k::Reciprocal, Save::output> {
  Grads backward(const Tensor& g) override { return {-g * square(y())}; }
};
struct Sin : Map<k::Sin, Save::input> {
  Grads backward(const Tensor& g) override { return {g * cos(x())}; }
};
struct Cos : Map<k::Cos, Save::input> {
  Grads backward(const Tensor& g) override { return {-g * sin(x())}; }
};
struct Tan : Map<k::Tan, Save::output> {
  Grads backward(const Tensor& g) override { return {g * (square(y()) + 1)}; }
};
struct Atan : Map<k::Atan, Save::input> {
  Grads backward(const Tensor& g) override { return {g / (square(x()) + 1)}; }
};
struct Sinh : Map<k::Sinh, Save::input> {
  Grads backward(const Tensor& g) override { return {g * cosh(x())}; }
};
struct Cosh : Map<k::Cosh, Save::input> {
  Grads backward(const Tensor& g) override { return {g * sinh(x())}; }
};
// Where nothing is recorded, the derivatives of the usual activations run as one pass.
template <class F>
Grads in_one_pass(const Tensor& g, const Tensor& saved) {
  return {Tensor(core::map<F>(g.array(), saved.array()))};
}
struct Tanh : Map<k::Tanh, Save::output> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::TanhBackward>(g, output());
    return {g * (1.0 - square(y()))};
  }
};
struct Sigmoid : Map<k::Sigmoid, Save::output> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::SigmoidBackward>(g, output());
    return {g * (y() * (1.0 - y()))};
  }
};
struct LogSigmoid : Map<k::LogSigmoid, Save::input> {
  Grads backward(const Tensor& g) override { return {g * sigmoid(-x())}; }
};
struct Erf : Map<k::Erf, Save::input> {
  Grads backward(const Tensor& g) override { return {g * exp(-square(x())) * kTwoOverRootPi}; }
};
struct Relu : Map<k::Relu, Save::output> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled() && is_floating(g.dtype())) return in_one_pass<k::ReluBackward>(g, output());
    return {where(output() <= 0, 0, g)};
  }
};
struct Silu : Map<k::Silu, Save::input> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::SiluBackward>(g, input(0));
    const Tensor s = sigmoid(x());
    return {g * (s * (x() * (1.0 - s) + 1))};
  }
};
struct Mish : Map<k::Mish, Save::input> {
  Grads backward(const Tensor& g) override {
    const Tensor t = tanh(softplus(x()));
    return {g * (t + x() * sigmoid(x()) * (1.0 - square(t)))};
  }
};
// [snippet: op]
struct Softsign : Map<k::Softsign, Save::input> {
  Grads backward(const Tensor& g) override { return {g / square(abs(x()) + 1)}; }
};
// [end]
struct Hardswish : Map<k::Hardswish, Save::input> {
  Grads backward(const Tensor& g) override {
    const Tensor slope = where(x() < 3, x() / 3.0 + 0.5, 1);
    return {g * where(x() <= -3, 0, slope)};
  }
};
// x Phi(x); its derivative is Phi(x) + x phi(x).
struct GeluErf : Map<k::Gelu, Save::input> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::GeluBackward>(g, input(0));
    const Tensor cdf = erf(x() * std::numbers::sqrt2 / 2.0) * 0.5 + 0.5;
    const Tensor density = exp(square(x()) * -0.5) * kInvRootTwoPi;
    return {g * (cdf + x() * density)};
  }
};
// x s(2u) with u = a (x + b x^3) and s the logistic function; s' = s (1 - s).
struct GeluTanh : Map<k::GeluTanh, Save::input> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::GeluTanhBackward>(g, input(0));
    const double a = std::sqrt(2.0 / std::numbers::pi);
    const double b = 0.044715;
    const Tensor x2 = square(x());
    const Tensor s = sigmoid(x() * (x2 * b + 1) * (2.0 * a));
    const Tensor slope = (x2 * (3.0 * b) + 1) * (2.0 * a);
    return {g * (s * (x() * (1.0 - s) * slope + 1))};
  }
};

struct LeakyRelu : Op {
  static constexpr unsigned kSaveInputs = 1;
  double slope;
  explicit LeakyRelu(double s) : slope(s) {}
  const char* name() const override { return "leaky_relu"; }
  Array forward(const Array& x) { return core::map<k::LeakyRelu>(x, Scalar(slope)); }
  Grads backward(const Tensor& g) override { return {where(input(0) > 0, g, g * slope)}; }
};
struct Elu : Op {
  static constexpr unsigned kSaveInputs = 1;
  double alpha;
  explicit Elu(double a) : alpha(a) {}
  const char* name() const override { return "elu"; }
  Array forward(const Array& x) { return core::map<k::Elu>(x, Scalar(alpha)); }
  Grads backward(const Tensor& g) override {
    const Tensor x = detail::widened(input(0));
    // On the border the second derivative is 0, as in PyTorch.
    const Tensor below = exp(where(x < 0, x, 0)) * alpha;
    return {where(x <= 0, g * below, g)};
  }
};
struct Softplus : Op {
  static constexpr unsigned kSaveInputs = 1;
  double beta, threshold;
  Softplus(double b, double t) : beta(b), threshold(t) {}
  const char* name() const override { return "softplus"; }
  Array forward(const Array& x) {
    return core::map<k::Softplus>(x, Scalar(beta), Scalar(threshold));
  }
  Grads backward(const Tensor& g) override {
    const Tensor scaled = detail::widened(input(0)) * beta;
    // On the border the second derivative is 0, as in PyTorch.
    const Tensor below = sigmoid(where(scaled >= threshold, threshold, scaled));
    return {where(scaled > threshold, g, g * below)};
  }
};
// The gradient goes where x lies between the bounds; on one it is 0, as in PyTorch.
struct Clamp : Op {
  static constexpr unsigned kSaveInputs = 1;
  Scalar low, high;
  bool has_low, has_high;
  Clamp(const detail::Bounds& bounds, bool l, bool h)
      : low(bounds.low), high(bounds.high), has_low(l), has_high(h) {}
  const char* name() const override { return "clamp"; }
  Array forward(const Array& x) { return core::map<k::Clamp>(x, low, high); }
  Grads backward(const Tensor& g) override {
    const Tensor x = input(0);
    if (!has_high) return {where(x > low, g, 0)};
    if (!has_low) return {where(x < high, g, 0)};
    return {where(logical_and(x > low, x < high), g, 0)};
  }
};

}  // namespace

Tensor neg(const Tensor& x) { return record(Neg{}, x); }
Tensor abs(const Tensor& x) { return record(Abs{}, x); }
Tensor sign(const Tensor& x) { return record(Step<k::Sign>{}, x); }
Tensor exp(const Tensor& x) { return record(Exp{}, x); }
Tensor exp2(const Tensor& x) { return record(Exp2{}, x); }
Tensor expm1(const Tensor& x) { return record(Expm1{}, x); }
Tensor log(const Tensor& x) { return record(Log{}, x); }
Tensor log2(const Tensor& x) { return record(Log2{}, x); }
Tensor log1p(const Tensor& x) { return record(Log1p{}, x); }
Tensor sqrt(const Tensor& x) { return record(Sqrt{}, x); }
Tensor rsqrt(const Tensor& x) { return record(Rsqrt{}, x); }
Tensor square(const Tensor& x) {
  detail::check_defined("square", {{"x", x}});
  return record(Square{}, x.dtype() == kBool ? x.to(kInt64) : x);
}
Tensor reciprocal(const Tensor& x) { return record(Reciprocal{}, x); }
Tensor sin(const Tensor& x) { return record(Sin{}, x); }
Tensor cos(const Tensor& x) { return record(Cos{}, x); }
Tensor tan(const Tensor& x) { return record(Tan{}, x); }
Tensor atan(const Tensor& x) { return record(Atan{}, x); }
Tensor sinh(const Tensor& x) { return record(Sinh{}, x); }
Tensor cosh(const Tensor& x) { return record(Cosh{}, x); }
Tensor tanh(const Tensor& x) { return record(Tanh{}, x); }
Tensor sigmoid(const Tensor& x) { return record(Sigmoid{}, x); }
Tensor logsigmoid(const Tensor& x) { return record(LogSigmoid{}, x); }
Tensor erf(const Tensor& x) { return record(Erf{}, x); }
Tensor relu(const Tensor& x) { return record(Relu{}, x); }
Tensor silu(const Tensor& x) { return record(Silu{}, x); }
Tensor mish(const Tensor& x) { return record(Mish{}, x); }
Tensor softsign(const Tensor& x) { return record(Softsign{}, x); }
Tensor hardswish(const Tensor& x) { return record(Hardswish{}, x); }
Tensor floor(const Tensor& x) { return record(Step<k::Floor>{}, x); }
Tensor ceil(const Tensor& x) { return record(Step<k::Ceil>{}, x); }
Tensor round(const Tensor& x) {
  detail::check_defined("round", {{"x", x}});
  return record(Step<k::Round>{}, x);
}
Tensor leaky_relu(const Tensor& x, double slope) { return record(LeakyRelu(slope), x); }
Tensor elu(const Tensor& x, double alpha) { return record(Elu(alpha), x); }
Tensor gelu(const Tensor& x, Gelu approximate) try {
  return approximate == Gelu::erf ? record(GeluErf{}, x) : record(GeluTanh{}, x);
} catch (const Error& error) {
  detail::name_op(error, "gelu", {{"x", x}});
}
Tensor softplus(const Tensor& x, double beta, double threshold) {
  return record(Softplus(beta, threshold), x);
}
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) try {
  const detail::Bounds bounds = detail::clamp_bounds("clamp", x.dtype(), low, high);
  return record(Clamp(bounds, low.has_value(), high.has_value()), x);
} catch (const Error& error) {
  detail::name_op(error, "clamp", {{"x", x}});
}
// The gradient of NaN goes through, unlike clamp's.
Tensor relu6(const Tensor& x) try { return where(x >= 6, 6, relu(x)); } catch (const Error& error) {
  detail::name_op(error, "relu6", {{"x", x}});
}

}  // namespace hero
