#pragma once
// Elementwise operations beyond those of ops.h: special functions, whole quotients and remainders,
// bits, bounds that are tensors. The rules of ops.h hold: PyTorch's names and results, NumPy's
// broadcasting, promotion. Functions of floats take integers as float32.
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
/// The inverse of erf on [-1, 1]; NaN outside.
Tensor erfinv(const Tensor& x);
/// ln |Gamma(x)|.
Tensor lgamma(const Tensor& x);
/// The derivative of lgamma; NaN at negative whole numbers, -inf at 0.
Tensor digamma(const Tensor& x);
/// The n-th derivative of digamma, n >= 0; for n > 1 of x > 0.
Tensor polygamma(int64_t n, const Tensor& x);
/// log(x / (1 - x)); with eps, x is first cut to [eps, 1 - eps], where the gradient is 0.
Tensor logit(const Tensor& x, std::optional<double> eps = {});
/// sin(pi x) / (pi x), 1 at 0.
Tensor sinc(const Tensor& x);
/// x log(y), 0 where x is 0 and y is not NaN.
Tensor xlogy(const Tensor& x, const Tensor& y);
Tensor xlogy(const Tensor& x, Scalar y);
Tensor xlogy(Scalar x, const Tensor& y);
/// sqrt(a^2 + b^2) without overflow; where both are 0 there is no gradient, but NaN.
Tensor hypot(const Tensor& a, const Tensor& b);
/// a's magnitude with b's sign, also that of a zero; 0 has no gradient.
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor copysign(const Tensor& a, Scalar b);
Tensor deg2rad(const Tensor& x);
Tensor rad2deg(const Tensor& x);
/// pow in float64.
Tensor float_power(const Tensor& base, const Tensor& exponent);
Tensor float_power(const Tensor& base, Scalar exponent);
struct NanToNum {
  double nan = 0.0;
  std::optional<double> posinf = {};  ///< the dtype's largest number when absent
  std::optional<double> neginf = {};  ///< the dtype's lowest number when absent
};
/// x with its NaN and infinities replaced, whose gradient is 0.
Tensor nan_to_num(const Tensor& x, const NanToNum& options = {});
/// \}

/// \name Whole numbers
/// \{
/// Towards zero.
Tensor trunc(const Tensor& x);
/// trunc by its other name.
Tensor fix(const Tensor& x);
/// x - trunc(x), with x's sign.
Tensor frac(const Tensor& x);
/// Half to even after `decimals` decimals, or whole tens, hundreds, ... where they are negative.
Tensor round(const Tensor& x, int64_t decimals);
/// The quotient rounded down, as Python's //, without gradient; an integer by 0 is 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, Scalar b);
Tensor floor_divide(Scalar a, const Tensor& b);
enum class Rounding { trunc, floor };
/// The quotient rounded towards zero or down, of integers an integer; its gradient is 0.
Tensor div(const Tensor& a, const Tensor& b, Rounding rounding);
Tensor div(const Tensor& a, Scalar b, Rounding rounding);
/// Remainder with a's sign, as C's; an integer by 0 is 0. remainder() has b's sign.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, Scalar b);
Tensor remainder(Scalar a, const Tensor& b);
/// \}

/// \name Bits of integers and bools
/// \{
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_and(const Tensor& a, Scalar b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, Scalar b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, Scalar b);
/// Of bools logical_not.
Tensor bitwise_not(const Tensor& x);
/// 0 where all bits leave, or `places` are negative.
Tensor bitwise_left_shift(const Tensor& x, const Tensor& places);
Tensor bitwise_left_shift(const Tensor& x, Scalar places);
/// The sign moves in; all bits leave where `places` are negative.
Tensor bitwise_right_shift(const Tensor& x, const Tensor& places);
Tensor bitwise_right_shift(const Tensor& x, Scalar places);
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
/// clamp with bounds that broadcast; one of them may be undefined. Where low > high the result is
/// high. A bound has the gradient where it is taken, and half of it where x is equal to it.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor clamp_min(const Tensor& x, const Tensor& low);
Tensor clamp_min(const Tensor& x, Scalar low);
Tensor clamp_max(const Tensor& x, const Tensor& high);
Tensor clamp_max(const Tensor& x, Scalar high);
/// maximum and minimum that take the other side of a NaN.
Tensor fmax(const Tensor& a, const Tensor& b);
Tensor fmin(const Tensor& a, const Tensor& b);
/// 0 below 0, `values` at 0, 1 above; without gradient.
Tensor heaviside(const Tensor& x, const Tensor& values);
/// a + alpha b and a - alpha b, rounded once where they are halves.
Tensor add(const Tensor& a, const Tensor& b, Scalar alpha);
Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha);
/// \}

/// \name Predicates
/// \{
/// Negative, -0 and NaN with that sign included.
Tensor signbit(const Tensor& x);
Tensor isposinf(const Tensor& x);
Tensor isneginf(const Tensor& x);
/// \}

}  // namespace hero
