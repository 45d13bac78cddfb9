// Bessel, incomplete gamma and other rare functions, and operations on the bits of numbers.
#include <cmath>
#include <numbers>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/number.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/elementwise/rare.h>
#include <hero/autograd/ops/elementwise/special.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/core/array/promotion.h>

namespace hero {

namespace k = core::kernels;
using math::Rare;

namespace detail {

Array rare(const char* name, Rare which, const core::Operand& x, const core::Operand& y) {
  core::MapInfo info = core::kMapInfo<k::Rare>;
  info.name = name;
  const core::Operand operands[] = {Scalar(static_cast<int64_t>(which)), x, y};
  return core::detail::map(info, operands);
}

}  // namespace detail

namespace {

using detail::rare;

// Of one number. The derivatives are those of Abramowitz and Stegun, 9.1.27, 9.1.28 and 9.6.26 to
// 9.6.28.
struct RareOp : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  const char* label;
  Rare which;
  RareOp(const char* name, Rare function) : label(name), which(function) {}
  const char* name() const override { return label; }
  Array forward(const Array& x) { return rare(label, which, x); }
  Grads backward(const Tensor& g) override {
    return {g * slope(detail::widened(input(0)), detail::widened(output()))};
  }

 private:
  // other - y / x with `limit` where x is so small that y, about x / 2, has lost digits.
  Tensor half_at_zero(const Tensor& x, const Tensor& y, const Tensor& other,
                      const Tensor& limit) const {
    const Tensor small = abs(x) < (input(0).dtype() == kFloat16 ? 0x1p-12 : 1e-30);
    return where(small, limit, other - y / where(small, 1, x));
  }

  Tensor slope(const Tensor& x, const Tensor& y) const {
    switch (which) {
      case Rare::i0:
        return i1(x);
      case Rare::i0e:
        return i1e(x) - sign(x) * y;
      case Rare::i1:
        return half_at_zero(x, y, i0(x), 0.5 + square(x) * (3.0 / 16.0));
      case Rare::i1e:
        return half_at_zero(x, y, i0e(x) - sign(x) * y, 0.5 - abs(x));
      case Rare::bessel_j0:
        return -bessel_j1(x);
      case Rare::bessel_j1:
        return half_at_zero(x, y, bessel_j0(x), 0.5 - square(x) * (3.0 / 16.0));
      case Rare::bessel_y0:
        return -bessel_y1(x);
      case Rare::bessel_y1:
        return bessel_y0(x) - y / x;
      case Rare::erfcx:
        return x * y * 2.0 - 2.0 * std::numbers::inv_sqrtpi;
      case Rare::log_ndtr:
        return std::sqrt(2.0) * std::numbers::inv_sqrtpi / erfcx(x * (-std::numbers::sqrt2 / 2.0));
      default:  // ndtri
        return exp(square(y) / 2.0) * std::sqrt(2.0 * std::numbers::pi);
    }
  }
};

Tensor rare_of(const char* name, Rare which, const Tensor& x) {
  return record(RareOp(name, which), x);
}

void check_without_gradient(const char* op, const char* argument, const Tensor& x) {
  check(!(grad_enabled() && x.requires_grad()), op, ": has no derivative in ", argument,
        "; detach() it");
}

// Of two numbers, with a derivative in the second one.
struct RarePair : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b11;
  const char* label;
  Rare which;
  RarePair(const char* name, Rare function) : label(name), which(function) {}
  const char* name() const override { return label; }
  Array forward(const Array& a, const Array& x) { return rare(label, which, a, x); }
  Grads backward(const Tensor& g) override {
    const Tensor a = detail::widened(input(0)), x = detail::widened(input(1));
    if (which == Rare::zeta) return {Tensor(), -g * a * zeta(a + 1.0, x)};
    const Tensor slope = exp(xlogy(a - 1.0, x) - x - lgamma(a));
    return {Tensor(), which == Rare::gammainc ? g * slope : -g * slope};
  }
};

Tensor rare_of(const char* name, Rare which, const Tensor& a, const Tensor& x) {
  detail::check_defined(name, {{"a", a}, {"x", x}});
  check_without_gradient(name, "its first argument", a);
  return record(RarePair(name, which), a, x);
}

struct FrexpOp : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  const char* name() const override { return "frexp"; }
  static constexpr unsigned kSaveOutputs = 0b10;
  std::vector<Array> forward(const Array& x) {
    return {rare(name(), Rare::mantissa, x), rare(name(), Rare::exponent, x).to(kInt32)};
  }
  Grads backward(const Grads& grads) override {
    if (!grads[0].defined()) return {Tensor()};
    const Tensor g = detail::widened(grads[0]);
    // By halves, since the whole power of a subnormal number is out of range.
    const Tensor half = floor_divide(output(1), 2);
    return {g * exp2(-half.to(g.dtype())) * exp2((half - output(1)).to(g.dtype()))};
  }
};

// Moves with x, whose step is constant between the powers of 2, unless it is there.
struct NextAfter : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b11;
  Rare which;
  explicit NextAfter(Rare function) : which(function) {}
  const char* name() const override { return "nextafter"; }
  Array forward(const Array& x, const Array& towards) { return rare(name(), which, x, towards); }
  Grads backward(const Tensor& g) override {
    const Tensor there = input(0) == input(1);
    return {where(there, 0, g), needs(1) ? zeros_like(g) : Tensor()};
  }
};

void check_whole(const char* op, const Tensor& a, const Tensor& b) {
  detail::check_defined(op, {{"a", a}, {"b", b}});
  const DType dtype = promote(a.dtype(), b.dtype());
  check(!is_floating(dtype) && dtype != kBool, op, ": ", a.dtype(), " and ", b.dtype(),
        "; the operands must be integers");
}

}  // namespace

Tensor i0(const Tensor& x) { return rare_of("i0", Rare::i0, x); }
Tensor i0e(const Tensor& x) { return rare_of("i0e", Rare::i0e, x); }
Tensor i1(const Tensor& x) { return rare_of("i1", Rare::i1, x); }
Tensor i1e(const Tensor& x) { return rare_of("i1e", Rare::i1e, x); }
Tensor bessel_j0(const Tensor& x) { return rare_of("bessel_j0", Rare::bessel_j0, x); }
Tensor bessel_j1(const Tensor& x) { return rare_of("bessel_j1", Rare::bessel_j1, x); }
Tensor bessel_y0(const Tensor& x) { return rare_of("bessel_y0", Rare::bessel_y0, x); }
Tensor bessel_y1(const Tensor& x) { return rare_of("bessel_y1", Rare::bessel_y1, x); }
Tensor erfcx(const Tensor& x) { return rare_of("erfcx", Rare::erfcx, x); }
Tensor log_ndtr(const Tensor& x) { return rare_of("log_ndtr", Rare::log_ndtr, x); }
Tensor ndtri(const Tensor& x) { return rare_of("ndtri", Rare::ndtri, x); }

Tensor gammainc(const Tensor& a, const Tensor& x) {
  return rare_of("gammainc", Rare::gammainc, a, x);
}
Tensor gammaincc(const Tensor& a, const Tensor& x) {
  return rare_of("gammaincc", Rare::gammaincc, a, x);
}
Tensor zeta(const Tensor& s, const Tensor& q) { return rare_of("zeta", Rare::zeta, s, q); }
Tensor zeta(const Tensor& s, Scalar q) {
  detail::check_defined("zeta", {{"s", s}});
  return zeta(s, detail::float_beside(s, q));
}
Tensor zeta(Scalar s, const Tensor& q) {
  detail::check_defined("zeta", {{"q", q}});
  return zeta(detail::float_beside(q, s), q);
}

Tensor multigammaln(const Tensor& a, int64_t p) {
  const detail::Named named("multigammaln", {"a", a});
  detail::check_defined("multigammaln", {{"a", a}});
  check(p >= 1, "multigammaln: the dimension p must be at least 1: ", p);
  if (detail::any_half(a)) {
    return detail::in_float32("multigammaln", AutocastRule::fallthrough, {a},
                              [p](const auto& in) { return multigammaln(in[0], p); });
  }
  const double count = static_cast<double>(p);
  const double constant = count * (count - 1.0) / 4.0 * std::log(std::numbers::pi);
  Tensor sum = lgamma(a) + constant;
  for (int64_t i = 1; i < p; ++i) sum = sum + lgamma(a - static_cast<double>(i) / 2.0);
  return sum;
}

Frexp frexp(const Tensor& x) {
  detail::check_defined("frexp", {{"x", x}});
  check(is_floating(x.dtype()), "frexp: x is ", x.dtype(), "; it must be floating");
  const std::vector<Tensor> found = record_multi(FrexpOp{}, x);
  return {found[0], found[1]};
}

Tensor nextafter(const Tensor& x, const Tensor& towards) {
  detail::check_defined("nextafter", {{"x", x}, {"towards", towards}});
  Promotion promotion;
  for (const Tensor* operand : {&x, &towards}) promotion.add(operand->dtype(), operand->ndim());
  const DType dtype = promotion.dtype();
  check(is_floating(dtype), "nextafter: x is ", x.dtype(), "; it must be floating");
  Rare which = Rare::next_double;
  if (dtype == kFloat32) which = Rare::next_float;
  if (dtype == kBFloat16) which = Rare::next_bfloat16;
  if (dtype == kFloat16) which = Rare::next_float16;
  return record(NextAfter(which), x, towards);
}

Tensor gcd(const Tensor& a, const Tensor& b) {
  check_whole("gcd", a, b);
  return Tensor(core::map<k::Gcd>(a.array(), b.array()));
}

Tensor lcm(const Tensor& a, const Tensor& b) {
  const detail::Named named("lcm", {"a", a}, {"b", b});
  check_whole("lcm", a, b);
  // A quotient by 0 is 0, too.
  const Array share = core::map<k::TruncDivide>(a.array(), core::map<k::Gcd>(a.array(), b.array()));
  return Tensor(core::map<k::Abs>(core::map<k::Mul>(share, b.array())));
}

}  // namespace hero
