// Integer quotients and remainders, operations on bits, and clamp() with bounds that are tensors.
#include <cmath>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/elementwise_op.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/number.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/core/array/promotion.h>

namespace hero {

namespace k = core::kernels;

namespace {

// Constant almost everywhere, in both inputs.
template <class F>
struct StepOfTwo : ElementwiseOp<F, AutocastRule::fallthrough> {
  Grads backward(const Tensor& g) override { return {flat_gradient(g), flat_gradient(g)}; }
};
template <class F>
struct StepByNumber : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Scalar number;
  explicit StepByNumber(Scalar n) : number(n) {}
  const char* name() const override { return F::name; }
  Array forward(const Array& a) { return core::map<F>(a, number); }
  Grads backward(const Tensor& g) override { return {flat_gradient(g)}; }
};

struct Fmod : ElementwiseOp<k::Fmod, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    if (!needs(1)) return {g, Tensor()};
    const Tensor a = detail::widened(input(0)), b = detail::widened(input(1));
    return {g, -g * div(a, b, Rounding::trunc)};
  }
};
struct FmodNumber : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Scalar number;
  explicit FmodNumber(Scalar n) : number(n) {}
  const char* name() const override { return "fmod"; }
  Array forward(const Array& a) { return core::map<k::Fmod>(a, number); }
  Grads backward(const Tensor& g) override { return {g}; }
};

// x, low, high. On one of two different bounds x shares its gradient with it. NaN of x lets the
// gradient through, and beyond a bound beside NaN it goes nowhere.
struct ClampBetween : ElementwiseOp<k::Clamp, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    const Tensor x = input(0), low = input(1), high = input(2);
    const Tensor under = x<low, over = x> high, ordered = low <= high, apart = low < high;
    const Tensor on_low = logical_and(x == low, apart), on_high = logical_and(x == high, apart);
    const Tensor below = logical_and(under, ordered);
    const Tensor above = logical_or(logical_and(over, ordered), low > high);
    const Tensor half = g * 0.5;
    return {where(logical_or(under, over), 0, where(logical_or(on_low, on_high), half, g)),
            where(below, g, where(on_low, half, 0)), where(above, g, where(on_high, half, 0))};
  }
};

template <class F>
Tensor bits_of_two(const Tensor& a, const Tensor& b) {
  return Tensor(core::map<F>(a.array(), b.array()));
}
template <class F>
Tensor bits_by_number(const Tensor& a, Scalar b) {
  check(!b.is_floating(), F::name, ": ", b, " has no bits to combine; give an integer or a bool");
  return Tensor(core::map<F>(a.array(), b));
}

// A number as an operand in front of x.
Tensor number_beside(const Tensor& x, Scalar number) {
  return detail::number_of_dtype(number, promote(x.dtype(), number), x.device());
}

DType sum_dtype(const Tensor& a, const Tensor& b) {
  Promotion promotion;
  promotion.add(a.dtype(), a.ndim());
  promotion.add(b.dtype(), b.ndim());
  return promotion.dtype();
}

Tensor scaled_sum(const char* op, const Tensor& a, const Tensor& b, Scalar alpha) {
  const DType common = sum_dtype(a, b);
  check(is_floating(common) || !alpha.is_floating(), op, ": alpha ", alpha,
        " of integers must be an integer");
  // Multiples of bytes and bools do not fit into these, and those of float32 have more digits.
  const Tensor wide = is_floating(b.dtype()) && is_half(common) ? b : b.to(common);
  if (!detail::any_half(a, wide)) return add(a, mul(wide, alpha)).to(common);
  return detail::in_float32(op, AutocastRule::fallthrough, {a, wide},
                            [alpha](const auto& in) { return add(in[0], mul(in[1], alpha)); });
}

// round() to so many decimals, with the derivative 0 also where the power of ten is out of range.
struct RoundTo : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  int64_t decimals;
  explicit RoundTo(int64_t digits) : decimals(digits) {}
  const char* name() const override { return "round"; }
  Array forward(const Array& x) { return round(Tensor(x), decimals).array(); }
  Grads backward(const Tensor& g) override { return {zeros_like(g)}; }
};

}  // namespace

Tensor trunc(const Tensor& x) { return record(PiecewiseConstant<k::Trunc>{}, x); }
Tensor fix(const Tensor& x) {
  const detail::Named named("fix", {"x", x});
  return trunc(x);
}
Tensor frac(const Tensor& x) {
  detail::check_defined("frac", {{"x", x}});
  check(is_floating(x.dtype()), "frac: ", x.dtype(), " has no fractions");
  return x - trunc(x);
}
Tensor round(const Tensor& x, int64_t decimals) {
  detail::check_defined("round", {{"x", x}});
  if (decimals == 0) return round(x);
  check(is_floating(x.dtype()), "round: ", x.dtype(), " has no decimals: ", decimals);
  if (detail::any_half(x)) {
    return detail::in_float32("round", AutocastRule::fallthrough, {x},
                              [decimals](const auto& in) { return round(in[0], decimals); });
  }
  if (grad_enabled() && x.requires_grad()) return record(RoundTo(decimals), x);
  const double power = std::pow(10.0, std::fabs(static_cast<double>(decimals)));
  return decimals > 0 ? round(x * power) / power : round(x / power) * power;
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  const detail::Named named("floor_divide", {"a", a}, {"b", b});
  return Tensor(core::map<k::FloorDivide>(a.array(), b.array()));
}
Tensor floor_divide(const Tensor& a, Scalar b) {
  const detail::Named named("floor_divide", {"a", a});
  return Tensor(core::map<k::FloorDivide>(a.array(), b));
}
Tensor floor_divide(Scalar a, const Tensor& b) {
  const detail::Named named("floor_divide", {"b", b});
  return Tensor(core::map<k::FloorDivide>(a, b.array()));
}
Tensor div(const Tensor& a, const Tensor& b, Rounding rounding) {
  const detail::Named named("div", {"a", a}, {"b", b});
  if (rounding == Rounding::floor) return record(StepOfTwo<k::FloorDivide>{}, a, b);
  return record(StepOfTwo<k::TruncDivide>{}, a, b);
}
Tensor div(const Tensor& a, Scalar b, Rounding rounding) {
  const detail::Named named("div", {"a", a});
  if (rounding == Rounding::floor) return record(StepByNumber<k::FloorDivide>(b), a);
  return record(StepByNumber<k::TruncDivide>(b), a);
}
Tensor div(Scalar a, const Tensor& b, Rounding rounding) {
  detail::check_defined("div", {{"b", b}});
  return div(number_beside(b, a), b, rounding);
}
Tensor fmod(const Tensor& a, const Tensor& b) { return record(Fmod{}, a, b); }
Tensor fmod(const Tensor& a, Scalar b) { return record(FmodNumber(b), a); }
Tensor remainder(Scalar a, const Tensor& b) {
  detail::check_defined("remainder", {{"b", b}});
  return remainder(number_beside(b, a), b);
}

Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  const detail::Named named("bitwise_and", {"a", a}, {"b", b});
  return bits_of_two<k::BitwiseAnd>(a, b);
}
Tensor bitwise_and(const Tensor& a, Scalar b) {
  const detail::Named named("bitwise_and", {"a", a});
  return bits_by_number<k::BitwiseAnd>(a, b);
}
Tensor bitwise_and(Scalar a, const Tensor& b) { return bitwise_and(b, a); }
Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  const detail::Named named("bitwise_or", {"a", a}, {"b", b});
  return bits_of_two<k::BitwiseOr>(a, b);
}
Tensor bitwise_or(const Tensor& a, Scalar b) {
  const detail::Named named("bitwise_or", {"a", a});
  return bits_by_number<k::BitwiseOr>(a, b);
}
Tensor bitwise_or(Scalar a, const Tensor& b) { return bitwise_or(b, a); }
Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  const detail::Named named("bitwise_xor", {"a", a}, {"b", b});
  return bits_of_two<k::BitwiseXor>(a, b);
}
Tensor bitwise_xor(const Tensor& a, Scalar b) {
  const detail::Named named("bitwise_xor", {"a", a});
  return bits_by_number<k::BitwiseXor>(a, b);
}
Tensor bitwise_xor(Scalar a, const Tensor& b) { return bitwise_xor(b, a); }
Tensor bitwise_not(const Tensor& x) {
  const detail::Named named("bitwise_not", {"x", x});
  detail::check_defined("bitwise_not", {{"x", x}});
  return x.dtype() == kBool ? logical_not(x) : bitwise_xor(x, -1);
}
Tensor bitwise_left_shift(const Tensor& x, const Tensor& places) {
  const detail::Named named("bitwise_left_shift", {"x", x}, {"places", places});
  return bits_of_two<k::ShiftLeft>(x, places);
}
Tensor bitwise_left_shift(const Tensor& x, Scalar places) {
  const detail::Named named("bitwise_left_shift", {"x", x});
  return bits_by_number<k::ShiftLeft>(x, places);
}
Tensor bitwise_left_shift(Scalar x, const Tensor& places) {
  detail::check_defined("bitwise_left_shift", {{"places", places}});
  return bitwise_left_shift(number_beside(places, x), places);
}
Tensor bitwise_right_shift(const Tensor& x, const Tensor& places) {
  const detail::Named named("bitwise_right_shift", {"x", x}, {"places", places});
  return bits_of_two<k::ShiftRight>(x, places);
}
Tensor bitwise_right_shift(const Tensor& x, Scalar places) {
  const detail::Named named("bitwise_right_shift", {"x", x});
  return bits_by_number<k::ShiftRight>(x, places);
}
Tensor bitwise_right_shift(Scalar x, const Tensor& places) {
  detail::check_defined("bitwise_right_shift", {{"places", places}});
  return bitwise_right_shift(number_beside(places, x), places);
}
Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
Tensor operator&(const Tensor& a, Scalar b) { return bitwise_and(a, b); }
Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
Tensor operator|(const Tensor& a, Scalar b) { return bitwise_or(a, b); }
Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
Tensor operator^(const Tensor& a, Scalar b) { return bitwise_xor(a, b); }
Tensor operator~(const Tensor& x) { return bitwise_not(x); }
Tensor operator<<(const Tensor& x, const Tensor& places) { return bitwise_left_shift(x, places); }
Tensor operator<<(const Tensor& x, Scalar places) { return bitwise_left_shift(x, places); }
Tensor operator>>(const Tensor& x, const Tensor& places) { return bitwise_right_shift(x, places); }
Tensor operator>>(const Tensor& x, Scalar places) { return bitwise_right_shift(x, places); }
Tensor operator%(Scalar a, const Tensor& b) { return remainder(a, b); }

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  const detail::Named named("clamp", {"x", x}, {"low", low}, {"high", high});
  check(low.defined() || high.defined(), "clamp: needs a lower or an upper bound");
  if (!high.defined()) return clamp_min(x, low);
  if (!low.defined()) return clamp_max(x, high);
  return record(ClampBetween{}, x, low, high);
}
Tensor clamp_min(const Tensor& x, const Tensor& low) {
  const detail::Named named("clamp_min", {"x", x}, {"low", low});
  return maximum(x, low);
}
Tensor clamp_min(const Tensor& x, Scalar low) {
  const detail::Named named("clamp_min", {"x", x});
  return clamp(x, low, std::optional<Scalar>());
}
Tensor clamp_max(const Tensor& x, const Tensor& high) {
  const detail::Named named("clamp_max", {"x", x}, {"high", high});
  return minimum(x, high);
}
Tensor clamp_max(const Tensor& x, Scalar high) {
  const detail::Named named("clamp_max", {"x", x});
  return clamp(x, std::optional<Scalar>(), high);
}

Tensor fmax(const Tensor& a, const Tensor& b) {
  const detail::Named named("fmax", {"a", a}, {"b", b});
  return where(isnan(b), a, where(isnan(a), b, maximum(a, b)));
}
Tensor fmin(const Tensor& a, const Tensor& b) {
  const detail::Named named("fmin", {"a", a}, {"b", b});
  return where(isnan(b), a, where(isnan(a), b, minimum(a, b)));
}
Tensor heaviside(const Tensor& x, const Tensor& values) {
  const detail::Named named("heaviside", {"x", x}, {"values", values});
  detail::check_defined("heaviside", {{"x", x}, {"values", values}});
  check(x.dtype() == values.dtype(), "heaviside: x is ", x.dtype(), ", the values are ",
        values.dtype(), "; convert with to()");
  const NoGrad no_grad;
  const Tensor other = where(isnan(x), 0, (x > 0).to(x.dtype()));
  return where(x == 0, values.detach(), other).to(x.dtype());
}
Tensor add(const Tensor& a, const Tensor& b, Scalar alpha) {
  const detail::Named named("add", {"a", a}, {"b", b});
  return scaled_sum("add", a, b, alpha);
}
Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha) {
  const detail::Named named("sub", {"a", a}, {"b", b});
  const Scalar negative =
      alpha.is_floating() ? Scalar(-alpha.real()) : Scalar(-alpha.to<int64_t>());
  return scaled_sum("sub", a, b, negative);
}

Tensor signbit(const Tensor& x) {
  detail::check_defined("signbit", {{"x", x}});
  if (!is_floating(x.dtype())) return x < 0;
  const NoGrad no_grad;
  const Tensor one(core::map<k::Copysign>(Scalar(1.0), x.array()));
  return one < 0;
}
Tensor isposinf(const Tensor& x) {
  detail::check_defined("isposinf", {{"x", x}});
  return x == std::numeric_limits<double>::infinity();
}
Tensor isneginf(const Tensor& x) {
  detail::check_defined("isneginf", {{"x", x}});
  return x == -std::numeric_limits<double>::infinity();
}

}  // namespace hero
