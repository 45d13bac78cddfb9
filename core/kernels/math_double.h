#pragma once
// Double functions: the platform's libm where it gives the same bits on all processors, our own
// where it does not, our compositions where it has none.
#include <cmath>

#include <hero/core/kernels/math_bits.h>
#include <hero/core/kernels/math_double_own.h>

namespace hero::math {

// libm's own; glibc's are within 2.5 ulp (sin, cos, exp, log, pow within 0.55). The compositions
// below are within 5 ulp wherever the result is a normal number.
HERO_HD inline double exp(double x) { return std::exp(x); }
HERO_HD inline double expm1(double x) { return std::expm1(x); }
HERO_HD inline double log(double x) { return std::log(x); }
HERO_HD inline double log2(double x) { return std::log2(x); }
HERO_HD inline double log1p(double x) { return std::log1p(x); }
HERO_HD inline double sin(double x) { return std::sin(x); }
HERO_HD inline double cos(double x) { return std::cos(x); }
HERO_HD inline double tan(double x) { return std::tan(x); }
HERO_HD inline double atan(double x) { return std::atan(x); }
HERO_HD inline double atan2(double y, double x) { return std::atan2(y, x); }
HERO_HD inline double sinh(double x) { return std::sinh(x); }
HERO_HD inline double cosh(double x) { return std::cosh(x); }
HERO_HD inline double pow(double x, double y) { return std::pow(x, y); }

/// 1 / (1 + e^-x), down to the denormals.
HERO_HD inline double sigmoid(double x) {
  const double t = std::exp(-std::fabs(x));
  return (x < 0.0 ? t : 1.0) / (1.0 + t);
}
[[gnu::always_inline]] HERO_HD inline double sigmoid_in_vectors(double x) {
  const double t = exp_in_vectors(-std::fabs(x));
  return (x < 0.0 ? t : 1.0) / (1.0 + t);
}

/// ln(1 + e^(beta x)) / beta, and x itself where beta x exceeds the threshold.
HERO_HD inline double softplus(double x, double beta, double threshold) {
  const double z = x * beta;
  const double t = std::exp(-std::fabs(z));
  // The product's rounding error counts: e^z magnifies it |z| times.
  const double error = std::fabs(z) < 1e300 ? std::fma(x, beta, -z) : 0.0;
  const double slope = (z < 0.0 ? t : 1.0) / (1.0 + t);
  const double r = ((z < 0.0 ? 0.0 : z) + std::fma(slope, error, std::log1p(t))) / beta;
  return z > threshold ? x : r;
}

/// -ln(1 + e^-x).
HERO_HD inline double logsigmoid(double x) {
  return (x > 0.0 ? 0.0 : x) - std::log1p(std::exp(-std::fabs(x)));
}

/// x sigmoid(x); -0 at -inf.
HERO_HD inline double silu(double x) {
  const double t = std::exp(-std::fabs(x));
  const double y = x < -800.0 ? -800.0 : x;
  return y * (x < 0.0 ? t : 1.0) / (1.0 + t);
}

/// x tanh(ln(1 + e^x)); -0 at -inf.
HERO_HD inline double mish(double x) {
  // With t = e^x, tanh(ln(1 + t)) = m / (m + 2) for m = t (t + 2).
  const double y = x < -800.0 ? -800.0 : x;
  const double t = std::exp(y > 100.0 ? 100.0 : y);
  const double m = t * (t + 2.0);
  return y * (m / (m + 2.0));
}

/// x / 2 (1 + erf(x / sqrt 2)) as x / 2 erfc(-x / sqrt 2); -0 at -inf.
HERO_HD inline double gelu(double x) {
  const double y = x < -50.0 ? -50.0 : x;
  // The argument's rounding error would be magnified x^2 times: it is put back as a first-order
  // term, erfc'(a) = -2 / sqrt(pi) e^-a^2.
  const double a = -y * 0x1.6a09e667f3bcdp-1;
  const double error = std::fma(-y, 0x1.6a09e667f3bcdp-1, -a) + y * 0x1.bdd3413b26456p-55;
  const double slope = y < 0.0 ? 0x1.20dd750429b6dp+0 * std::exp(-a * a) * error : 0.0;
  return 0.5 * y * (erfc(a) - slope);
}

/// x / 2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), as x / (1 + e^-2u), which does not
/// cancel for negative x; -0 at -inf.
HERO_HD inline double gelu_tanh(double x) {
  constexpr double kLinear = -0x1.9884533d43651p+0;  // -2 sqrt(2 / pi)
  constexpr double kLinearLow = 0x1.cbc0d30ebfd15p-54;
  constexpr double kCubic = -0x1.2444f2a4d8b4bp-4;  // the same times 0.044715
  constexpr double kCubicLow = 0x1.6c843a29d1c70p-61;
  const double y = detail::clamp(x, -25.0, 25.0);
  // w = y (kLinear + kCubic y^2) with its rounding errors carried along: e^w magnifies them.
  const double square = y * y;
  const double square_error = std::fma(y, y, -square);
  const double cubic = square * kCubic;
  const double cubic_error =
      std::fma(square, kCubic, -cubic) + square_error * kCubic + square * kCubicLow;
  const double g = cubic + kLinear;
  const double back = g - kLinear;
  const double g_error = (kLinear - (g - back)) + (cubic - back) + cubic_error + kLinearLow;
  const double w = y * g;
  const double w_error = std::fma(y, g, -w) + y * g_error;
  const double e = std::exp(w);
  const double t = e < 1e307 ? e + e * w_error : e;
  return (x < -25.0 ? -0.0 : x) / (1.0 + t);
}

}  // namespace hero::math
