#pragma once
// Elementary functions of one element, host and device, float and double. The float ones are
// branch-free and become vector code in a plain loop over contiguous memory; their bits do not
// depend on the width of the vectors. NaN comes out as NaN; infinities, zeros and denormals behave
// as in IEEE 754 and C. Bounds in ulp are largest errors found in sweeps over all of float, rounded
// up.
#include <cmath>

#include <hero/core/kernels/math_bits.h>
#include <hero/core/kernels/math_double.h>
#include <hero/core/kernels/math_float.h>
#include <hero/core/kernels/math_wide.h>

namespace hero::math {

/// \name Those of double that have code of their own for loops.
/// \{
[[gnu::always_inline]] HERO_HD inline float exp_in_vectors(float x) { return exp(x); }
[[gnu::always_inline]] HERO_HD inline float sigmoid_in_vectors(float x) { return sigmoid(x); }
[[gnu::always_inline]] HERO_HD inline float tanh_in_vectors(float x) { return tanh(x); }
/// \}

HERO_HD inline float sqrt(float x) { return std::sqrt(x); }
HERO_HD inline double sqrt(double x) { return std::sqrt(x); }

/// 1 / sqrt(x); at most 1.5 ulp.
HERO_HD inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
HERO_HD inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }

HERO_HD inline float abs(float x) { return std::fabs(x); }
HERO_HD inline double abs(double x) { return std::fabs(x); }

HERO_HD inline float floor(float x) { return std::floor(x); }
HERO_HD inline double floor(double x) { return std::floor(x); }

/// The exact remainder of x after whole multiples of y, with x's sign.
HERO_HD inline float fmod(float x, float y) { return std::fmod(x, y); }
HERO_HD inline double fmod(double x, double y) { return std::fmod(x, y); }

/// The nearest integer, ties to the even one.
HERO_HD inline float round(float x) { return std::rint(x); }
HERO_HD inline double round(double x) { return std::rint(x); }

/// -1, 0 or 1; a zero keeps its sign, and NaN stays NaN.
HERO_HD inline float sign(float x) { return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x); }
HERO_HD inline double sign(double x) { return x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : x); }

}  // namespace hero::math
