#pragma once
// Double functions of our own: glibc's are compiled with fused multiply-adds for some processors
// and without for others, and differ in last bits; or they take one number at a time where a loop
// of ours becomes vector code. The other double functions are the platform's libm, whose code for
// x86-64 with FMA and for 64-bit ARM gives the same bits (tests/arm/check_bits). The polynomials
// are interpolations at the nodes of Chebyshev, computed with 50 digits.
#include <cmath>
#include <limits>

#include <hero/core/kernels/math_bits.h>

namespace hero::math {

namespace detail {

/// p * 2^n with one rounding, for the n in [-1100, 1050] that `rounded` = n + kRound64 holds.
[[gnu::always_inline]] HERO_HD inline double scale(double p, double rounded) {
  // By 2^(n / 2) twice: 2^1024 is no double, and results below 2^-1022 must round only once.
  const uint64_t n = bits(rounded) - bits(kRound64) + 2048u;  // > 0
  return p * from_bits((n / 2 - 1u) << 52) * from_bits((n - n / 2 - 1u) << 52);
}

/// x = n ln 2 + r + low for the whole number n next to x / ln 2, held in `rounded` = n + kRound64,
/// and |x| < 2000.
struct Exponent {
  double rounded, r, low;
};
[[gnu::always_inline]] HERO_HD inline Exponent exponent_of(double x) {
  const double rounded = std::fma(x, kLog2E64, kRound64), n = rounded - kRound64;
  // The first difference is exact, and what the second one loses is added later.
  const double high = std::fma(n, -kLn2Hi64, x), r = std::fma(n, -kLn2Lo64, high);
  return {rounded, r, std::fma(n, -kLn2Lo64, high - r)};
}

/// (e^r - 1 - r) / r^2 for |r| <= 0.35.
[[gnu::always_inline]] HERO_HD inline double exp_rest(double r) {
  return poly(r, 0x1.0000000000000p-1, 0x1.5555555555557p-3, 0x1.5555555555556p-5,
              0x1.11111111100dep-7, 0x1.6c16c16c162d6p-10, 0x1.a01a01abe683ap-13,
              0x1.a01a01a6d7b19p-16, 0x1.71de02364614ap-19, 0x1.27e4db6718a69p-22,
              0x1.af4ddfbb33a59p-26, 0x1.1f72fdb6c6442p-29);
}

}  // namespace detail

/// e^x for loops over many numbers, which become vector code: at most 0.7 ulp where the result is a
/// normal number.
[[gnu::always_inline]] HERO_HD inline double exp_in_vectors(double x) {
  const auto [rounded, r, low] = detail::exponent_of(detail::clamp(x, -750.0, 720.0));
  const double one = 1.0 + r, lost = r - (one - 1.0);
  return detail::scale(one + (lost + std::fma(r * r, detail::exp_rest(r), low)), rounded);
}

/// tanh x for loops over many numbers, as exp_in_vectors(): at most 1.5 ulp.
[[gnu::always_inline]] HERO_HD inline double tanh_in_vectors(double x) {
  // m / (m + 2) for m = e^(2 |x|) - 1 = 2^n (e^r - 1) + (2^n - 1). From 20 on it is 1.
  const double a = 2.0 * std::fabs(x);
  const auto [rounded, r, low] = detail::exponent_of(a > 40.0 ? 40.0 : a);
  const double rest = std::fma(r * r, detail::exp_rest(r), low), p = r + rest;
  const double power = detail::power_of_two(rounded), m = std::fma(power, p, power - 1.0);
  // What the sums p and d have lost is put back, and the quotient corrected once.
  const double d = m + 2.0, two = d - m, lost = (m - (d - two)) + (2.0 - two);
  const double inverse = 1.0 / d, t = m * inverse;
  const double left = std::fma(-t, d, m) + (power * (rest - (p - r)) - t * lost);
  return std::copysign(std::fma(left, inverse, t), x);
}

/// The same, called: for one number at a time.
[[gnu::noinline]] HERO_HD inline double tanh(double x) { return tanh_in_vectors(x); }

/// 2^x; at most 1 ulp, exact for whole numbers.
HERO_HD inline double exp2(double x) {
  const double y = detail::clamp(x, -1080.0, 1030.0);
  const double rounded = y + detail::kRound64, r = y - (rounded - detail::kRound64);
  const double q = detail::poly(
      r, 0x1.62e42fefa39efp-1, 0x1.ebfbdff82c58fp-3, 0x1.c6b08d704a0c6p-5, 0x1.3b2ab6fba4e79p-7,
      0x1.5d87fe78a3f9cp-10, 0x1.430912f86b7dbp-13, 0x1.ffcbfc6da6ed1p-17, 0x1.62c02242b879cp-20,
      0x1.b524ebd13a55fp-24, 0x1.e4cf10dec0f59p-28, 0x1.e9ec1fcb69a7fp-32, 0x1.c4a29324a1038p-36);
  return detail::scale(std::fma(r, q, 1.0), rounded);
}

namespace detail {

/// (1 + 2 a) e^(a^2) erfc(a) for a in [0.5, 28], which is smooth in (a - k) / (a + k) over all of
/// them (Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x <
/// infinity", Mathematics of Computation 36, 1981), here for k = 2.5; to 2^-54.
HERO_HD inline double erfc_scaled(double a) {
  const double t = (a - 2.5) / (a + 2.5);
  return poly(t, 0x1.43cc6f6c9672cp+0, -0x1.f52c5d7e22318p-4, -0x1.959ac16f85742p-4,
              0x1.42d379989bbefp-3, -0x1.a5c0c8a4035b3p-4, 0x1.0c6092a561a83p-5,
              0x1.e894895ae75fap-11, -0x1.1f2f12fd9fc11p-8, 0x1.01e11cb011b2bp-11,
              0x1.4b6a3bf8203bep-11, -0x1.731bb12a874c8p-14, -0x1.dc229755327e8p-14,
              0x1.a45f2ff8cd6bdp-18, 0x1.7ca2f6f6ff3e8p-16, 0x1.5fc4c861a4da7p-19,
              -0x1.19123af6d9f66p-18, -0x1.b4646373f5526p-20, 0x1.05a811a778c31p-21,
              0x1.48c97cc965288p-21, 0x1.a4ce56c14d576p-25, -0x1.bf98e7cdb4f74p-23,
              -0x1.374fc214a56aap-26, 0x1.d42cf94f4b663p-25, -0x1.99e5eb22bb76cp-27);
}

/// erfc(a) for a in [0.5, 28].
HERO_HD inline double erfc_tail(double a) {
  const double high = -a * a, low = -std::fma(a, a, high);
  const double e = std::exp(high);
  return std::fma(e, low, e) * erfc_scaled(a) / std::fma(2.0, a, 1.0);
}

/// erf(x) for |x| < 1, to 2^-55 of it.
HERO_HD inline double erf_near(double x) {
  const double q = poly(x * x, 0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b30p-4,
                        -0x1.b82ce31284e00p-6, 0x1.565bcd0dbaa38p-8, -0x1.c02db3dac435fp-11,
                        0x1.f9a321d5b8e1ep-14, -0x1.f4d1e3183f7aep-17, 0x1.b9df224ca4b97p-20,
                        -0x1.5f1ecb6f0764cp-23, 0x1.f7b4bf3b13964p-27, -0x1.389d4f2641625p-30,
                        0x1.05ffd737fb32ep-34);
  return std::fma(x, q, x);
}

/// ln Gamma(2 + t) for t in [-0.75, 0.5], to 2^-55 of it.
[[gnu::always_inline]] HERO_HD inline double lgamma_near_two(double t) {
  return t * poly(t, 0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa6p-2, -0x1.13e001a55760dp-4,
                  0x1.51322ac7d8931p-6, -0x1.e404fc218c557p-8, 0x1.7add6ead24b2fp-9,
                  -0x1.38ac5c2e528f1p-10, 0x1.0b36afc6a0b9ap-11, -0x1.d3fd4a7d4f970p-13,
                  0x1.a127927d22adfp-14, -0x1.78ded94b1e5dep-15, 0x1.5811f1440bedcp-16,
                  -0x1.3ca988a7346b2p-17, 0x1.254590089761cp-18, -0x1.137ac24392c4ep-19,
                  0x1.03957c5bfffebp-20, -0x1.af770681c449dp-22, 0x1.bdcb694fe824dp-23,
                  -0x1.9db0f678cb211p-23, 0x1.acfd7c347fbb1p-28, 0x1.afb50278530d2p-25,
                  0x1.44a2494351c70p-24);
}

/// ln Gamma(x) for x > 0: recurrence to [1.25, 2.5] below 8, from there Stirling's series.
HERO_HD inline double lgamma_positive(double x) {
  if (x < 0.5) return lgamma_near_two(x) - std::log1p(x) - std::log(x);
  if (x < 1.25) return lgamma_near_two(x - 1.0) - std::log1p(x - 1.0);
  if (x < 8.0) {
    double product = 1.0;
    while (x >= 2.5) x -= 1.0, product *= x;
    return lgamma_near_two(x - 2.0) + std::log(product);
  }
  const double z = 1.0 / x;
  const double series = z * poly(z * z, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                                 -691.0 / 360360, 1.0 / 156, -3617.0 / 122400);
  return std::fma(x - 0.5, std::log(x) - 1.0, 0x1.acfe390c97d69p-2 + series);  // ln(2 pi) / 2 - 1/2
}

}  // namespace detail

/// The error function; at most 1.5 ulp.
HERO_HD inline double erf(double x) {
  const double a = std::fabs(x);
  if (a < 1.0) return detail::erf_near(x);
  if (a < 6.0) return std::copysign(1.0 - detail::erfc_tail(a), x);
  return x != x ? x : std::copysign(1.0, x);
}

/// 1 - erf(x); at most 4 ulp.
HERO_HD inline double erfc(double x) {
  const double a = std::fabs(x);
  if (!(a >= 0.5)) return 1.0 - erf(x);
  const double tail = a < 28.0 ? detail::erfc_tail(a) : 0.0;
  return x < 0.0 ? 2.0 - tail : tail;
}

/// The inverse of cosh; at most 3 ulp; NaN below 1.
HERO_HD inline double acosh(double x) {
  if (!(x >= 1.0)) return std::numeric_limits<double>::quiet_NaN();
  if (x >= 0x1p28) return std::log(x) + 0x1.62e42fefa39efp-1;
  const double t = x - 1.0;
  return std::log1p(t + std::sqrt(t * (t + 2.0)));
}

/// sqrt(x^2 + y^2) without overflow on the way; at most 1 ulp; infinite where one of them is.
HERO_HD inline double hypot(double x, double y) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double a = std::fabs(x), b = std::fabs(y);
  if (a == kInfinity || b == kInfinity) return kInfinity;
  if (a < b) {
    const double larger = b;
    b = a;
    a = larger;
  }
  if (a == 0.0) return b;  // 0 or NaN
  const double scale = a > 0x1p500 ? 0x1p-600 : a < 0x1p-400 ? 0x1p600 : 1.0;
  a *= scale;
  b *= scale;
  // The squares and their sum with the errors of rounding, then one step of Newton's.
  const double aa = a * a, bb = b * b, sum = aa + bb;
  const double rest = ((aa - sum) + bb) + (std::fma(a, a, -aa) + std::fma(b, b, -bb));
  const double root = std::sqrt(sum);
  return (root + (std::fma(-root, root, sum) + rest) / (2.0 * root)) / scale;
}

/// ln |Gamma(x)|; infinite at 0 and the negative whole numbers. At most 3 ulp above 0; below, the
/// error is at most 7 ulp of the larger one of ln Gamma(-x) and ln(pi / |x sin(pi x)|), whose
/// difference it is.
HERO_HD inline double lgamma(double x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (x > 0.0) return detail::lgamma_positive(x);
  if (x != x) return x;
  if (x == std::floor(x)) return kInfinity;  // also at -infinity
  const double a = -x;
  if (a < 0x1p-60) return -std::log(a);
  constexpr double kPi = 0x1.921fb54442d18p+1;
  const double sine = std::sin(kPi * std::fabs(a - std::rint(a)));
  return std::log(kPi / (a * sine)) - detail::lgamma_positive(a);
}

}  // namespace hero::math
