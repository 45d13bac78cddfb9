// Elementwise operations of one input: the derivative beside each, in tensor operations.
#include <cmath>
#include <limits>
#include <numbers>

#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/elementwise_op.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/number.h>
#include <hero/autograd/ops/elementwise/clamp.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/elementwise/special.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/core/array/promotion.h>
#include <hero/core/error.h>

namespace hero {

namespace k = core::kernels;

namespace {

// Mathematical constants of the derivatives.
const double kLn2 = std::numbers::ln2;
const double kTwoOverRootPi = 2.0 / std::sqrt(std::numbers::pi);

struct Neg : ElementwiseOp<k::Neg, AutocastRule::fallthrough> {
  Grads backward(const Tensor& g) override { return {-g}; }
};
struct Abs : ElementwiseOp<k::Abs, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * sign(x); })};
  }
};
struct Exp : ElementwiseOp<k::Exp, AutocastRule::float32, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return dy * y; })};
  }
};
struct Exp2 : ElementwiseOp<k::Exp2, AutocastRule::float32, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return dy * y * kLn2; })};
  }
};
// Of y + 1 little is left where y is near -1, and in half precision nothing.
struct Expm1 : ElementwiseOp<k::Expm1, AutocastRule::float32, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * exp(x); })};
  }
};
struct Log : ElementwiseOp<k::Log, AutocastRule::float32, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / x; })};
  }
};
struct Log2 : ElementwiseOp<k::Log2, AutocastRule::float32, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / (x * kLn2); })};
  }
};
struct Log1p : ElementwiseOp<k::Log1p, AutocastRule::float32, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / (x + 1); })};
  }
};
struct Sqrt : ElementwiseOp<k::Sqrt, AutocastRule::fallthrough, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return dy / (y * 2); })};
  }
};
struct Rsqrt : ElementwiseOp<k::Rsqrt, AutocastRule::float32, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return dy * (y * square(y)) * -0.5; })};
  }
};
// 2x first, then times g: the rounding on which the printed step counts of tutorial 05 rest.
struct Square : ElementwiseOp<k::Square, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * (x * 2); })};
  }
};
struct Reciprocal : ElementwiseOp<k::Reciprocal, AutocastRule::float32, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return -dy * square(y); })};
  }
};
struct Sin : ElementwiseOp<k::Sin, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * cos(x); })};
  }
};
struct Cos : ElementwiseOp<k::Cos, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return -dy * sin(x); })};
  }
};
struct Tan : ElementwiseOp<k::Tan, AutocastRule::float32, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(), [](Term dy, Term y) { return dy * (square(y) + 1); })};
  }
};
struct Atan : ElementwiseOp<k::Atan, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / (square(x) + 1); })};
  }
};
struct Sinh : ElementwiseOp<k::Sinh, AutocastRule::float32, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * cosh(x); })};
  }
};
struct Cosh : ElementwiseOp<k::Cosh, AutocastRule::float32, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * sinh(x); })};
  }
};
struct Tanh : ElementwiseOp<k::Tanh, AutocastRule::fallthrough, Save::output> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::TanhBackward>(g, output());
    return {derived(g, output(), [](Term dy, Term y) { return dy * (1.0 - square(y)); })};
  }
};
struct Sigmoid : ElementwiseOp<k::Sigmoid, AutocastRule::fallthrough, Save::output> {
  Grads backward(const Tensor& g) override {
    if (!grad_enabled()) return in_one_pass<k::SigmoidBackward>(g, output());
    return {derived(g, output(), [](Term dy, Term y) { return dy * (y * (1.0 - y)); })};
  }
};
struct Erf : ElementwiseOp<k::Erf, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0),
                    [](Term dy, Term x) { return dy * exp(-square(x)) * kTwoOverRootPi; })};
  }
};

// The gradient goes where x lies between the bounds; on one it is 0, as in PyTorch.
struct Clamp : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
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
Tensor sign(const Tensor& x) { return record(PiecewiseConstant<k::Sign>{}, x); }
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
Tensor erf(const Tensor& x) { return record(Erf{}, x); }
Tensor floor(const Tensor& x) { return record(PiecewiseConstant<k::Floor>{}, x); }
Tensor ceil(const Tensor& x) { return record(PiecewiseConstant<k::Ceil>{}, x); }
Tensor round(const Tensor& x) {
  detail::check_defined("round", {{"x", x}});
  return record(PiecewiseConstant<k::Round>{}, x);
}
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  const detail::Named named("clamp", {"x", x});
  const detail::Bounds bounds = detail::clamp_bounds("clamp", x.dtype(), low, high);
  return record(Clamp(bounds, low.has_value(), high.has_value()), x);
}

namespace detail {

Bounds clamp_bounds(const char* op, DType dtype, std::optional<Scalar> low,
                    std::optional<Scalar> high) {
  check(low || high, op, ": needs a lower or an upper bound");
  const DType result = promote(promote(dtype, low.value_or(false)), high.value_or(false));
  if (is_floating(result)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    // A bound that the dtype does not hold and that everything crosses would make all infinite.
    const auto crossed = [&](const std::optional<Scalar>& bound, double sign) {
      return bound && bound->real() * sign > 0.0 && !fits(*bound, result);
    };
    check(!crossed(low, 1.0), op, ": the lower bound ", low.value_or(0), " is above all ", result);
    check(!crossed(high, -1.0), op, ": the upper bound ", high.value_or(0), " is below all ",
          result);
    return {low.value_or(-kInfinity), high.value_or(kInfinity)};
  }
  int64_t lowest = 0, highest = 1;  // of bool
  dispatch(result, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_integral_v<T>) {
      lowest = std::numeric_limits<T>::lowest();
      highest = std::numeric_limits<T>::max();
    }
  });
  const int64_t from = low ? low->to<int64_t>() : lowest;
  const int64_t to = high ? high->to<int64_t>() : highest;
  check(from <= highest, op, ": the lower bound ", from, " is above all ", result);
  check(to >= lowest, op, ": the upper bound ", to, " is below all ", result);
  const int64_t least = std::max(from, lowest), most = std::min(to, highest);
  if (result == kBool) return {least != 0, most != 0};
  return {least, most};
}

}  // namespace detail

}  // namespace hero
