// Comparisons, logic and the operators. Their results are bool: nothing is recorded.
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace k = core::kernels;

Tensor eq(const Tensor& a, const Tensor& b) {
  const detail::Named named("eq", {"a", a}, {"b", b});
  detail::check_defined("eq", {{"a", a}, {"b", b}});
  return Tensor(core::map<k::Equal>(a.array(), b.array()));
}
Tensor eq(const Tensor& a, Scalar b) {
  const detail::Named named("eq", {"a", a});
  return Tensor(core::map<k::Equal>(a.array(), b));
}
Tensor ne(const Tensor& a, const Tensor& b) {
  const detail::Named named("ne", {"a", a}, {"b", b});
  return Tensor(core::map<k::NotEqual>(a.array(), b.array()));
}
Tensor ne(const Tensor& a, Scalar b) {
  const detail::Named named("ne", {"a", a});
  return Tensor(core::map<k::NotEqual>(a.array(), b));
}
Tensor lt(const Tensor& a, const Tensor& b) {
  const detail::Named named("lt", {"a", a}, {"b", b});
  detail::check_defined("lt", {{"a", a}, {"b", b}});
  return Tensor(core::map<k::Less>(a.array(), b.array()));
}
Tensor lt(const Tensor& a, Scalar b) {
  const detail::Named named("lt", {"a", a});
  return Tensor(core::map<k::Less>(a.array(), b));
}
Tensor le(const Tensor& a, const Tensor& b) {
  const detail::Named named("le", {"a", a}, {"b", b});
  return Tensor(core::map<k::LessEqual>(a.array(), b.array()));
}
Tensor le(const Tensor& a, Scalar b) {
  const detail::Named named("le", {"a", a});
  return Tensor(core::map<k::LessEqual>(a.array(), b));
}
Tensor gt(const Tensor& a, const Tensor& b) {
  const detail::Named named("gt", {"a", a}, {"b", b});
  detail::check_defined("gt", {{"a", a}, {"b", b}});
  return Tensor(core::map<k::Greater>(a.array(), b.array()));
}
Tensor gt(const Tensor& a, Scalar b) {
  const detail::Named named("gt", {"a", a});
  return Tensor(core::map<k::Greater>(a.array(), b));
}
Tensor ge(const Tensor& a, const Tensor& b) {
  const detail::Named named("ge", {"a", a}, {"b", b});
  return Tensor(core::map<k::GreaterEqual>(a.array(), b.array()));
}
Tensor ge(const Tensor& a, Scalar b) {
  const detail::Named named("ge", {"a", a});
  return Tensor(core::map<k::GreaterEqual>(a.array(), b));
}
Tensor logical_and(const Tensor& a, const Tensor& b) {
  const detail::Named named("logical_and", {"a", a}, {"b", b});
  return Tensor(core::map<k::LogicalAnd>(a.array(), b.array()));
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  const detail::Named named("logical_or", {"a", a}, {"b", b});
  return Tensor(core::map<k::LogicalOr>(a.array(), b.array()));
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  const detail::Named named("logical_xor", {"a", a}, {"b", b});
  return Tensor(core::map<k::LogicalXor>(a.array(), b.array()));
}
Tensor logical_not(const Tensor& x) {
  detail::check_defined("logical_not", {{"x", x}});
  return Tensor(core::map<k::LogicalNot>(x.array()));
}
Tensor isnan(const Tensor& x) {
  detail::check_defined("isnan", {{"x", x}});
  return Tensor(core::map<k::IsNan>(x.array()));
}
Tensor isfinite(const Tensor& x) {
  detail::check_defined("isfinite", {{"x", x}});
  return Tensor(core::map<k::IsFinite>(x.array()));
}
Tensor isinf(const Tensor& x) {
  detail::check_defined("isinf", {{"x", x}});
  return logical_not(logical_or(isfinite(x), isnan(x)));
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  const detail::Named named("isclose", {"a", a}, {"b", b});
  detail::check_defined("isclose", {{"a", a}, {"b", b}});
  check(rtol >= 0.0 && atol >= 0.0, "isclose: tolerances must not be negative: rtol ", rtol,
        ", atol ", atol);
  const NoGrad no_grad;
  // Neither the difference of halves nor what is allowed is rounded to a half, and integers far
  // apart do not wrap around; those that differ do so by 1 at least, where double sees no
  // difference.
  const bool whole = !is_floating(a.dtype()) && !is_floating(b.dtype());
  const Tensor x = whole ? a.to(kFloat64) : detail::widened(a);
  const Tensor y = whole ? b.to(kFloat64) : detail::widened(b);
  const Tensor apart = whole ? clamp(abs(x - y), 1.0, {}) : abs(x - y);
  const Tensor near = logical_and(apart <= abs(y) * rtol + atol, isfinite(b));
  const Tensor close = logical_or(a == b, near);
  return equal_nan ? logical_or(close, logical_and(isnan(a), isnan(b))) : close;
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  const detail::Named named("allclose", {"a", a}, {"b", b});
  detail::check_defined("allclose", {{"a", a}, {"b", b}});
  return all(isclose(a, b, rtol, atol, equal_nan)).item<bool>();
}

bool equal(const Tensor& a, const Tensor& b) {
  const detail::Named named("equal", {"a", a}, {"b", b});
  detail::check_defined("equal", {{"a", a}, {"b", b}});
  return a.shape() == b.shape() && all(a == b).item<bool>();
}

Tensor operator-(const Tensor& x) { return neg(x); }
Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
Tensor operator-(Scalar a, const Tensor& b) { return sub(a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
Tensor operator/(Scalar a, const Tensor& b) { return div(a, b); }
const Tensor& operator+=(const Tensor& a, const Tensor& b) { return a.add_(b); }
const Tensor& operator-=(const Tensor& a, const Tensor& b) { return a.sub_(b); }
const Tensor& operator*=(const Tensor& a, Scalar b) { return a.mul_(b); }
Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
Tensor operator==(const Tensor& a, Scalar b) { return eq(a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
Tensor operator!=(const Tensor& a, Scalar b) { return ne(a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
Tensor operator<(const Tensor& a, Scalar b) { return lt(a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
Tensor operator<=(const Tensor& a, Scalar b) { return le(a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
Tensor operator>(const Tensor& a, Scalar b) { return gt(a, b); }
Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
Tensor operator>=(const Tensor& a, Scalar b) { return ge(a, b); }

}  // namespace hero
