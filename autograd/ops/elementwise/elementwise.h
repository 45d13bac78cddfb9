#pragma once
// Elementwise operations beyond those of ops.h: special functions, integer quotients and
// remainders, bitwise operations, and bounds that are tensors. They follow the rules of ops.h:
// PyTorch's names and results, NumPy's broadcasting, promotion of dtypes. Functions of floats
// convert integers to float32.
#include <hero/autograd/ops.h>

namespace hero {

/// \name Special functions
/// \{
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor log10(const Tensor& x);
/// 1 - erf(x), without cancellation.
Tensor erfc(const Tensor& x);
/// The inverse of erf() on [-1, 1]; NaN outside.
Tensor erfinv(const Tensor& x);
/// ln |Gamma(x)|.
Tensor lgamma(const Tensor& x);
/// The derivative of lgamma(); NaN at negative integers, -inf at 0.
Tensor digamma(const Tensor& x);
/// The n-th derivative of digamma(), for n >= 0; -inf or inf at the integers
/// up to 0.
Tensor polygamma(int64_t n, const Tensor& x);
/// log(x / (1 - x)). With eps, x is first clamped to [eps, 1 - eps]; clamped elements have the
/// gradient 0.
Tensor logit(const Tensor& x, std::optional<double> eps = {});
/// Hurwitz's zeta function, the sum over k >= 0 of (k + q)^-s, for s > 1; differentiable in q
/// alone, and an Error if s requires gradients.
Tensor zeta(const Tensor& s, const Tensor& q);
Tensor zeta(const Tensor& s, Scalar q);
Tensor zeta(Scalar s, const Tensor& q);
/// The logarithm of the gamma function of p dimensions, p >= 1: the sum over i < p of lgamma(a - i
/// / 2), and p (p - 1) / 4 log(pi).
Tensor multigammaln(const Tensor& a, int64_t p);
/// sin(pi x) / (pi x), and 1 at 0.
Tensor sinc(const Tensor& x);
/// x log(y), and 0 if x is 0 and y is not NaN.
Tensor xlogy(const Tensor& x, const Tensor& y);
Tensor xlogy(const Tensor& x, Scalar y);
Tensor xlogy(Scalar x, const Tensor& y);
/// x log(1 + y), and 0 if x is 0 and y is not NaN.
Tensor xlog1py(const Tensor& x, const Tensor& y);
Tensor xlog1py(const Tensor& x, Scalar y);
Tensor xlog1py(Scalar x, const Tensor& y);
/// -x log(x), and 0 at 0; -inf below it.
Tensor entr(const Tensor& x);
/// The probability of numbers below x in the standard normal distribution.
Tensor ndtr(const Tensor& x);
/// log(ndtr(x)), also where ndtr() is 0 or 1.
Tensor log_ndtr(const Tensor& x);
/// The inverse of ndtr() on [0, 1]; NaN outside.
Tensor ndtri(const Tensor& x);
/// e^(x^2) erfc(x), also where erfc() is 0.
Tensor erfcx(const Tensor& x);
/// log2(2^a + 2^b) without overflow.
Tensor logaddexp2(const Tensor& a, const Tensor& b);
/// x * 2^exponent.
Tensor ldexp(const Tensor& x, const Tensor& exponent);
/// sqrt(a^2 + b^2) without overflow; if both are 0, the gradient is NaN.
Tensor hypot(const Tensor& a, const Tensor& b);
/// The magnitude of a with the sign of b, also if b is a zero; if a is 0, its gradient is 0.
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor copysign(const Tensor& a, Scalar b);
Tensor deg2rad(const Tensor& x);
Tensor rad2deg(const Tensor& x);
/// pow() in float64.
Tensor float_power(const Tensor& base, const Tensor& exponent);
Tensor float_power(const Tensor& base, Scalar exponent);
Tensor float_power(Scalar base, const Tensor& exponent);
/// Options of nan_to_num().
struct NanToNum {
  double nan = 0.0;  ///< takes the place of NaN
  /// Takes the place of inf; when absent, the dtype's largest number.
  std::optional<double> posinf = {};
  /// Takes the place of -inf; when absent, the dtype's lowest number.
  std::optional<double> neginf = {};
};
/// x with NaN and infinities replaced; replaced elements have the gradient 0.
Tensor nan_to_num(const Tensor& x, const NanToNum& options = {});
/// \}

/// \name Incomplete gamma functions
/// They are differentiable in x alone; an Error if a requires gradients. NaN if one of a and x is
/// negative, or both are 0 or infinite.
/// \{
/// The integral of t^(a - 1) e^-t from 0 to x, divided by that to infinity.
Tensor gammainc(const Tensor& a, const Tensor& x);
/// The integral from x to infinity, divided by that from 0: 1 - gammainc(a, x).
Tensor gammaincc(const Tensor& a, const Tensor& x);
/// \}

/// \name Bessel functions
/// \{
/// The modified Bessel functions of the first kind, of the orders 0 and 1.
Tensor i0(const Tensor& x);
Tensor i1(const Tensor& x);
/// The same, divided by e^|x|.
Tensor i0e(const Tensor& x);
Tensor i1e(const Tensor& x);
/// The Bessel functions of the first kind.
Tensor bessel_j0(const Tensor& x);
Tensor bessel_j1(const Tensor& x);
/// Those of the second kind: -inf at 0, NaN below.
Tensor bessel_y0(const Tensor& x);
Tensor bessel_y1(const Tensor& x);
/// \}

/// \name Parts and neighbours of floating-point numbers
/// \{
/// What frexp() returns.
struct Frexp {
  Tensor mantissa;  ///< in [0.5, 1) with the sign of x, or x itself if it is 0, infinite or NaN
  Tensor exponent;  ///< int32; 0 for such x
};
/// x = mantissa * 2^exponent. An Error unless x is floating.
Frexp frexp(const Tensor& x);
/// The number of the dtype of both that is next to x in the direction of the other. It moves with
/// x, which gets the gradient unless both are equal; the other's is 0. An Error unless one is
/// floating.
Tensor nextafter(const Tensor& x, const Tensor& towards);
/// \}

/// \name Rounding and integer division
/// \{
/// Rounds towards zero.
Tensor trunc(const Tensor& x);
/// Another name of trunc().
Tensor fix(const Tensor& x);
/// x - trunc(x), which has the sign of x.
Tensor frac(const Tensor& x);
/// Rounds half to even, to `decimals` decimals, or if negative, to tens, hundreds, and so on.
Tensor round(const Tensor& x, int64_t decimals);
/// The quotient rounded down, as Python's //, without gradient; an integer divided by 0 gives 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, Scalar b);
Tensor floor_divide(Scalar a, const Tensor& b);
/// How div() rounds the quotient: towards zero, or down.
enum class Rounding { trunc, floor };
/// The quotient rounded towards zero or down, which for integers is an integer; its gradient is 0.
Tensor div(const Tensor& a, const Tensor& b, Rounding rounding);
Tensor div(const Tensor& a, Scalar b, Rounding rounding);
Tensor div(Scalar a, const Tensor& b, Rounding rounding);
/// The remainder with the sign of a, as C's fmod(); for an integer and 0 it is 0. remainder() has
/// the sign of b.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, Scalar b);
Tensor remainder(Scalar a, const Tensor& b);
/// The greatest common divisor of integers, not negative; gcd(a, 0) = |a|.
Tensor gcd(const Tensor& a, const Tensor& b);
/// The least common multiple of integers, not negative; 0 if one of them is 0.
Tensor lcm(const Tensor& a, const Tensor& b);
/// \}

/// \name Bitwise operations on integers and bools
/// \{
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_and(const Tensor& a, Scalar b);
Tensor bitwise_and(Scalar a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, Scalar b);
Tensor bitwise_or(Scalar a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, Scalar b);
Tensor bitwise_xor(Scalar a, const Tensor& b);
/// Inverts all bits; for bools it is logical_not().
Tensor bitwise_not(const Tensor& x);
/// Shifts bits to the left; gives 0 if all bits are shifted out, or `places` is negative.
Tensor bitwise_left_shift(const Tensor& x, const Tensor& places);
Tensor bitwise_left_shift(const Tensor& x, Scalar places);
Tensor bitwise_left_shift(Scalar x, const Tensor& places);
/// Shifts bits to the right and fills with the sign; if `places` is negative, all bits are shifted
/// out.
Tensor bitwise_right_shift(const Tensor& x, const Tensor& places);
Tensor bitwise_right_shift(const Tensor& x, Scalar places);
Tensor bitwise_right_shift(Scalar x, const Tensor& places);
Tensor operator&(const Tensor& a, Scalar b);
Tensor operator|(const Tensor& a, Scalar b);
Tensor operator^(const Tensor& a, Scalar b);
Tensor operator<<(const Tensor& x, const Tensor& places);
Tensor operator<<(const Tensor& x, Scalar places);
Tensor operator>>(const Tensor& x, const Tensor& places);
Tensor operator>>(const Tensor& x, Scalar places);
Tensor operator%(Scalar a, const Tensor& b);
/// \}

/// \name Bounds and choices
/// \{
/// clamp() with bounds that broadcast; one of them may be undefined. If low > high, the result is
/// high. A bound gets the gradient of elements that take its value, and half of it if x is equal to
/// the bound.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor clamp_min(const Tensor& x, const Tensor& low);
Tensor clamp_min(const Tensor& x, Scalar low);
Tensor clamp_max(const Tensor& x, const Tensor& high);
Tensor clamp_max(const Tensor& x, Scalar high);
/// maximum() and minimum(), except that if one side is NaN, the result is the other side.
Tensor fmax(const Tensor& a, const Tensor& b);
Tensor fmin(const Tensor& a, const Tensor& b);
/// 0 for x < 0, `values` for x = 0, and 1 for x > 0; without gradient.
Tensor heaviside(const Tensor& x, const Tensor& values);
/// a + alpha b and a - alpha b; half precision is rounded only once.
Tensor add(const Tensor& a, const Tensor& b, Scalar alpha);
Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha);
/// \}

/// \name Predicates
/// \{
/// True if the sign bit is set, also for -0 and NaN.
Tensor signbit(const Tensor& x);
Tensor isposinf(const Tensor& x);
Tensor isneginf(const Tensor& x);
/// \}

}  // namespace hero
