#pragma once
// Incomplete gamma functions of double, host and device.
#include <cmath>
#include <limits>

#include <hero/core/kernels/math_double_own.h>

namespace hero::math {

namespace detail {

/// ln(1 + x) - x for x > -1, without cancellation near 0.
HERO_HD inline double log1p_less(double x) {
  if (std::fabs(x) > 0.3) return std::log1p(x) - x;
  // 2 atanh(s) - x with s = x / (2 + x), and x = 2 s + s x.
  const double s = x / (2.0 + x), z = s * s;
  double sum = 0.0;
  for (int k = 12; k >= 1; --k) sum = (sum + 1.0 / (2 * k + 1)) * z;
  return s * (2.0 * sum - x);
}

/// x^a e^-x / Gamma(a + 1) for a > 0 and x > 0, a relative error of about 1e-15.
HERO_HD inline double gamma_term(double a, double x) {
  if (a < 10.0) {
    // Gamma(t) of t in [1, 2.5), from which the product leads up.
    double product = 1.0, t = a + 1.0;
    while (t >= 2.5) t -= 1.0, product *= t;
    const double gamma = product * std::exp(lgamma_positive(t));
    const double fall = std::exp(-x);
    return fall == 0.0 ? 0.0 : std::pow(x, a) * fall / gamma;
  }
  // Stirling: Gamma(a + 1) = sqrt(2 pi a) a^a e^-a e^series.
  const double z = 1.0 / a;
  const double series = z * poly(z * z, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                                 -691.0 / 360360, 1.0 / 156, -3617.0 / 122400);
  const double mu = (x - a) / a, log_less = mu < -0.5 ? std::log(x / a) - mu : log1p_less(mu);
  return std::exp(a * log_less - series) / std::sqrt(6.28318530717958647693 * a);
}

/// The lower function by its series (Abramowitz and Stegun, 6.5.29), for x not far above a.
HERO_HD inline double gamma_by_series(double a, double x) {
  double term = 1.0, sum = 1.0;
  for (double n = a + 1.0; term > 1e-17 * sum; n += 1.0) {
    term *= x / n;
    sum += term;
  }
  return gamma_term(a, x) * sum;
}

/// The upper function for small a and x: 1 - x^a / Gamma(a + 1) (1 + a sum (-x)^k / ((a + k) k!)).
HERO_HD inline double gamma_upper_small(double a, double x) {
  double term = 1.0, sum = 0.0;
  for (int k = 1; k < 40; ++k) {
    term *= -x / k;
    sum += term / (a + k);
  }
  // ln Gamma(1 + a), to the last digits of a small a.
  const double gamma = a < 0.5 ? lgamma_near_two(a) - std::log1p(a) : lgamma_positive(a + 1.0);
  const double log_power = a * std::log(x) - gamma;
  return -std::expm1(log_power) - std::exp(log_power) * a * sum;
}

/// The upper function by its continued fraction (Abramowitz and Stegun, 6.5.31, in its even form),
/// by the method of Lentz (Thompson and Barnett, J. Comput. Phys. 64, 1986), for x > a.
HERO_HD inline double gamma_by_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1.0 - a, c = 1.0 / kTiny, d = 1.0 / b, value = d;
  for (int i = 1; i < 10000; ++i) {
    const double factor = -i * (i - a);
    b += 2.0;
    d = factor * d + b;
    d = 1.0 / (std::fabs(d) < kTiny ? kTiny : d);
    c = b + factor / c;
    c = std::fabs(c) < kTiny ? kTiny : c;
    value *= d * c;
    if (std::fabs(d * c - 1.0) < 1e-16) break;
  }
  return gamma_term(a, x) * a * value;
}

/// The upper function for large a and x within 30 percent of it, uniformly (Temme, SIAM J. Math.
/// Anal. 10, 1979; DLMF 8.12.7 and 8.12.8); the lower one where `lower`. The coefficients of a^-k
/// eta^n are those of the Taylor series.
HERO_HD inline double gamma_uniform(double a, double x, bool lower) {
  constexpr int kCounts[] = {15, 13, 11, 9, 7, 5, 3};
  const double coefficients[] = {
      -0x1.5555555555555p-2,  0x1.5555555555555p-4,   -0x1.e573ac901e574p-7,
      0x1.2f684bda12f68p-10,  0x1.71de3a556c734p-12,  -0x1.76e06fec7273bp-13,
      0x1.48c5892f7cd83p-15,  -0x1.255370652afc1p-19, -0x1.f1b22f594c6b5p-20,
      0x1.bd6d21e4b4109p-21,  -0x1.7b5f9a2d0465cp-23, 0x1.ccf5ceb7f0d9fp-28,
      0x1.6097d55c37c1cp-27,  -0x1.2d2197c7a2faap-28, 0x1.f6e66d24d5c8ap-31,
      -0x1.e573ac901e574p-10, -0x1.c71c71c71c71cp-9,  0x1.5ac056b015ac0p-9,
      -0x1.0394f6f09e723p-10, 0x1.af83440e53dbcp-13,  -0x1.af83440e53dbcp-22,
      -0x1.2fa4ae89e5af0p-16, 0x1.00a9cabd6b83ep-17,  -0x1.b0bdfcc629cbap-20,
      0x1.3f59230a8357cp-28,  0x1.280f2cde3f847p-23,  -0x1.ee23d0cba8aeep-25,
      0x1.9aa7a30de114cp-27,  0x1.0ee643b990ee6p-8,   -0x1.5f7268edab4c8p-9,
      0x1.948b0fcd6e9e0p-11,  0x1.0db20a88f4696p-19,  -0x1.c253efaa1a932p-14,
      0x1.bbf43daf4fe53p-15,  -0x1.ac2d05890f2c3p-17, 0x1.26154ae39151dp-25,
      0x1.7058929663937p-20,  -0x1.522cb05171911p-21, 0x1.32ac81c15d3d7p-23,
      0x1.547d93b34e2b6p-11,  0x1.e13ce465fa859p-13,  -0x1.ebfb188b7ca00p-12,
      0x1.18b9b5bf2d984p-12,  -0x1.3d2a3a29b5d9dp-14, -0x1.0152a1871f27ap-22,
      0x1.73df462204ef4p-17,  -0x1.7cd6f27b3f020p-18, 0x1.7e0201539310ep-20,
      -0x1.c3e0b02da7bf9p-11, 0x1.9b0ff6874f2c4p-11,  -0x1.3999a85a4237ap-12,
      -0x1.88f2ae1def9d0p-20, 0x1.16908b48ce058p-14,  -0x1.4ce3fd902bcadp-15,
      0x1.7db4c02846e81p-17,  -0x1.6128ac5a4fa71p-12, -0x1.247604839c038p-14,
      0x1.22be87360ef1fp-12,  -0x1.a2042c5148e27p-13, 0x1.1d1e9cb24760bp-14,
      0x1.168ef1b0931c8p-11,  -0x1.36773bdb97b48p-11, 0x1.1c0950d3ecb9dp-12};
  const double mu = (x - a) / a, half_square = -log1p_less(mu);
  const double eta = std::copysign(std::sqrt(2.0 * half_square), mu);
  double sum = 0.0, power = 1.0;
  const double* c = coefficients;
  for (const int count : kCounts) {
    double inner = 0.0;
    for (int n = count - 1; n >= 0; --n) inner = inner * eta + c[n];
    sum += inner * power;
    power /= a;
    c += count;
  }
  const double rest = std::exp(-a * half_square) / std::sqrt(6.28318530717958647693 * a) * sum;
  const double side = eta * std::sqrt(a / 2.0);
  return lower ? 0.5 * erfc(-side) - rest : 0.5 * erfc(side) + rest;
}

}  // namespace detail

/// The regularised incomplete gamma function P(a, x), or Q(a, x) = 1 - P(a, x) where not `lower`.
/// NaN where a or x is below 0, or both are 0 or infinite.
HERO_HD inline double gamma_incomplete(double a, double x, bool lower) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!(a >= 0.0) || !(x >= 0.0) || (a == 0.0 && x == 0.0) || (a == kInfinity && x == kInfinity)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (a == 0.0 || x == kInfinity) return lower ? 1.0 : 0.0;
  if (x == 0.0 || a == kInfinity) return lower ? 0.0 : 1.0;
  if (a > 100.0 && std::fabs(x - a) < 0.3 * a) return detail::gamma_uniform(a, x, lower);
  if (x <= 1.1 && a <= 1.1 && !lower) return detail::gamma_upper_small(a, x);
  if (x <= 1.1 || x <= a) {
    const double value = detail::gamma_by_series(a, x);
    return lower ? value : 1.0 - value;
  }
  const double value = detail::gamma_by_fraction(a, x);
  return lower ? 1.0 - value : value;
}

}  // namespace hero::math
