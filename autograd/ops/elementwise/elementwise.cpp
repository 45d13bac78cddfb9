// Elementwise operations of one input: the derivative beside each, in tensor operations.
#include <cmath>
#include <numbers>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/map_op.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/number.h>
#include <hero/autograd/ops/elementwise/clamp.h>

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
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * sign(x); })};
  }
};
struct Exp : Map<k::Exp, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return dy * y; })};
  }
};
struct Exp2 : Map<k::Exp2, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return dy * y * kLn2; })};
  }
};
// Of y + 1 little is left where y is near -1, and in half precision nothing.
struct Expm1 : Map<k::Expm1, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * exp(x); })};
  }
};
struct Log : Map<k::Log, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / x; })};
  }
};
struct Log2 : Map<k::Log2, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / (x * kLn2); })};
  }
};
struct Log1p : Map<k::Log1p, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / (x + 1); })};
  }
};
struct Sqrt : Map<k::Sqrt, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return dy / (y * 2); })};
  }
};
struct Rsqrt : Map<k::Rsqrt, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return dy * (y * square(y)) * -0.5; })};
  }
};
// 2x first, then times g: the rounding on which the printed step counts of tutorial 05 rest.
struct Square : Map<k::Square, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * (x * 2); })};
  }
};
struct Reciprocal : Map<k::Reciprocal, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return -dy * square(y); })};
  }
};
struct Sin : Map<k::Sin, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * cos(x); })};
  }
};
struct Cos : Map<k::Cos, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return -dy * sin(x); })};
  }
};
struct Tan : Map<k::Tan, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return dy * (square(y) + 1); })};
  }
};
struct Atan : Map<k::Atan, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / (square(x) + 1); })};
  }
};
struct Sinh : Map<k::Sinh, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * cosh(x); })};
  }
};
struct Cosh : Map<k::Cosh, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * sinh(x); })};
  }
};
// Where nothing is recorded, the derivatives of the usual activations run as one pass.
template <class F, class... Numbers>
Grads in_one_pass(const Tensor& g, const Tensor& saved, Numbers... numbers) {
  return {Tensor(core::map<F>(g.array(), saved.array(), Scalar(numbers)...))};
}
struct Tanh : Map<k::Tanh, Save::output> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::TanhBackward>(g, output());
    return {derived(g, output(), [](Term dy, Term y) { return dy * (1.0 - square(y)); })};
  }
};
struct Sigmoid : Map<k::Sigmoid, Save::output> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::SigmoidBackward>(g, output());
    return {derived(g, output(), [](Term dy, Term y) { return dy * (y * (1.0 - y)); })};
  }
};
struct LogSigmoid : Map<k::LogSigmoid, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * sigmoid(-x); })};
  }
};
struct Erf : Map<k::Erf, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0),
                    [](Term dy, Term x) { return dy * exp(-square(x)) * kTwoOverRootPi; })};
  }
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
    return {derived(g, input(0), [](Term dy, Term x) {
      const Term s = sigmoid(x);
      return dy * (s * (x * (1.0 - s) + 1));
    })};
  }
};
struct Mish : Map<k::Mish, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) {
      const Term t = tanh(softplus(x, 1.0, 20.0));
      return dy * (t + x * sigmoid(x) * (1.0 - square(t)));
    })};
  }
};
// [snippet: op]
struct Softsign : Map<k::Softsign, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / square(abs(x) + 1); })};
  }
};
// [end]
struct Hardswish : Map<k::Hardswish, Save::input> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::HardswishBackward>(g, input(0));
    return {derived(g, input(0), [](Term dy, Term x) {
      return dy * where(x <= -3, 0, where(x < 3, x / 3.0 + 0.5, 1));
    })};
  }
};
// x Phi(x); its derivative is Phi(x) + x phi(x).
struct GeluErf : Map<k::Gelu, Save::input> {
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
struct GeluTanh : Map<k::GeluTanh, Save::input> {
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
  static constexpr unsigned kSaveInputs = 1;
  double beta, threshold;
  Softplus(double b, double t) : beta(b), threshold(t) {}
  const char* name() const override { return "softplus"; }
  Array forward(const Array& x) {
    if (beta != 1.0) return core::map<k::Softplus>(x, Scalar(beta), Scalar(threshold));
    // The same bits, without a division by beta.
    core::Formula formula;
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
    const DType dtype = input(0).dtype();
    return {derived(g, input(0), [&](Term dy, Term x) {
      const Term below = has_high ? where(x < detail::as_element(high, dtype), dy, 0) : dy;
      return has_low ? where(x > detail::as_element(low, dtype), below, 0) : below;
    })};
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
Tensor gelu(const Tensor& x, Gelu approximate) {
  const detail::Named named("gelu", {"x", x});
  return approximate == Gelu::erf ? record(GeluErf{}, x) : record(GeluTanh{}, x);
}
Tensor softplus(const Tensor& x, double beta, double threshold) {
  return record(Softplus(beta, threshold), x);
}
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  const detail::Named named("clamp", {"x", x});
  const detail::Bounds bounds = detail::clamp_bounds("clamp", x.dtype(), low, high);
  return record(Clamp(bounds, low.has_value(), high.has_value()), x);
}

}  // namespace hero
