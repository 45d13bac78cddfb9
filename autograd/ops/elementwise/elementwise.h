#pragma once
// Elementwise operations: arithmetic, powers, exponentials, trigonometry, rounding, comparisons,
// bits, choices and bounds, operators. Names, arguments and behaviour are PyTorch's; operations
// broadcast by NumPy's rules and promote dtypes (core/array/promotion.h), and functions of floats
// convert integers to float32. docs/differences.md lists the differences. Gradients at kinks: those
// of abs and sign are 0 at 0; equal values of maximum and minimum get half each. Functions that are
// members of Tensor, too, are declared by lines of elementwise_list.h. Activations are in nn.h,
// other special functions in special.h.
#include <optional>

#include <hero/autograd/tensor.h>

namespace hero {

// NOLINTBEGIN(bugprone-macro-parentheses): names of functions and of parameters
#define HERO_UNARY(f) Tensor f(const Tensor& x);
#define HERO_BINARY(f, a, b) Tensor f(const Tensor& a, const Tensor& b);
#define HERO_NUMBER(f, a, b) /** The same with a number as second operand. */ \
  Tensor f(const Tensor& a, Scalar b);
#define HERO_UNARY_NAME(second, f) \
  /** f(x). */                     \
  inline Tensor second(const Tensor& x) { return f(x); }
#define HERO_BINARY_NAME(second, f) \
  /** f(a, b). */                   \
  inline Tensor second(const Tensor& a, const Tensor& b) { return f(a, b); }
#define HERO_NUMBER_NAME(second, f) \
  /** f(a, b). */                   \
  inline Tensor second(const Tensor& a, Scalar b) { return f(a, b); }
// NOLINTEND(bugprone-macro-parentheses)
#include <hero/autograd/ops/elementwise/elementwise_list.h>

/// \name Numbers in front, and further arguments
/// \{
Tensor sub(Scalar a, const Tensor& b);
Tensor div(Scalar a, const Tensor& b);
Tensor pow(Scalar base, const Tensor& exponent);
Tensor float_power(Scalar base, const Tensor& exponent);
Tensor remainder(Scalar a, const Tensor& b);
Tensor floor_divide(Scalar a, const Tensor& b);
Tensor bitwise_and(Scalar a, const Tensor& b);
Tensor bitwise_or(Scalar a, const Tensor& b);
Tensor bitwise_xor(Scalar a, const Tensor& b);
Tensor bitwise_left_shift(Scalar x, const Tensor& places);
Tensor bitwise_right_shift(Scalar x, const Tensor& places);
/// Rounds half to even, to `decimals` decimals, or if negative, to tens, hundreds, and so on.
Tensor round(const Tensor& x, int64_t decimals);
/// How div() rounds the quotient: towards zero, or down.
enum class Rounding { trunc, floor };
/// The quotient rounded towards zero or down, which for integers is an integer; its gradient is 0.
Tensor div(const Tensor& a, const Tensor& b, Rounding rounding);
Tensor div(const Tensor& a, Scalar b, Rounding rounding);
Tensor div(Scalar a, const Tensor& b, Rounding rounding);
inline Tensor divide(const Tensor& a, const Tensor& b, Rounding rounding) {
  return div(a, b, rounding);
}
inline Tensor divide(const Tensor& a, Scalar b, Rounding rounding) { return div(a, b, rounding); }
/// a + alpha b and a - alpha b; half precision is rounded only once.
Tensor add(const Tensor& a, const Tensor& b, Scalar alpha);
Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha);
inline Tensor subtract(const Tensor& a, const Tensor& b, Scalar alpha) { return sub(a, b, alpha); }
/// The number next to x in the direction of `towards`, in the promoted dtype of both. x gets the
/// whole gradient unless both are equal, and `towards` the gradient 0. Throws an Error unless one
/// of them is floating.
Tensor nextafter(const Tensor& x, const Tensor& towards);
/// a + weight * (b - a), which is exactly b for the weight 1. The tensors broadcast, and the result
/// has their promoted dtype, float32 if they are integers; half precision is rounded once.
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// x + value * a * b. For integer tensors the result is an integer, and the fraction of value is
/// cut off.
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
inline Tensor clip(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {}) {
  return clamp(x, low, high);
}
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
/// 0 for x < 0, `values` for x = 0, and 1 for x > 0; without gradient.
Tensor heaviside(const Tensor& x, const Tensor& values);
/// \}

/// \name Comparison of whole tensors, and with tolerances
/// \{
/// Whether |a - b| <= atol + rtol * |b|, elementwise.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);
/// True if shapes and values are the same.
bool equal(const Tensor& a, const Tensor& b);
/// \}

/// \name Mantissa and exponent
/// \{
/// What frexp() returns.
struct Frexp {
  Tensor mantissa;  ///< in [0.5, 1) with the sign of x, or x itself if it is 0, infinite or NaN
  Tensor exponent;  ///< int32; 0 for such x
};
/// x = mantissa * 2^exponent. Throws an Error unless x is floating.
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

}  // namespace hero
