// Special functions: the derivative beside each, in tensor operations.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/elementwise_op.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/number.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/elementwise/rare.h>
#include <hero/autograd/ops/elementwise/special.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/promotion.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace k = core::kernels;

namespace {

const double kRootPi = std::sqrt(std::numbers::pi);

struct Asin : ElementwiseOp<k::Asin, AutocastRule::float32, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * rsqrt(1.0 - square(x)); })};
  }
};
struct Acos : ElementwiseOp<k::Acos, AutocastRule::float32, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return -dy * rsqrt(1.0 - square(x)); })};
  }
};
struct Asinh : ElementwiseOp<k::Asinh, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * rsqrt(square(x) + 1); })};
  }
};
struct Acosh : ElementwiseOp<k::Acosh, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * rsqrt(square(x) - 1); })};
  }
};
struct Atanh : ElementwiseOp<k::Atanh, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / (1.0 - square(x)); })};
  }
};
struct Log10 : ElementwiseOp<k::Log10, AutocastRule::float32, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy / (x * std::numbers::ln10); })};
  }
};
struct Erfc : ElementwiseOp<k::Erfc, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0),
                    [](Term dy, Term x) { return dy * exp(-square(x)) * (-2.0 / kRootPi); })};
  }
};
struct Erfinv : ElementwiseOp<k::Erfinv, AutocastRule::float32, Save::output> {
  Grads backward(const Tensor& g) override {
    return {derived(g, output(),
                    [](Term dy, Term y) { return dy * exp(square(y)) * (kRootPi / 2.0); })};
  }
};
struct Lgamma : ElementwiseOp<k::Lgamma, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) { return dy * core::term<k::Digamma>(x); })};
  }
};
struct Digamma : ElementwiseOp<k::Digamma, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override { return {g * polygamma(1, x())}; }
};

// (-1)^(n + 1) n! zeta(n + 1, x) for n >= 1.
struct Polygamma : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  int64_t n;
  explicit Polygamma(int64_t order) : n(order) {}
  const char* name() const override { return "polygamma"; }
  Array forward(const Array& x) {
    const double order = static_cast<double>(n);
    double factor = 1.0;  // n!, infinite from 171 on
    for (int64_t i = 2; i <= std::min<int64_t>(n, 171); ++i) factor *= static_cast<double>(i);
    const Array all =
        core::map<k::Mul>(detail::rare(name(), math::Rare::zeta, Scalar(order + 1.0), x),
                          Scalar(n % 2 == 1 ? factor : -factor));
    // At infinity it ends at 0, and at minus infinity it has poles on any way there.
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const Array left =
        core::map<k::Where>(core::map<k::Equal>(x, Scalar(-kInfinity)), Scalar(std::nan("")), all);
    return core::map<k::Where>(core::map<k::Equal>(x, Scalar(kInfinity)), Scalar(0.0), left);
  }
  Grads backward(const Tensor& g) override {
    return {g * polygamma(n + 1, detail::widened(input(0)))};
  }
};

struct Xlogy : ElementwiseOp<k::Xlogy, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), x = f(input(0)), y = f(input(1));
    // Where nothing flows back, nothing comes out, even if log(y) is infinite or NaN.
    const Term slope = where_equal(x, 0, where(y <= 0, 0, log(y)), log(y));
    return f.run({{needs(0), where_equal(dy, 0, dy, dy * slope)}, {needs(1), dy * x / y}});
  }
};

struct Hypot : ElementwiseOp<k::Hypot, AutocastRule::fallthrough, Save::both> {
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), length = f(output());
    return f.run(
        {{needs(0), dy * (f(input(0)) / length)}, {needs(1), dy * (f(input(1)) / length)}});
  }
};

struct Copysign : ElementwiseOp<k::Copysign, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    const Tensor a = detail::widened(input(0)), b = input(1);
    const Tensor same = signbit(a) == signbit(b);
    return {where(a == 0, 0, where(same, g, -g)), flat_gradient(g)};
  }
};

// log(x / (1 - x)), whose derivative is infinite at 0 and 1.
struct Logit : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "logit"; }
  Array forward(const Array& x) {
    core::FusedExpression f;
    const Term p = f(x);
    return f.run(log(p / (1.0 - p)));
  }
  Grads backward(const Tensor& g) override {
    return {derived(g, input(0), [](Term dy, Term x) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      return where(x < 0, nan, where(x > 1, nan, dy / (x * (1.0 - x))));
    })};
  }
};

struct Sinc : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "sinc"; }
  Array forward(const Array& x) {
    core::FusedExpression f(name());
    const Term p = f(x), angle = where_equal(p, 0, 1, p) * std::numbers::pi;
    return f.run(where_equal(p, 0, 1, sin(angle) / angle));
  }
  Grads backward(const Tensor& g) override {
    // Near 0 the series of the slope (cos a - sin a / a) / a, whose difference has no digits there.
    const double limit = 0.015625;  // of x^2
    const Tensor x = detail::widened(input(0));
    FusedExpression of_x;
    const Term whole = of_x(x), small = where(square(whole) < limit, whole, 0);
    const Term q = square(small * std::numbers::pi);
    Term sum = 0;
    for (int k = 7; k > 0; --k) sum = 2.0 * k / std::tgamma(2.0 * k + 2.0) - q * sum;
    const Tensor series = of_x.run(sum * small);
    FusedExpression f;
    const Term p = f(x), angle = where(square(p) < limit, 1, p) * std::numbers::pi;
    const Term slope = (cos(angle) - sin(angle) / angle) / angle;
    return {f.run(f(g) * where(square(p) < limit, f(series) * -std::numbers::pi, slope) *
                  std::numbers::pi)};
  }
};

// logit(), for halves rounded once.
Tensor logit_of(const Tensor& x, std::optional<double> eps) {
  if (detail::any_half(x)) {
    return detail::in_float32("logit", AutocastRule::fallthrough, {x},
                              [eps](const auto& in) { return logit_of(in[0], eps); });
  }
  // On the bounds, unlike clamp's, the gradient goes through.
  const auto bounded = [&](double low, double high) {
    return where(x < low, low, where(x > high, high, x));
  };
  return record(Logit{}, eps ? bounded(*eps, 1.0 - *eps) : x);
}

}  // namespace

Tensor asin(const Tensor& x) { return record(Asin{}, x); }
Tensor acos(const Tensor& x) { return record(Acos{}, x); }
Tensor asinh(const Tensor& x) { return record(Asinh{}, x); }
Tensor acosh(const Tensor& x) { return record(Acosh{}, x); }
Tensor atanh(const Tensor& x) { return record(Atanh{}, x); }
Tensor log10(const Tensor& x) { return record(Log10{}, x); }
Tensor erfc(const Tensor& x) { return record(Erfc{}, x); }
Tensor erfinv(const Tensor& x) { return record(Erfinv{}, x); }
Tensor lgamma(const Tensor& x) { return record(Lgamma{}, x); }
Tensor digamma(const Tensor& x) { return record(Digamma{}, x); }

Tensor polygamma(int64_t n, const Tensor& x) {
  check(n >= 0, "polygamma: negative order ", n);
  if (n == 0) return digamma(x);
  if (detail::any_half(x)) {
    return detail::in_float32("polygamma", AutocastRule::fallthrough, {x},
                              [n](const auto& in) { return polygamma(n, in[0]); });
  }
  return record(Polygamma(n), x);
}

Tensor logit(const Tensor& x, std::optional<double> eps) {
  detail::check_defined("logit", {{"x", x}});
  return logit_of(x, eps);
}

Tensor sinc(const Tensor& x) {
  detail::check_defined("sinc", {{"x", x}});
  return record(Sinc{}, x);
}

Tensor xlogy(const Tensor& x, const Tensor& y) {
  detail::check_defined("xlogy", {{"x", x}, {"y", y}});
  return record(Xlogy{}, x, y);
}
Tensor xlogy(const Tensor& x, Scalar y) {
  detail::check_defined("xlogy", {{"x", x}});
  return xlogy(x, detail::float_beside(x, y));
}
Tensor xlogy(Scalar x, const Tensor& y) {
  detail::check_defined("xlogy", {{"y", y}});
  return xlogy(detail::float_beside(y, x), y);
}
Tensor hypot(const Tensor& a, const Tensor& b) { return record(Hypot{}, a, b); }
Tensor copysign(const Tensor& a, const Tensor& b) {
  detail::check_defined("copysign", {{"a", a}, {"b", b}});
  return record(Copysign{}, a, b);
}
Tensor copysign(const Tensor& a, Scalar b) {
  detail::check_defined("copysign", {{"a", a}});
  return copysign(a, detail::float_beside(a, b));
}
Tensor deg2rad(const Tensor& x) {
  const detail::Named named("deg2rad", {"x", x});
  return x * (std::numbers::pi / 180.0);
}
Tensor rad2deg(const Tensor& x) {
  const detail::Named named("rad2deg", {"x", x});
  return x * (180.0 / std::numbers::pi);
}
Tensor float_power(const Tensor& base, const Tensor& exponent) {
  const detail::Named named("float_power", {"base", base}, {"exponent", exponent});
  detail::check_defined("float_power", {{"base", base}, {"exponent", exponent}});
  return pow(base.to(kFloat64), exponent.to(kFloat64));
}
Tensor float_power(const Tensor& base, Scalar exponent) {
  const detail::Named named("float_power", {"base", base});
  detail::check_defined("float_power", {{"base", base}});
  return pow(base.to(kFloat64), exponent.real());
}
Tensor float_power(Scalar base, const Tensor& exponent) {
  const detail::Named named("float_power", {"exponent", exponent});
  detail::check_defined("float_power", {{"exponent", exponent}});
  return pow(base.real(), exponent.to(kFloat64));
}

Tensor nan_to_num(const Tensor& x, const NanToNum& options) {
  detail::check_defined("nan_to_num", {{"x", x}});
  if (!is_floating(x.dtype())) return clone(x);
  double largest = 0.0;
  dispatch(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, Float16>) {
      largest = 65504.0;
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      largest = 0x1.fep127;
    } else if constexpr (std::is_floating_point_v<T>) {
      largest = static_cast<double>(std::numeric_limits<T>::max());
    }
  });
  const Tensor numbers = where(isnan(x), options.nan, x);
  const Tensor below = where(isposinf(x), options.posinf.value_or(largest), numbers);
  return where(isneginf(x), options.neginf.value_or(-largest), below);
}

// Special functions that are made of others.

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// -x log(x), whose slope at 0 is infinite.
struct Entr : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "entr"; }
  Array forward(const Array& x) {
    const Array inside = core::map<k::Sub>(Scalar(0.0), core::map<k::Xlogy>(x, x));
    return core::map<k::Where>(core::map<k::Less>(x, Scalar(0.0)), Scalar(-kInfinity), inside);
  }
  Grads backward(const Tensor& g) override { return {g * (-log(input(0)) - 1.0)}; }
};

}  // namespace

Tensor entr(const Tensor& x) {
  detail::check_defined("entr", {{"x", x}});
  if (detail::any_half(x)) {
    return detail::in_float32("entr", AutocastRule::fallthrough, {x},
                              [](const auto& in) { return entr(in[0]); });
  }
  return record(Entr{}, is_floating(x.dtype()) ? x : x.to(kFloat32));
}

Tensor ndtr(const Tensor& x) {
  detail::check_defined("ndtr", {{"x", x}});
  if (detail::any_half(x)) {
    return detail::in_float32("ndtr", AutocastRule::fallthrough, {x},
                              [](const auto& in) { return ndtr(in[0]); });
  }
  return erfc(x * -std::numbers::sqrt2 / 2.0) / 2.0;
}

namespace {

// Both in the floating dtype of their result, in which every step computes.
std::pair<Tensor, Tensor> alike(const Tensor& a, const Tensor& b) {
  Promotion promotion;
  for (const Tensor* each : {&a, &b}) promotion.add(each->dtype(), each->ndim());
  promotion.add(Scalar(1.0));
  return {a.to(promotion.dtype()), b.to(promotion.dtype())};
}

}  // namespace

Tensor xlog1py(const Tensor& x, const Tensor& y) {
  const detail::Named named("xlog1py", {"x", x}, {"y", y});
  detail::check_defined("xlog1py", {{"x", x}, {"y", y}});
  if (detail::any_half(x, y)) {
    return detail::in_float32("xlog1py", AutocastRule::fallthrough, {x, y},
                              [](const auto& in) { return xlog1py(in[0], in[1]); });
  }
  // 0 times an infinite logarithm, or one of a negative number, counts as 0.
  const auto [a, b] = alike(x, y);
  const Tensor is_zero = logical_and(a == 0, logical_or(b <= -1, b == kInfinity));
  return a * where(is_zero, 0, log1p(b));
}

Tensor xlog1py(const Tensor& x, Scalar y) {
  detail::check_defined("xlog1py", {{"x", x}});
  return xlog1py(x, detail::float_beside(x, y));
}
Tensor xlog1py(Scalar x, const Tensor& y) {
  detail::check_defined("xlog1py", {{"y", y}});
  return xlog1py(detail::float_beside(y, x), y);
}

Tensor logaddexp2(const Tensor& a, const Tensor& b) {
  const detail::Named named("logaddexp2", {"a", a}, {"b", b});
  detail::check_defined("logaddexp2", {{"a", a}, {"b", b}});
  if (detail::any_half(a, b)) {
    return detail::in_float32("logaddexp2", AutocastRule::fallthrough, {a, b},
                              [](const auto& in) { return logaddexp2(in[0], in[1]); });
  }
  // Of equal ones, which may be infinite, the difference is not needed.
  const Tensor apart = where(a == b, 0, a - b);
  return maximum(a, b) + log1p(exp2(-abs(apart))) / std::numbers::ln2;
}

Tensor ldexp(const Tensor& x, const Tensor& exponent) {
  const detail::Named named("ldexp", {"x", x}, {"exponent", exponent});
  detail::check_defined("ldexp", {{"x", x}, {"exponent", exponent}});
  if (detail::any_half(x, exponent)) {
    return detail::in_float32("ldexp", AutocastRule::fallthrough, {x, exponent},
                              [](const auto& in) { return ldexp(in[0], in[1]); });
  }
  const auto [a, b] = alike(x, exponent);
  return a * exp2(b);
}

}  // namespace hero
