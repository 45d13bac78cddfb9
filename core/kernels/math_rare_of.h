#pragma once
// The functions that math_rare.h names.
#include <hero/core/kernels/math_bessel.h>
#include <hero/core/kernels/math_gamma.h>
#include <hero/core/kernels/math_rare.h>
#include <hero/core/kernels/math_special.h>

namespace hero::math {

/// e^(x^2) erfc(x); infinite far below 0.
HERO_HD inline double erfcx(double x) {
  if (x >= 28.0) {
    // The asymptotic series, Abramowitz and Stegun, 7.1.23.
    const double z = 0.5 / (x * x);
    double sum = 1.0;
    for (int k = 13; k > 0; k -= 2) sum = 1.0 - k * z * sum;
    return sum * 0.56418958354775628695 / x;
  }
  if (x >= 0.5) return detail::erfc_scaled(x) / std::fma(2.0, x, 1.0);
  // e^(x^2) to its last digits: what is rounded off the square counts, too.
  const double high = x * x, low = std::fma(x, x, -high), e = std::exp(high);
  if (e == std::numeric_limits<double>::infinity()) return e;
  return std::fma(e, low, e) * erfc(x);
}

/// The logarithm of the standard normal distribution's probability of numbers below x.
HERO_HD inline double log_ndtr(double x) {
  constexpr double kRootHalf = 0.70710678118654752440;
  const double t = x * kRootHalf;
  if (x < -1.0) return std::log(erfcx(-t) / 2.0) - x * x / 2.0;
  if (x < 1.0) return std::log1p(-erfc(t) / 2.0);
  if (x > 39.0) return -0.0;
  const double high = x * x / 2.0, low = std::fma(x, x / 2.0, -high), e = std::exp(-high);
  return std::log1p(std::fma(e, -low, e) * erfcx(t) / -2.0);
}

/// The x whose probability in the standard normal distribution is p; infinite at 0 and 1, NaN
/// outside.
HERO_HD inline double ndtri(double p) {
  constexpr double kRootTwo = 1.41421356237309504880;
  if (p < 0.0 || p > 1.0) return std::numeric_limits<double>::quiet_NaN();  // 2 p - 1 may be -1
  if (p > 0.0 && p < 0.25) return -kRootTwo * detail::erfc_inverse(2.0 * p);
  return kRootTwo * erfinv(2.0 * p - 1.0);
}

/// The number next to x towards y in a format with this many digits, given the exponents of its
/// least and its largest power of 2.
HERO_HD inline double next_towards(double x, double y, int digits, int least, int largest) {
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0.0) return std::copysign(std::ldexp(1.0, least), y);
  const double a = std::fabs(x), most = std::ldexp(2.0 - std::ldexp(1.0, 1 - digits), largest);
  const bool away = (y > x) == (x > 0.0);
  if (a > most) return std::copysign(most, x);
  int exponent = 0;
  const double mantissa = std::frexp(a, &exponent);
  exponent -= digits + (!away && mantissa == 0.5 ? 1 : 0);
  const double step = std::ldexp(1.0, exponent < least ? least : exponent);
  return std::copysign(away ? a + step : a - step, x);
}

HERO_HD inline double rare_of(Rare which, double x, double y) {
  int exponent = 0;
  switch (which) {
    case Rare::i0:
      return i0(x);
    case Rare::i0e:
      return i0e(x);
    case Rare::i1:
      return i1(x);
    case Rare::i1e:
      return i1e(x);
    case Rare::bessel_j0:
      return bessel_j0(x);
    case Rare::bessel_j1:
      return bessel_j1(x);
    case Rare::bessel_y0:
      return bessel_y0(x);
    case Rare::bessel_y1:
      return bessel_y1(x);
    case Rare::erfcx:
      return erfcx(x);
    case Rare::log_ndtr:
      return log_ndtr(x);
    case Rare::ndtri:
      return ndtri(x);
    case Rare::gammainc:
      return gamma_incomplete(x, y, true);
    case Rare::gammaincc:
      return gamma_incomplete(x, y, false);
    case Rare::zeta:
      return zeta(x, y);
    case Rare::mantissa:
      return std::frexp(x, &exponent);
    case Rare::exponent:
      std::frexp(x, &exponent);
      return x - x == 0.0 ? exponent : 0;
    case Rare::next_double:
      return std::nextafter(x, y);
    case Rare::next_float:
      return next_towards(x, y, 24, -149, 127);
    case Rare::next_bfloat16:
      return next_towards(x, y, 8, -133, 127);
    case Rare::next_float16:
      return next_towards(x, y, 11, -24, 15);
  }
  return x;
}

#if defined(__CUDACC__)
HERO_HD inline double rare(Rare which, double x, double y) { return rare_of(which, x, y); }
#endif

}  // namespace hero::math
