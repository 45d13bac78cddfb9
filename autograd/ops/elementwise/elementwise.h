#pragma once
// Elementwise operations: arithmetic, powers, exponentials, trigonometry, rounding, comparisons,
// bits, choices and bounds, operators. Names, arguments and behaviour are PyTorch's; operations
// broadcast by NumPy's rules and promote dtypes (core/array/promotion.h), and functions of floats
// convert integers to float32. docs/differences.md lists the differences. Gradients at kinks: those
// of abs and sign are 0 at 0; equal values of maximum and minimum get half each. Activations are in
// nn.h, other special functions in special.h.
#include <optional>

#include <hero/autograd/tensor.h>

namespace hero {

/// \name One input
/// \{
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
/// sin(pi x) / (pi x), and 1 at 0.
Tensor sinc(const Tensor& x);
Tensor deg2rad(const Tensor& x);
Tensor rad2deg(const Tensor& x);
/// \}

/// \name Rounding
/// \{
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
/// Rounds to the nearest integer, half to even.
Tensor round(const Tensor& x);
/// Rounds towards zero.
Tensor trunc(const Tensor& x);
/// Another name of trunc().
Tensor fix(const Tensor& x);
/// x - trunc(x), which has the sign of x.
Tensor frac(const Tensor& x);
/// Rounds half to even, to `decimals` decimals, or if negative, to tens, hundreds, and so on.
Tensor round(const Tensor& x, int64_t decimals);
/// \}

/// \name Two inputs
/// \{
/// \snippet test_examples_tensors.cpp broadcast
Tensor add(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, Scalar b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, Scalar b);
Tensor sub(Scalar a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, Scalar b);
/// The true quotient; for integers it is float32.
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, Scalar b);
Tensor div(Scalar a, const Tensor& b);
/// How div() rounds the quotient: towards zero, or down.
enum class Rounding { trunc, floor };
/// The quotient rounded towards zero or down, which for integers is an integer; its gradient is 0.
Tensor div(const Tensor& a, const Tensor& b, Rounding rounding);
Tensor div(const Tensor& a, Scalar b, Rounding rounding);
Tensor div(Scalar a, const Tensor& b, Rounding rounding);
/// a + alpha b and a - alpha b; half precision is rounded only once.
Tensor add(const Tensor& a, const Tensor& b, Scalar alpha);
Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha);
/// base to the power of exponent. Integers stay integers: an exponent that is a number must then
/// not be negative, and a negative element of an integer exponent gives 0, except for the bases 1
/// and -1.
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor pow(const Tensor& base, Scalar exponent);
Tensor pow(Scalar base, const Tensor& exponent);
/// pow() in float64.
Tensor float_power(const Tensor& base, const Tensor& exponent);
Tensor float_power(const Tensor& base, Scalar exponent);
Tensor float_power(Scalar base, const Tensor& exponent);
/// The remainder with the sign of the divisor, as Python's %, which is exact however large the
/// quotient is; for an integer and 0 it is 0. The quotient has no gradient.
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, Scalar b);
Tensor remainder(Scalar a, const Tensor& b);
/// The quotient rounded down, as Python's //, without gradient; an integer divided by 0 gives 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, Scalar b);
Tensor floor_divide(Scalar a, const Tensor& b);
/// The remainder with the sign of a, as C's fmod(); for an integer and 0 it is 0. remainder() has
/// the sign of b.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, Scalar b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// maximum() and minimum(), except that if one side is NaN, the result is the other side.
Tensor fmax(const Tensor& a, const Tensor& b);
Tensor fmin(const Tensor& a, const Tensor& b);
Tensor atan2(const Tensor& ordinate, const Tensor& abscissa);
/// sqrt(a^2 + b^2) without overflow; if both are 0, the gradient is NaN.
Tensor hypot(const Tensor& a, const Tensor& b);
/// The magnitude of a with the sign of b, also if b is a zero; if a is 0, its gradient is 0.
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor copysign(const Tensor& a, Scalar b);
/// The number of the dtype of both that is next to x in the direction of the other. It moves with
/// x, which gets the gradient unless both are equal; the other's is 0. An Error unless one is
/// floating.
Tensor nextafter(const Tensor& x, const Tensor& towards);
/// log(exp(a) + exp(b)) without overflow.
Tensor logaddexp(const Tensor& a, const Tensor& b);
/// log2(2^a + 2^b) without overflow.
Tensor logaddexp2(const Tensor& a, const Tensor& b);
/// x * 2^exponent.
Tensor ldexp(const Tensor& x, const Tensor& exponent);
/// The greatest common divisor of integers, not negative; gcd(a, 0) = |a|.
Tensor gcd(const Tensor& a, const Tensor& b);
/// The least common multiple of integers, not negative; 0 if one of them is 0.
Tensor lcm(const Tensor& a, const Tensor& b);
/// a + weight * (b - a), which is b itself for the weight 1. All that are tensors broadcast, and
/// the result has their promoted dtype, float32 if they are integers; half precision is rounded
/// once.
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// x + value * a * b. For integers it is an integer, and the fraction of value is cut off.
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// x + value * a / b; half precision is rounded only once.
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// \}

/// \name Choices and bounds
/// \{
/// Limits x to [low, high]; either bound may be absent, and a bound of NaN gives NaN. For an
/// integer dtype, a bound outside its range has no effect, or is an Error if no number could lie
/// within the bounds. The gradient is 0 on the bounds.
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {});
/// a where condition (bool) is true, and b elsewhere.
/// \snippet test_examples_tensors.cpp where
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
/// value where mask (bool) is true, and x elsewhere, in the dtype of x, which must be able to
/// represent the value.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
/// Does the same with a value that is a tensor without dimensions, which gets a gradient.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);
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
/// clamp() with bounds that broadcast; one of them may be undefined. If low > high, the result is
/// high. A bound gets the gradient of elements that take its value, and half of it if x is equal to
/// the bound.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor clamp_min(const Tensor& x, const Tensor& low);
Tensor clamp_min(const Tensor& x, Scalar low);
Tensor clamp_max(const Tensor& x, const Tensor& high);
Tensor clamp_max(const Tensor& x, Scalar high);
/// 0 for x < 0, `values` for x = 0, and 1 for x > 0; without gradient.
Tensor heaviside(const Tensor& x, const Tensor& values);
/// \}

/// \name Comparison and logic: results are bool, without gradient
/// \{
Tensor eq(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, Scalar b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, Scalar b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, Scalar b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, Scalar b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, Scalar b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, Scalar b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
/// True if the sign bit is set, also for -0 and NaN.
Tensor signbit(const Tensor& x);
Tensor isposinf(const Tensor& x);
Tensor isneginf(const Tensor& x);
/// Whether |a - b| <= atol + rtol * |b|, elementwise.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);
/// True if shapes and values are the same.
bool equal(const Tensor& a, const Tensor& b);
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
/// \}

/// \name Mantissa and exponent
/// \{
/// What frexp() returns.
struct Frexp {
  Tensor mantissa;  ///< in [0.5, 1) with the sign of x, or x itself if it is 0, infinite or NaN
  Tensor exponent;  ///< int32; 0 for such x
};
/// x = mantissa * 2^exponent. An Error unless x is floating.
Frexp frexp(const Tensor& x);
/// \}

/// \name Operators
/// \{
Tensor operator-(const Tensor& x);
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, Scalar b);
Tensor operator+(Scalar a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, Scalar b);
Tensor operator-(Scalar a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, Scalar b);
Tensor operator*(Scalar a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, Scalar b);
Tensor operator/(Scalar a, const Tensor& b);
const Tensor& operator+=(const Tensor& a, const Tensor& b);
const Tensor& operator+=(const Tensor& a, Scalar b);
const Tensor& operator-=(const Tensor& a, const Tensor& b);
const Tensor& operator-=(const Tensor& a, Scalar b);
const Tensor& operator*=(const Tensor& a, const Tensor& b);
const Tensor& operator*=(const Tensor& a, Scalar b);
const Tensor& operator/=(const Tensor& a, const Tensor& b);
const Tensor& operator/=(const Tensor& a, Scalar b);
Tensor operator%(const Tensor& a, const Tensor& b);
Tensor operator%(const Tensor& a, Scalar b);
Tensor operator%(Scalar a, const Tensor& b);
/// Bitwise operations on integers and masks (bool).
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator~(const Tensor& x);
Tensor operator&(const Tensor& a, Scalar b);
Tensor operator|(const Tensor& a, Scalar b);
Tensor operator^(const Tensor& a, Scalar b);
Tensor operator<<(const Tensor& x, const Tensor& places);
Tensor operator<<(const Tensor& x, Scalar places);
Tensor operator>>(const Tensor& x, const Tensor& places);
Tensor operator>>(const Tensor& x, Scalar places);
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& a, Scalar b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, Scalar b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, Scalar b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, Scalar b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, Scalar b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, Scalar b);
/// \}

/// \name Second names, as PyTorch has them; errors call an operation by its first name
/// \{
inline Tensor subtract(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor subtract(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor subtract(const Tensor& a, const Tensor& b, Scalar alpha) { return sub(a, b, alpha); }
inline Tensor multiply(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor multiply(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor divide(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor divide(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor divide(const Tensor& a, const Tensor& b, Rounding rounding) {
  return div(a, b, rounding);
}
inline Tensor divide(const Tensor& a, Scalar b, Rounding rounding) { return div(a, b, rounding); }
inline Tensor true_divide(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor true_divide(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor negative(const Tensor& x) { return neg(x); }
inline Tensor absolute(const Tensor& x) { return abs(x); }
inline Tensor clip(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {}) {
  return clamp(x, low, high);
}
inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
inline Tensor less(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor less(const Tensor& a, Scalar b) { return lt(a, b); }
inline Tensor less_equal(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor less_equal(const Tensor& a, Scalar b) { return le(a, b); }
inline Tensor greater(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor greater(const Tensor& a, Scalar b) { return gt(a, b); }
inline Tensor greater_equal(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor greater_equal(const Tensor& a, Scalar b) { return ge(a, b); }
inline Tensor not_equal(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor not_equal(const Tensor& a, Scalar b) { return ne(a, b); }
inline Tensor arcsin(const Tensor& x) { return asin(x); }
inline Tensor arccos(const Tensor& x) { return acos(x); }
inline Tensor arctan(const Tensor& x) { return atan(x); }
inline Tensor arcsinh(const Tensor& x) { return asinh(x); }
inline Tensor arccosh(const Tensor& x) { return acosh(x); }
inline Tensor arctanh(const Tensor& x) { return atanh(x); }
inline Tensor arctan2(const Tensor& a, const Tensor& b) { return atan2(a, b); }
inline Tensor sgn(const Tensor& x) { return sign(x); }
/// \}

}  // namespace hero
