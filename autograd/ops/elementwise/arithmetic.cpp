// Elementwise operations of several inputs. A gradient may keep the broadcast shape: the engine
// sums it to the input's.
#include <cmath>
#include <limits>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/fused_expression.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/blend.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/core/array/promotion.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace k = core::kernels;
using detail::widened;

namespace {

struct Add : ElementwiseOp<k::Add, AutocastRule::fallthrough> {
  Grads backward(const Tensor& g) override { return {g, g}; }
};
struct Sub : ElementwiseOp<k::Sub, AutocastRule::fallthrough> {
  Grads backward(const Tensor& g) override { return {g, needs(1) ? -g : Tensor()}; }
};
struct Mul : ElementwiseOp<k::Mul, AutocastRule::fallthrough> {
  bool saves_input(int i) const { return needs(1 - i); }
  Grads backward(const Tensor& g) override {
    return {needs(0) ? g * input(1) : Tensor(), needs(1) ? g * input(0) : Tensor()};
  }
};
struct Div : ElementwiseOp<k::Div, AutocastRule::fallthrough> {
  bool saves_input(int i) const { return i == 1 || needs(1); }
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), b = f(input(1));
    // 0 stays 0 also where dy / b is infinite.
    const auto of_b = [&](Term a) { return where_equal(a, 0, -(dy * a) / b, -(dy / b) * a) / b; };
    const Term to_b = needs(1) ? of_b(f(input(0))) : dy;
    return f.run({{needs(0), dy / b}, {needs(1), to_b}});
  }
};
struct Pow : ElementwiseOp<k::Pow, AutocastRule::float32, Save::both> {
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), a = f(input(0)), b = f(input(1)), y = f(output());
    // d/da is 0 for b = 0, also at a = 0; d/db is 0 at a = 0 for b >= 0. g stays outside, so that
    // its derivative is not 0 times an infinity.
    const Term to_b = y * log(a);
    return f.run({{needs(0), dy * where_equal(b, 0, 0, b * pow(a, b - 1))},
                  {needs(1), dy * where_equal(a, 0, where(b >= 0, 0, to_b), to_b)}});
  }
};
struct Remainder : ElementwiseOp<k::Remainder, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    if (!needs(1)) return {g, Tensor()};
    return {g, -g * div(widened(input(0)), widened(input(1)), Rounding::floor)};
  }
};
// Half of the gradient to each side where they are equal, and all of it to both where one is NaN:
// neither is less.
Term share(Term dy, Term less, Term greater) {
  return where(less < greater, 0, where_equal(less, greater, dy * 0.5, dy));
}
struct Maximum : ElementwiseOp<k::Maximum, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), a = f(input(0)), b = f(input(1));
    return f.run({{needs(0), share(dy, a, b)}, {needs(1), share(dy, b, a)}});
  }
};
struct Minimum : ElementwiseOp<k::Minimum, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), a = f(input(0)), b = f(input(1));
    return f.run({{needs(0), share(dy, b, a)}, {needs(1), share(dy, a, b)}});
  }
};
struct Atan2 : ElementwiseOp<k::Atan2, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), y = f(input(0)), x = f(input(1));
    // At the origin, and where squares do not tell it from here, there is no angle to change.
    const Term length = square(y) + square(x);
    const Term scaled = where(length <= 0, 0, dy / where(length <= 0, 1, length));
    return f.run({{needs(0), scaled * x}, {needs(1), -scaled * y}});
  }
};
struct LogAddExp : ElementwiseOp<k::LogAddExp, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), a = f(input(0)), b = f(input(1));
    // Each part by itself: 1 - part would have lost the digits of a small one.
    return f.run({{needs(0), dy * sigmoid(a - b)}, {needs(1), dy * sigmoid(b - a)}});
  }
};
// From the nearer end, so that a weight of 1 gives b itself, however large a is.
struct Lerp : detail::Blend {
  Array forward(const Array& x, const Array& y, const Array& weight) {
    core::FusedExpression f(name());
    const Term a = f(x), b = f(y), w = f(weight);
    return f.run(where(w < 0.5, core::term<k::Lerp>(a, b, w), core::term<k::Lerp>(b, a, 1.0 - w)));
  }
};
struct LerpScalar : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  double weight;
  explicit LerpScalar(double w) : weight(w) {}
  const char* name() const override { return "lerp"; }
  Array forward(const Array& a, const Array& b) {
    return weight < 0.5 ? core::map<k::Lerp>(a, b, Scalar(weight))
                        : core::map<k::Lerp>(b, a, Scalar(1.0 - weight));
  }
  Grads backward(const Tensor& g) override { return {g * (1.0 - weight), g * weight}; }
};
struct Where : ElementwiseOp<k::Where, AutocastRule::fallthrough> {
  bool saves_input(int i) const { return i == 0; }
  Grads backward(const Tensor& g) override {
    return {Tensor(), where(input(0), g, 0), where(input(0), 0, g)};
  }
};

// Tensor and scalar. The scalar is an operand of the kernel, not a tensor.
template <class F, AutocastRule Cast>
struct WithScalar : Op {
  static constexpr AutocastRule kAutocast = Cast;
  Scalar scalar;
  explicit WithScalar(Scalar s) : scalar(s) {}
  const char* name() const override { return F::name; }
  Array forward(const Array& a) { return core::map<F>(a, scalar); }
};
template <class F>
struct Shifted : WithScalar<F, AutocastRule::fallthrough> {
  using WithScalar<F, AutocastRule::fallthrough>::WithScalar;
  Grads backward(const Tensor& g) override { return {g}; }
};
struct MulScalar : WithScalar<k::Mul, AutocastRule::fallthrough> {
  using WithScalar::WithScalar;
  Grads backward(const Tensor& g) override { return {g * scalar}; }
};
struct DivScalar : WithScalar<k::Div, AutocastRule::fallthrough> {
  using WithScalar::WithScalar;
  Grads backward(const Tensor& g) override { return {g / scalar}; }
};
struct PowScalar : WithScalar<k::Pow, AutocastRule::float32> {
  using WithScalar::WithScalar;
  // Small whole powers are products, of float32 in float64, rounded once as those of the kernel.
  Array forward(const Array& a) {
    const double e = scalar.real(), times = std::abs(e);
    const bool is_small = times > 1.0 && times <= 8.0 && times == std::floor(times);
    if (a.dtype() == kFloat64 || !is_small) return WithScalar::forward(a);
    if (e == 3.0 && a.dtype() == kFloat32) return core::map<k::Cube>(a);
    core::FusedExpression f;
    const Term x = f(a);
    Term product = x;
    for (int i = 1; i < static_cast<int>(times); ++i) product = product * x;
    return f.run_wide(e < 0.0 ? reciprocal(product) : product);
  }
  static constexpr unsigned kSaveInputs = 1;
  Grads backward(const Tensor& g) override {
    if (scalar.real() == 0.0) return {zeros_like(g)};
    return {derived(g, input(0), [this](Term dy, Term x) {
      const double e = scalar.real();
      return dy * ((e == 3.0 ? square(x) : pow(x, e - 1.0)) * e);
    })};
  }
};
struct ScalarSub : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Scalar scalar;
  explicit ScalarSub(Scalar s) : scalar(s) {}
  const char* name() const override { return "sub"; }
  Array forward(const Array& b) { return core::map<k::Sub>(scalar, b); }
  Grads backward(const Tensor& g) override { return {-g}; }
};
struct ScalarDiv : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  Scalar scalar;
  explicit ScalarDiv(Scalar s) : scalar(s) {}
  const char* name() const override { return "div"; }
  Array forward(const Array& b) { return core::map<k::Div>(scalar, b); }
  Grads backward(const Tensor& g) override {
    const double real = scalar.real();
    const double least = input(0).dtype() == kFloat64 ? std::numeric_limits<double>::min()
                                                      : std::numeric_limits<float>::min();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {derived(g, input(0), [=](Term dy, Term x) {
      const Term square_x = square(x), whole = -dy * real / square_x;
      // Where a product or the square leaves the range, which the quotients need not.
      const Term apart = -(dy * (real / x)) / x;
      const Term of_square = where(square_x < least, apart, whole);
      return where(square_x < kInfinity, where(abs(whole) < kInfinity, of_square, apart), apart);
    })};
  }
};
struct ScalarPow : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveOutputs = 1;
  Scalar scalar;
  explicit ScalarPow(Scalar s) : scalar(s) {}
  const char* name() const override { return "pow"; }
  Array forward(const Array& b) { return core::map<k::Pow>(scalar, b); }
  Grads backward(const Tensor& g) override {
    const Tensor slope = g * widened(output()) * std::log(scalar.real());
    // 0^b is constant in b, save where it is infinite.
    return {scalar.real() == 0.0 ? where(isfinite(output()), 0, slope) : slope};
  }
};

// where with a number on one side.
struct WhereScalar : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  Scalar scalar;
  bool first;  // the number is taken where the condition holds
  WhereScalar(Scalar s, bool f) : scalar(s), first(f) {}
  const char* name() const override { return "where"; }
  Array forward(const Array& condition, const Array& x) {
    return first ? core::map<k::Where>(condition, scalar, x)
                 : core::map<k::Where>(condition, x, scalar);
  }
  Grads backward(const Tensor& g) override {
    return {Tensor(), first ? where(input(0), 0, g) : where(input(0), g, 0)};
  }
};

// Whole powers of integers by a number, which need not fit their dtype: square and multiply.
Tensor pow_integer(const Tensor& base, int64_t exponent) {
  check(exponent >= 0, "pow: integers to the negative power ", exponent,
        " are not integers; convert the base to a floating dtype");
  Tensor result = ones_like(base);
  for (Tensor square_of = base; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = mul(result, square_of);
    if (exponent > 1) square_of = mul(square_of, square_of);
  }
  return result;
}

void check_condition(const char* op, const Tensor& condition) {
  check(condition.dtype() == kBool, op, ": the condition is ", condition.dtype(),
        "; compare it to get bool");
}

Tensor where_number(const Tensor& condition, const Tensor& x, Scalar number, bool first) {
  check_condition("where", condition);
  const DType dtype = promote(x.dtype(), number);
  check(is_floating(dtype) || fits(number, dtype), "where: ", number, " does not fit ", dtype);
  return record(WhereScalar(number, first), condition, x);
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  const detail::Named named("add", {"a", a}, {"b", b});
  return record(Add{}, a, b);
}
Tensor add(const Tensor& a, Scalar b) {
  const detail::Named named("add", {"a", a});
  return record(Shifted<k::Add>(b), a);
}
Tensor sub(const Tensor& a, const Tensor& b) {
  const detail::Named named("sub", {"a", a}, {"b", b});
  return record(Sub{}, a, b);
}
Tensor sub(const Tensor& a, Scalar b) {
  const detail::Named named("sub", {"a", a});
  return record(Shifted<k::Sub>(b), a);
}
Tensor sub(Scalar a, const Tensor& b) {
  const detail::Named named("sub", {"b", b});
  return record(ScalarSub(a), b);
}
Tensor mul(const Tensor& a, const Tensor& b) { return record(Mul{}, a, b); }
Tensor mul(const Tensor& a, Scalar b) { return record(MulScalar(b), a); }
Tensor div(const Tensor& a, const Tensor& b) {
  const detail::Named named("div", {"a", a}, {"b", b});
  return record(Div{}, a, b);
}
Tensor div(const Tensor& a, Scalar b) {
  const detail::Named named("div", {"a", a});
  return record(DivScalar(b), a);
}
Tensor div(Scalar a, const Tensor& b) {
  const detail::Named named("div", {"b", b});
  return record(ScalarDiv(a), b);
}
Tensor pow(const Tensor& a, const Tensor& b) {
  const detail::Named named("pow", {"a", a}, {"b", b});
  return record(Pow{}, a, b);
}
Tensor pow(const Tensor& base, Scalar exponent) {
  const detail::Named named("pow", {"base", base});
  const double e = exponent.real();
  if (!is_floating(base.dtype()) && !exponent.is_floating()) {
    return pow_integer(base.to(promote(base.dtype(), exponent)), exponent.to<int64_t>());
  }
  // The cheap powers are exact operations of their own.
  if (e == 2.0) return square(base.to(promote(base.dtype(), exponent)));
  if (e == 1.0) return mul(base, 1.0);
  if (e == 0.5) return sqrt(base);
  if (e == -1.0) return reciprocal(base);
  if (e == -0.5) return rsqrt(base);
  return record(PowScalar(exponent), base);
}
Tensor pow(Scalar base, const Tensor& exponent) {
  const detail::Named named("pow", {"exponent", exponent});
  return record(ScalarPow(base), exponent);
}
Tensor remainder(const Tensor& a, const Tensor& b) { return record(Remainder{}, a, b); }
Tensor remainder(const Tensor& a, Scalar b) { return record(Shifted<k::Remainder>(b), a); }
Tensor maximum(const Tensor& a, const Tensor& b) { return record(Maximum{}, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return record(Minimum{}, a, b); }
Tensor atan2(const Tensor& y, const Tensor& x) { return record(Atan2{}, y, x); }
Tensor logaddexp(const Tensor& a, const Tensor& b) { return record(LogAddExp{}, a, b); }
Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  detail::check_defined("lerp", {{"a", a}, {"b", b}});
  return record(LerpScalar(weight), a, b);
}
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  detail::check_defined("lerp", {{"a", a}, {"b", b}, {"weight", weight}});
  return record(Lerp{}, a, b, weight);
}
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  detail::check_defined("where", {{"condition", condition}, {"a", a}, {"b", b}});
  check_condition("where", condition);
  return record(Where{}, condition, a, b);
}

Tensor where(const Tensor& condition, const Tensor& a, Scalar b) {
  detail::check_defined("where", {{"condition", condition}, {"a", a}});
  return where_number(condition, a, b, false);
}
Tensor where(const Tensor& condition, Scalar a, const Tensor& b) {
  detail::check_defined("where", {{"condition", condition}, {"b", b}});
  return where_number(condition, b, a, true);
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  const detail::Named named("masked_fill", {"x", x}, {"mask", mask});
  detail::check_defined("masked_fill", {{"x", x}, {"mask", mask}});
  check_condition("masked_fill", mask);
  check(fits(value, x.dtype()), "masked_fill: ", value, " does not fit ", x.dtype());
  return record(WhereScalar(cut_to(value, x.dtype()), true), mask, x);
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  const detail::Named named("masked_fill", {"x", x}, {"mask", mask}, {"value", value});
  detail::check_defined("masked_fill", {{"x", x}, {"mask", mask}, {"value", value}});
  check_condition("masked_fill", mask);
  check(value.ndim() == 0, "masked_fill: the value has shape ", value.shape(),
        "; it must be a single number without dimensions");
  return record(Where{}, mask, value.to(x.dtype()), x);
}

// A product or a quotient that is added, in one pass.

namespace {

struct Addcmul : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Scalar value;
  explicit Addcmul(Scalar v) : value(v) {}
  bool saves_input(int i) const { return (i == 1 && needs(2)) || (i == 2 && needs(1)); }
  const char* name() const override { return "addcmul"; }
  Array forward(const Array& x, const Array& a, const Array& b) {
    if (value.real() == 1.0 && a.dtype() == x.dtype() && a.dtype() == b.dtype() &&
        is_floating(x.dtype())) {  // what is the same along rows is not spread out
      core::FusedExpression f(name());
      const Term all = core::term<k::Affine>(f(a), f(b), f(x));
      return f.run(all);
    }
    return core::map<k::Addcmul>(x, a, b, value);
  }
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g);
    const auto times = [&](int i) {
      const Term product = dy * f(input(i));
      return f.run(value.real() == 1.0 ? product : product * value.real());
    };
    return {g, needs(1) ? times(2) : Tensor(), needs(2) ? times(1) : Tensor()};
  }
};
struct Addcdiv : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  double value;
  explicit Addcdiv(double v) : value(v) {}
  bool saves_input(int i) const { return i == 2 ? needs(1) || needs(2) : i == 1 && needs(2); }
  const char* name() const override { return "addcdiv"; }
  Array forward(const Array& x, const Array& a, const Array& b) {
    core::FusedExpression f(name());
    return f.run(f(x) + f(a) / f(b) * value);
  }
  Grads backward(const Tensor& g) override {
    if (!needs(1) && !needs(2)) return {g, Tensor(), Tensor()};
    FusedExpression f;
    const Term b = f(input(2)), part = f(g) * value / b;
    const Term to_b = needs(2) ? -part * f(input(1)) / b : part;
    const Grads both = f.run({{needs(1), part}, {needs(2), to_b}});
    return {g, both[0], both[1]};
  }
};

// Of three operands.
DType common_dtype(const Tensor& x, const Tensor& a, const Tensor& b) {
  Promotion all;
  for (const Tensor* each : {&x, &a, &b}) all.add(each->dtype(), each->ndim());
  return all.dtype();
}

}  // namespace

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  detail::check_defined("addcmul", {{"x", x}, {"a", a}, {"b", b}});
  const bool floating = is_floating(common_dtype(x, a, b));
  check(floating || fits(value, kInt64), "addcmul: ", value, " does not fit int64");
  return record(Addcmul(floating ? value : Scalar(value.to<int64_t>())), x, a, b);
}

Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  const detail::Named named("addcdiv", {"x", x}, {"a", a}, {"b", b});
  detail::check_defined("addcdiv", {{"x", x}, {"a", a}, {"b", b}});
  if (detail::any_half(x, a, b)) {
    return detail::in_float32("addcdiv", AutocastRule::fallthrough, {x, a, b},
                              [=](const auto& in) { return addcdiv(in[0], in[1], in[2], value); });
  }
  const DType common = common_dtype(x, a, b);
  if (!is_floating(common)) return x + a / b * value;
  return record(Addcdiv(value.real()), x.to(common), a.to(common), b.to(common));
}

}  // namespace hero
