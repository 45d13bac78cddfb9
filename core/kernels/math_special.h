#pragma once
// Functions that training seldom needs, of one element, host and device. They are computed in
// double; the float ones are rounded once. Functions of one line call the platform's libm.
#include <cmath>
#include <limits>

#include <hero/core/kernels/math_double_own.h>
#include <hero/core/kernels/math_wide.h>

namespace hero::math {

HERO_HD inline double asin(double x) { return std::asin(x); }
HERO_HD inline double acos(double x) { return std::acos(x); }
HERO_HD inline double asinh(double x) { return std::asinh(x); }
HERO_HD inline double atanh(double x) { return std::atanh(x); }
HERO_HD inline double log10(double x) { return std::log10(x); }

namespace detail {

// The polynomial of Giles, "Approximating the erfinv function", GPU Computing Gems Jade, 2011,
// table 2: to about 1e-7 of the result.
HERO_HD inline double erfinv_near(double x) {
  double w = -std::log1p(-x * x);
  if (w < 5.0) {
    w -= 2.5;
    const double c[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                        -4.39150654e-06, 0.00021858087,  -0.00125372503,
                        -0.00417768164,  0.246640727,    1.50140941};
    double p = c[0];
    for (int i = 1; i < 9; ++i) p = p * w + c[i];
    return p * x;
  }
  w = std::sqrt(w) - 3.0;
  const double c[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                      -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  double p = c[0];
  for (int i = 1; i < 9; ++i) p = p * w + c[i];
  return p * x;
}

/// The y with erfc(y) = rest, for rest in (0, 0.5]. Newton's steps are taken on the logarithm,
/// which is almost a parabola; beyond the polynomial's reach they begin at the leading terms of the
/// tail.
HERO_HD inline double erfc_inverse(double rest) {
  const double far = -std::log(rest);
  double y = far > 14.0 ? std::sqrt(far - 0.5 * std::log(3.14159265358979323846 * far))
                        : erfinv_near(1.0 - rest);
  for (int i = 0; i < 4; ++i) {
    const double tail = erfc(y);
    y += std::log(tail / rest) * tail / (1.1283791670955126 * std::exp(-y * y));
  }
  return y;
}

}  // namespace detail

/// The inverse of erf on [-1, 1]; infinite at the ends, NaN outside.
HERO_HD inline double erfinv(double x) {
  const double a = std::fabs(x), infinity = std::numeric_limits<double>::infinity();
  if (!(a < 1.0)) return a == 1.0 ? std::copysign(infinity, x) : (x - x) / 0.0 * 0.0;
  if (a < 0.5) {
    double y = detail::erfinv_near(a);
    for (int i = 0; i < 2; ++i) y -= (erf(y) - a) / (1.1283791670955126 * std::exp(-y * y));
    return std::copysign(y, x);
  }
  // Near 1 the digits are those of 1 - a and erfc.
  return std::copysign(detail::erfc_inverse(1.0 - a), x);
}

/// The derivative of ln Gamma. Recurrence up to 10, from there the asymptotic series (Abramowitz
/// and Stegun, 6.3.18), reflection below 0; -inf and inf at the zeros, NaN at negative whole
/// numbers.
HERO_HD inline double digamma(double x) {
  constexpr double kPi = 3.14159265358979323846;
  if (x == 0.0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double result = 0.0;
  if (x < 0.0) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    result = -kPi / std::tan(kPi * (x - std::rint(x)));  // the distance to a pole is exact
    x = 1.0 - x;
  }
  for (; x < 10.0; x += 1.0) result -= 1.0 / x;
  const double z = 1.0 / (x * x);
  const double c[] = {1.0 / 12,  -691.0 / 32760, 1.0 / 132, -1.0 / 240,
                      1.0 / 252, -1.0 / 120,     1.0 / 12};
  double series = c[0];
  for (int i = 1; i < 7; ++i) series = series * z + c[i];
  return result + std::log(x) - 0.5 / x - z * series;
}

/// Hurwitz's zeta function, the sum over k >= 0 of (k + q)^-s, for s > 1: as many terms as it takes
/// to bring k + q above 10 + s, then Euler and Maclaurin's sum. Infinite at q = 0, -1, ...; for
/// other q below 0 NaN, unless s is whole and q above -1e5 or s is 2, where it is reflected.
HERO_HD inline double zeta(double s, double q) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  double sign = 1.0, sum = 0.0;
  if (s == 1.0) return std::numeric_limits<double>::infinity();
  if (!(s > 1.0) || q != q) return nan;
  if (q <= 0.0) {
    if (q == std::floor(q)) return std::numeric_limits<double>::infinity();
    if (s == 2.0) {
      const double sine = std::sin(3.14159265358979323846 * (q - std::rint(q)));
      sum = -9.86960440108935861883 / (sine * sine);
      sign = -1.0;
      q = 1.0 - q;
    } else if (s != std::floor(s) || q < -1e5) {
      return nan;
    }
  }
  double at = q;
  for (; at < 10.0 + s; at += 1.0) {
    const double term = std::pow(at, -s);
    sum += term;
    if (at > 0.0 && term <= 1e-17 * std::fabs(sum)) return sign * sum;
  }
  // Bernoulli's numbers B2k over (2k)!.
  const double c[] = {1.0 / 12,
                      -1.0 / 720,
                      1.0 / 30240,
                      -1.0 / 1209600,
                      1.0 / 47900160,
                      -691.0 / 1307674368000.0,
                      1.0 / 74724249600.0,
                      -3617.0 / 10670622842880000.0};
  const double power = std::pow(at, -s);
  // Far from 0 the power may be too small for a double where the first term is not.
  sum += (power > 1e-290 ? at * power : std::pow(at, 1.0 - s)) / (s - 1.0) + 0.5 * power;
  double factor = s, fall = power / at;
  for (int k = 0; k < 8; ++k) {
    sum += c[k] * factor * fall;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2);
    fall /= at * at;
  }
  return sign * sum;
}

// In float: the same, rounded.
#define HERO_IN_DOUBLE(function)                                 \
  HERO_HD inline float function(float x) {                       \
    return static_cast<float>(function(static_cast<double>(x))); \
  }
// Nine functions of one shape.
HERO_IN_DOUBLE(asin)
HERO_IN_DOUBLE(acos)
HERO_IN_DOUBLE(asinh)
HERO_IN_DOUBLE(acosh)
HERO_IN_DOUBLE(atanh)
HERO_IN_DOUBLE(log10)
HERO_IN_DOUBLE(erfc)
HERO_IN_DOUBLE(erfinv)
HERO_IN_DOUBLE(digamma)
#undef HERO_IN_DOUBLE

namespace detail {

/// ln x of a positive normal number, to 2^-51 of it, near 1 too.
[[gnu::always_inline]] HERO_HD inline double log_wide(double x) {
  const Split v = split_exponent(x);
  return std::fma(v.n, kLn2Hi64, std::fma(v.n, kLn2Lo64, log_ratio(v.f / (2.0 + v.f))));
}

}  // namespace detail

/// ln |Gamma(x)|, as of a double, but without a branch, so that it becomes vector code.
[[gnu::always_inline]] HERO_HD inline float lgamma(float x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kPi = 0x1.921fb54442d18p+1;
  using detail::keep, detail::mask, detail::select;
  const double a = std::fabs(static_cast<double>(x));
  // ln Gamma(a) below 8 by that of t in [1.25, 2.5] and the logarithm of a product, from there by
  // Stirling's series.
  const uint64_t below = mask(a < 1.25), far_below = mask(a < 0.5), large = mask(a >= 8.0);
  double t = a + keep(below, 1.0) + keep(far_below, 1.0);
  double product = select(below, a, 1.0) * select(far_below, a + 1.0, 1.0);
  for (int i = 0; i < 6; ++i) {
    const uint64_t above = mask(t >= 2.5);
    t -= keep(above, 1.0);
    product *= select(above, t, 1.0);
  }
  const double l = detail::log_wide(select(large, a, product));
  const double near = detail::lgamma_near_two(t - 2.0) + select(below, -l, l);
  const double z = 1.0 / a;
  const double series = z * detail::poly(z * z, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680,
                                         1.0 / 1188, -691.0 / 360360, 1.0 / 156, -3617.0 / 122400);
  const double far = std::fma(a - 0.5, l - 1.0, 0x1.acfe390c97d69p-2 + series);
  const double positive = select(large, far, near);
  // Below 0 by reflection: ln(pi / |x sin(pi x)|) - ln Gamma(-x).
  const double part = std::fabs(a - std::rint(a));
  const double sine = select(mask(part < 0.25), detail::sin_reduced(kPi * part),
                             detail::cos_reduced(kPi * (0.5 - part)));
  const double negative = detail::log_wide(kPi / (a * sine)) - positive;
  const uint64_t pole = mask(x <= 0.0f) & mask(part == 0.0), infinite = mask(a == kInfinity);
  const double result = select(mask(x < 0.0f), negative, positive);
  return static_cast<float>(select(pole | infinite, kInfinity, result));
}

HERO_HD inline float hypot(float x, float y) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (std::fabs(x) == kInfinity || std::fabs(y) == kInfinity) return kInfinity;
  const double a = x, b = y;  // whose squares are exact, and in range
  return static_cast<float>(std::sqrt(a * a + b * b));
}

}  // namespace hero::math
