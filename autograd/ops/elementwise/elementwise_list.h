// Elementwise functions that are members of Tensor, too, one line each, below their text in the
// reference. A file that includes this list first defines macros, which say what a line becomes:
//
//   HERO_UNARY(f)             f(x), a member x.f()
//   HERO_BINARY(f, a, b)      f(a, b) of two tensors, a member a.f(b)
//   HERO_NUMBER(f, a, b)      f(a, b) of a tensor and a number, a member a.f(b)
//   HERO_.._IN_PLACE(..)      the same, and a member f_() in place; if the file does not define
//                             it, like the line without IN_PLACE
//   HERO_.._NAME(second, f)   a second name of the function f above
//
// So elementwise.h declares the functions, tensor.h the members, members.cpp and in_place.cpp
// define these, and tests compare both. A line whose macro is not defined stands for nothing.
#ifndef HERO_UNARY
#define HERO_UNARY(f)
#endif
#ifndef HERO_UNARY_IN_PLACE
#define HERO_UNARY_IN_PLACE(f) HERO_UNARY(f)
#endif
#ifndef HERO_BINARY
#define HERO_BINARY(f, a, b)
#endif
#ifndef HERO_BINARY_IN_PLACE
#define HERO_BINARY_IN_PLACE(f, a, b) HERO_BINARY(f, a, b)
#endif
#ifndef HERO_NUMBER
#define HERO_NUMBER(f, a, b)
#endif
#ifndef HERO_NUMBER_IN_PLACE
#define HERO_NUMBER_IN_PLACE(f, a, b) HERO_NUMBER(f, a, b)
#endif
#ifndef HERO_UNARY_NAME
#define HERO_UNARY_NAME(second, f)
#endif
#ifndef HERO_BINARY_NAME
#define HERO_BINARY_NAME(second, f)
#endif
#ifndef HERO_NUMBER_NAME
#define HERO_NUMBER_NAME(second, f)
#endif

/// \name One input
/// \{
/// Minus x. Elementwise, in the shape and dtype of x.
HERO_UNARY_IN_PLACE(neg)
HERO_UNARY_NAME(negative, neg)
/// The magnitude of x. The gradient at 0 is 0. Elementwise, in the shape and dtype of x.
HERO_UNARY_IN_PLACE(abs)
HERO_UNARY_NAME(absolute, abs)
/// -1, 0 or 1, as x is negative, zero or positive; NaN stays. The gradient is 0. Elementwise, in
/// the shape and dtype of x.
HERO_UNARY_IN_PLACE(sign)
HERO_UNARY_NAME(sgn, sign)
/// e to the power of x. Elementwise, in the shape of x. Floating dtypes are kept; integers and
/// bools are computed in float32.
HERO_UNARY_IN_PLACE(exp)
/// 2 to the power of x. Elementwise, in the shape of x. Floating dtypes are kept; integers and
/// bools are computed in float32.
HERO_UNARY_IN_PLACE(exp2)
// [snippet: line]
/// exp(x) - 1, without cancellation for small x. Elementwise, in the shape of x. Floating dtypes
/// are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(expm1)
// [end]
/// The natural logarithm: -infinity at 0, NaN below. Elementwise, in the shape of x. Floating
/// dtypes are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(log)
/// The logarithm to base 2. Elementwise, in the shape of x. Floating dtypes are kept; integers and
/// bools are computed in float32.
HERO_UNARY_IN_PLACE(log2)
/// log(1 + x), without cancellation for small x. Elementwise, in the shape of x. Floating dtypes
/// are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(log1p)
/// The logarithm to base 10. Elementwise, in the shape of x. Floating dtypes are kept; integers and
/// bools are computed in float32.
HERO_UNARY_IN_PLACE(log10)
/// The square root; NaN below 0. Elementwise, in the shape of x. Floating dtypes are kept; integers
/// and bools are computed in float32.
HERO_UNARY_IN_PLACE(sqrt)
/// 1 / sqrt(x). Elementwise, in the shape of x. Floating dtypes are kept; integers and bools are
/// computed in float32.
HERO_UNARY_IN_PLACE(rsqrt)
/// x * x. Elementwise, in the shape and dtype of x.
HERO_UNARY_IN_PLACE(square)
/// 1 / x. Elementwise, in the shape of x. Floating dtypes are kept; integers and bools are computed
/// in float32.
HERO_UNARY_IN_PLACE(reciprocal)
/// The sine of x in radians. Elementwise, in the shape of x. Floating dtypes are kept; integers and
/// bools are computed in float32.
HERO_UNARY_IN_PLACE(sin)
/// The cosine of x in radians. Elementwise, in the shape of x. Floating dtypes are kept; integers
/// and bools are computed in float32.
HERO_UNARY_IN_PLACE(cos)
/// The tangent of x in radians. Elementwise, in the shape of x. Floating dtypes are kept; integers
/// and bools are computed in float32.
HERO_UNARY_IN_PLACE(tan)
/// The angle between -pi/2 and pi/2 whose sine is x; NaN outside of [-1, 1]. Elementwise, in the
/// shape of x. Floating dtypes are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(asin)
HERO_UNARY_NAME(arcsin, asin)
/// The angle between 0 and pi whose cosine is x; NaN outside of [-1, 1]. Elementwise, in the shape
/// of x. Floating dtypes are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(acos)
HERO_UNARY_NAME(arccos, acos)
/// The arc tangent of x, between -pi/2 and pi/2. Elementwise, in the shape of x. Floating dtypes
/// are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(atan)
HERO_UNARY_NAME(arctan, atan)
/// (exp(x) - exp(-x)) / 2. Elementwise, in the shape of x. Floating dtypes are kept; integers and
/// bools are computed in float32.
HERO_UNARY_IN_PLACE(sinh)
/// (exp(x) + exp(-x)) / 2. Elementwise, in the shape of x. Floating dtypes are kept; integers and
/// bools are computed in float32.
HERO_UNARY_IN_PLACE(cosh)
/// sinh(x) / cosh(x), between -1 and 1. Elementwise, in the shape of x. Floating dtypes are kept;
/// integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(tanh)
/// The number whose sinh is x: log(x + sqrt(x^2 + 1)). Elementwise, in the shape of x. Floating
/// dtypes are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(asinh)
HERO_UNARY_NAME(arcsinh, asinh)
/// The number not below 0 whose cosh is x; NaN below 1. Elementwise, in the shape of x. Floating
/// dtypes are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(acosh)
HERO_UNARY_NAME(arccosh, acosh)
/// The number whose tanh is x; infinite at -1 and 1, NaN beyond. Elementwise, in the shape of x.
/// Floating dtypes are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(atanh)
HERO_UNARY_NAME(arctanh, atanh)
/// 1 / (1 + exp(-x)), without overflow. Elementwise, in the shape of x. Floating dtypes are kept;
/// integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(sigmoid)
HERO_UNARY_NAME(expit, sigmoid)
/// x above 0, and 0 below; NaN stays. The gradient at 0 is 0. Elementwise, in the shape and dtype
/// of x.
HERO_UNARY_IN_PLACE(relu)
/// sin(pi x) / (pi x), and 1 at 0. Elementwise, in the shape of x. Floating dtypes are kept;
/// integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(sinc)
/// x pi / 180. Elementwise, in the shape of x. Floating dtypes are kept; integers and bools are
/// computed in float32.
HERO_UNARY_IN_PLACE(deg2rad)
/// 180 x / pi. Elementwise, in the shape of x. Floating dtypes are kept; integers and bools are
/// computed in float32.
HERO_UNARY_IN_PLACE(rad2deg)
/// The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x. Elementwise, in
/// the shape of x. Floating dtypes are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(erf)
/// 1 - erf(x), without cancellation. Elementwise, in the shape of x. Floating dtypes are kept;
/// integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(erfc)
/// The inverse of erf() on [-1, 1]; NaN outside. Elementwise, in the shape of x. Floating dtypes
/// are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(erfinv)
/// ln |Gamma(x)|. Elementwise, in the shape of x. Floating dtypes are kept; integers and bools are
/// computed in float32.
HERO_UNARY_IN_PLACE(lgamma)
HERO_UNARY_NAME(gammaln, lgamma)
/// The derivative of lgamma(); NaN at negative integers, -inf at 0. Elementwise, in the shape of x.
/// Floating dtypes are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(digamma)
HERO_UNARY_NAME(psi, digamma)
/// The modified Bessel function of the first kind, of order 0. Elementwise, in the shape of x.
/// Floating dtypes are kept; integers and bools are computed in float32.
HERO_UNARY_IN_PLACE(i0)
/// \}

/// \name Rounding
/// \{
/// The largest integer that is not above x. The gradient is 0. Elementwise, in the shape and dtype
/// of x.
HERO_UNARY_IN_PLACE(floor)
/// The smallest integer that is not below x. The gradient is 0. Elementwise, in the shape and dtype
/// of x.
HERO_UNARY_IN_PLACE(ceil)
/// Rounds to the nearest integer, half to even.
HERO_UNARY_IN_PLACE(round)
/// Rounds towards zero.
HERO_UNARY_IN_PLACE(trunc)
/// Another name of trunc().
HERO_UNARY(fix)
/// x - trunc(x), which has the sign of x.
HERO_UNARY_IN_PLACE(frac)
/// \}

/// \name Two inputs
/// \{
/// a + b. Elementwise: shapes broadcast, and dtypes are promoted.
/// \snippet test_examples_tensors.cpp broadcast
HERO_BINARY(add, a, b)
HERO_NUMBER(add, a, b)
/// a - b. Elementwise: shapes broadcast, and dtypes are promoted.
HERO_BINARY(sub, a, b)
HERO_NUMBER(sub, a, b)
HERO_BINARY_NAME(subtract, sub)
HERO_NUMBER_NAME(subtract, sub)
/// a * b. Elementwise: shapes broadcast, and dtypes are promoted.
HERO_BINARY(mul, a, b)
HERO_NUMBER(mul, a, b)
HERO_BINARY_NAME(multiply, mul)
HERO_NUMBER_NAME(multiply, mul)
/// The true quotient; for integers it is float32.
HERO_BINARY(div, a, b)
HERO_NUMBER(div, a, b)
HERO_BINARY_NAME(divide, div)
HERO_NUMBER_NAME(divide, div)
HERO_BINARY_NAME(true_divide, div)
HERO_NUMBER_NAME(true_divide, div)
/// base to the power of exponent. Integers stay integers: an exponent that is a number must then
/// not be negative, and a negative element of an integer exponent gives 0, except for the bases 1
/// and -1.
HERO_BINARY_IN_PLACE(pow, base, exponent)
HERO_NUMBER_IN_PLACE(pow, base, exponent)
/// pow() in float64.
HERO_BINARY(float_power, base, exponent)
HERO_NUMBER(float_power, base, exponent)
/// The remainder with the sign of the divisor, as Python's %, which is exact however large the
/// quotient is; for an integer and 0 it is 0. The quotient has no gradient.
HERO_BINARY_IN_PLACE(remainder, a, b)
HERO_NUMBER_IN_PLACE(remainder, a, b)
/// The quotient rounded down, as Python's //, without gradient; an integer divided by 0 gives 0.
HERO_BINARY_IN_PLACE(floor_divide, a, b)
HERO_NUMBER_IN_PLACE(floor_divide, a, b)
/// The remainder with the sign of a, as C's fmod(); for an integer and 0 it is 0. remainder() has
/// the sign of b.
HERO_BINARY_IN_PLACE(fmod, a, b)
HERO_NUMBER_IN_PLACE(fmod, a, b)
/// The larger of a and b; NaN wins. Equal values share the gradient. Elementwise: shapes broadcast,
/// and dtypes are promoted.
HERO_BINARY(maximum, a, b)
/// The smaller of a and b; NaN wins. Equal values share the gradient. Elementwise: shapes
/// broadcast, and dtypes are promoted.
HERO_BINARY(minimum, a, b)
HERO_BINARY_NAME(max, maximum)
HERO_BINARY_NAME(min, minimum)
/// The larger of a and b; for a number and a NaN it is the number. Elementwise: shapes broadcast,
/// and dtypes are promoted.
HERO_BINARY(fmax, a, b)
/// The smaller of a and b; for a number and a NaN it is the number. Elementwise: shapes broadcast,
/// and dtypes are promoted.
HERO_BINARY(fmin, a, b)
/// The angle of the point (abscissa, ordinate), between -pi and pi. Elementwise: shapes broadcast,
/// and dtypes are promoted. Integers are computed in float32.
HERO_BINARY_IN_PLACE(atan2, ordinate, abscissa)
HERO_BINARY_NAME(arctan2, atan2)
/// sqrt(a^2 + b^2) without overflow; if both are 0, the gradient is NaN.
HERO_BINARY_IN_PLACE(hypot, a, b)
/// The magnitude of a with the sign of b, also if b is a zero; if a is 0, its gradient is 0.
HERO_BINARY_IN_PLACE(copysign, a, b)
HERO_NUMBER_IN_PLACE(copysign, a, b)
/// log(exp(a) + exp(b)) without overflow.
HERO_BINARY(logaddexp, a, b)
/// log2(2^a + 2^b) without overflow.
HERO_BINARY(logaddexp2, a, b)
/// x * 2^exponent.
HERO_BINARY_IN_PLACE(ldexp, x, exponent)
/// x log(y), and 0 if x is 0 and y is not NaN.
HERO_BINARY_IN_PLACE(xlogy, x, y)
HERO_NUMBER(xlogy, x, y)
/// The greatest common divisor of integers, not negative; gcd(a, 0) = |a|.
HERO_BINARY_IN_PLACE(gcd, a, b)
/// The least common multiple of integers, not negative; 0 if one of them is 0.
HERO_BINARY_IN_PLACE(lcm, a, b)
/// clamp() with a lower bound only.
HERO_BINARY_IN_PLACE(clamp_min, x, low)
HERO_NUMBER_IN_PLACE(clamp_min, x, low)
/// clamp() with an upper bound only.
HERO_BINARY_IN_PLACE(clamp_max, x, high)
HERO_NUMBER_IN_PLACE(clamp_max, x, high)
/// \}

/// \name Comparison and logic: results are bool, without gradient
/// \{
/// Whether a equals b. Elementwise: shapes broadcast. The result is bool and has no gradient.
HERO_BINARY(eq, a, b)
HERO_NUMBER(eq, a, b)
/// Whether a differs from b; true for NaN. Elementwise: shapes broadcast. The result is bool and
/// has no gradient.
HERO_BINARY(ne, a, b)
HERO_NUMBER(ne, a, b)
HERO_BINARY_NAME(not_equal, ne)
HERO_NUMBER_NAME(not_equal, ne)
/// Whether a is less than b; false for NaN. Elementwise: shapes broadcast. The result is bool and
/// has no gradient.
HERO_BINARY(lt, a, b)
HERO_NUMBER(lt, a, b)
HERO_BINARY_NAME(less, lt)
HERO_NUMBER_NAME(less, lt)
/// Whether a is at most b; false for NaN. Elementwise: shapes broadcast. The result is bool and has
/// no gradient.
HERO_BINARY(le, a, b)
HERO_NUMBER(le, a, b)
HERO_BINARY_NAME(less_equal, le)
HERO_NUMBER_NAME(less_equal, le)
/// Whether a is greater than b; false for NaN. Elementwise: shapes broadcast. The result is bool
/// and has no gradient.
HERO_BINARY(gt, a, b)
HERO_NUMBER(gt, a, b)
HERO_BINARY_NAME(greater, gt)
HERO_NUMBER_NAME(greater, gt)
/// Whether a is at least b; false for NaN. Elementwise: shapes broadcast. The result is bool and
/// has no gradient.
HERO_BINARY(ge, a, b)
HERO_NUMBER(ge, a, b)
HERO_BINARY_NAME(greater_equal, ge)
HERO_NUMBER_NAME(greater_equal, ge)
/// Whether both are not 0. Elementwise: shapes broadcast. The result is bool and has no gradient.
HERO_BINARY_IN_PLACE(logical_and, a, b)
/// Whether at least one is not 0. Elementwise: shapes broadcast. The result is bool and has no
/// gradient.
HERO_BINARY_IN_PLACE(logical_or, a, b)
/// Whether exactly one is not 0. Elementwise: shapes broadcast. The result is bool and has no
/// gradient.
HERO_BINARY_IN_PLACE(logical_xor, a, b)
/// Whether x is 0. Bool, in the shape of x, without gradient.
HERO_UNARY_IN_PLACE(logical_not)
/// Whether x is NaN. Bool, in the shape of x, without gradient.
HERO_UNARY(isnan)
/// Whether x is infinite. Bool, in the shape of x, without gradient.
HERO_UNARY(isinf)
/// Whether x is neither infinite nor NaN. Bool, in the shape of x, without gradient.
HERO_UNARY(isfinite)
/// True if the sign bit is set, also for -0 and NaN.
HERO_UNARY(signbit)
/// Whether x is +infinity. Bool, in the shape of x, without gradient.
HERO_UNARY(isposinf)
/// Whether x is -infinity. Bool, in the shape of x, without gradient.
HERO_UNARY(isneginf)
/// \}

/// \name Bitwise operations on integers and bools
/// \{
/// The bits that are set in both, of integers; logical_and() of bools. Elementwise: shapes
/// broadcast, and dtypes are promoted.
HERO_BINARY_IN_PLACE(bitwise_and, a, b)
HERO_NUMBER(bitwise_and, a, b)
/// The bits that are set in at least one, of integers; logical_or() of bools. Elementwise: shapes
/// broadcast, and dtypes are promoted.
HERO_BINARY_IN_PLACE(bitwise_or, a, b)
HERO_NUMBER(bitwise_or, a, b)
/// The bits that are set in exactly one, of integers; logical_xor() of bools. Elementwise: shapes
/// broadcast, and dtypes are promoted.
HERO_BINARY_IN_PLACE(bitwise_xor, a, b)
HERO_NUMBER(bitwise_xor, a, b)
/// Inverts all bits; for bools it is logical_not().
HERO_UNARY_IN_PLACE(bitwise_not)
/// Shifts bits to the left; gives 0 if all bits are shifted out, or `places` is negative.
HERO_BINARY_IN_PLACE(bitwise_left_shift, x, places)
HERO_NUMBER(bitwise_left_shift, x, places)
/// Shifts bits to the right and fills with the sign; if `places` is negative, all bits are shifted
/// out.
HERO_BINARY_IN_PLACE(bitwise_right_shift, x, places)
HERO_NUMBER(bitwise_right_shift, x, places)
/// \}

#undef HERO_UNARY
#undef HERO_UNARY_IN_PLACE
#undef HERO_BINARY
#undef HERO_BINARY_IN_PLACE
#undef HERO_NUMBER
#undef HERO_NUMBER_IN_PLACE
#undef HERO_UNARY_NAME
#undef HERO_BINARY_NAME
#undef HERO_NUMBER_NAME
