#pragma once
// Float functions evaluated in double and rounded once: correctly rounded but for one argument in
// many thousands (at most 0.51 ulp), at about twice the cost of a float polynomial.
#include <limits>

#include <hero/core/kernels/math_bits.h>

namespace hero::math {
namespace detail {

/// What is left of an angle: |angle| <= pi / 4, and the quarter turns taken off, modulo 4.
struct Reduced {
  double angle;
  uint64_t quadrant;
};

/// Reduces any finite float x >= 0 modulo a quarter turn, to 2^-52 of the angle; inf gives NaN.
///
/// x / 2 pi is summed exactly modulo 1 from three parts of 1 / 2 pi. From 2^80 on every bit of
/// 1 / 2 pi worth 2^-56 or more makes whole turns only, so the parts begin below it: 24 bits of x
/// and 160 bits of 1 / 2 pi are enough for every float.
[[gnu::always_inline]] HERO_HD inline Reduced reduce_quarter_turns(double x) {
  const bool large = x >= 0x1p80;
  const double c1 = large ? 0x1.29fc2757d1f53p-58 : 0x1.45f306dc9c883p-3;
  const double c2 = large ? 0x1.377036d8a5665p-112 : -0x1.6b01ec5417056p-57;
  const double c3 = large ? -0x1.de37df00d74e3p-169 : -0x1.6447e493ad4cep-111;
  const double h1 = x * c1;
  double l1 = std::fma(x, c1, -h1);
  double h2 = x * c2;
  const double l2 = std::fma(x, c2, -h2);
  const double turns = h1 - std::rint(h1);
  l1 -= std::rint(l1);
  h2 -= std::rint(h2);
  const double rounded = std::fma(turns + l1 + h2, 4.0, kRound64);
  const double quarters = rounded - kRound64;
  double rest = std::fma(quarters, -0.25, turns) + l1;
  rest = rest + h2;
  rest = rest + std::fma(x, c3, l2);
  return {rest * 0x1.921fb54442d18p+2, bits(rounded)};
}

/// sin r for |r| <= pi / 4, to 2^-53.
[[gnu::always_inline]] HERO_HD inline double sin_reduced(double r) {
  const double z = r * r;
  const double p = poly(z, -0x1.5555555555549p-3, 0x1.111111110f89ep-7, -0x1.a01a019c146fdp-13,
                        0x1.71de35793ca92p-19, -0x1.ae5e66e32a0cbp-26, 0x1.5d93132e53534p-33);
  return std::fma(r * z, p, r);
}

/// cos r for |r| <= pi / 4, to 2^-53.
[[gnu::always_inline]] HERO_HD inline double cos_reduced(double r) {
  const double z = r * r;
  const double p = poly(z, 0x1.55555555530dfp-5, -0x1.6c16c167665c0p-10, 0x1.a019faa483941p-16,
                        -0x1.27e027db04678p-22, 0x1.1bc6e64b323d3p-29);
  return std::fma(z * z, p, std::fma(z, -0.5, 1.0));
}

/// sin or cos of a reduced angle moved on by `shift` quarter turns.
[[gnu::always_inline]] HERO_HD inline double sin_quadrant(Reduced a, uint64_t shift) {
  const uint64_t quadrant = a.quadrant + shift;
  const double s = sin_reduced(a.angle);
  const double c = cos_reduced(a.angle);
  const double value = (quadrant & 1u) != 0 ? c : s;
  return from_bits(bits(value) ^ ((quadrant & 2u) << 62));
}

/// e^x - 1 for |x| <= 700, to 2^-49 of the result.
[[gnu::always_inline]] HERO_HD inline double expm1_wide(double x) {
  const double rounded = std::fma(x, kLog2E64, kRound64);
  const double n = rounded - kRound64;
  double r = std::fma(n, -kLn2Hi64, x);
  r = std::fma(n, -kLn2Lo64, r);
  const double q = poly(r, 0x1.fffffffffffbep-2, 0x1.5555555552204p-3, 0x1.5555555564d9bp-5,
                        0x1.111111214b542p-7, 0x1.6c16c134fce1bp-10, 0x1.a0199ba0a89dcp-13,
                        0x1.a01a7a7740924p-16, 0x1.72dab65f689b8p-19, 0x1.27db28b5ef4a3p-22);
  const double s = power_of_two(rounded);
  return std::fma(s, std::fma(r * r, q, r), s - 1.0);
}

/// e^x for |x| <= 700, to 2^-43.
[[gnu::always_inline]] HERO_HD inline double exp_wide(double x) {
  const double rounded = std::fma(x, kLog2E64, kRound64);
  const double n = rounded - kRound64;
  const double r = std::fma(n, -kLn2Hi64, x);
  const double p = poly(r, 1.0, 1.0, 0x1.fffffffff797ep-2, 0x1.5555555565b0fp-3,
                        0x1.555555736fba0p-5, 0x1.111110e511270p-7, 0x1.6c164f2bc63bfp-10,
                        0x1.a01a70ddfd043p-13, 0x1.a159182d4afc0p-16, 0x1.71f5c4fbfa98cp-19);
  return p * power_of_two(rounded);
}

/// 2^x for |x| <= 1000, to 2^-45.
[[gnu::always_inline]] HERO_HD inline double exp2_wide(double x) {
  const double rounded = x + kRound64;
  const double r = x - (rounded - kRound64);
  const double p = poly(r, 1.0, 0x1.62e42fefa37cbp-1, 0x1.ebfbdff81bba0p-3, 0x1.c6b08d70c9c5ep-5,
                        0x1.3b2ab724560c3p-7, 0x1.5d87fd91ac4e3p-10, 0x1.4308976c6b2d2p-13,
                        0x1.ffce335dd21f8p-17, 0x1.63e7357067cc8p-20, 0x1.b3dc433a4c4bcp-24);
  return p * power_of_two(rounded);
}

/// A positive normal double as (1 + f) * 2^n with 1 + f in [sqrt(1/2), sqrt(2)).
struct Split {
  double f;
  double n;
};
[[gnu::always_inline]] HERO_HD inline Split split_exponent(double x) {
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdu;
  const uint64_t offset = bits(x) - kSqrtHalf;
  const double f = from_bits((offset & 0x000fffffffffffffu) + kSqrtHalf) - 1.0;
  // AVX2 converts no 64-bit integers: the biased exponent goes through the bits of 2^52 + 1024 + n.
  const uint64_t biased = (offset + (uint64_t{1024} << 52)) >> 52;
  return {f, from_bits(biased | 0x4330000000000000u) - (0x1p52 + 1024.0)};
}

/// 2 atanh(s) for |s| <= 0.1716, to 2^-52: the logarithm of (1 + s) / (1 - s).
[[gnu::always_inline]] HERO_HD inline double log_ratio(double s) {
  const double z = s * s;
  const double p = poly(z, 0x1.5555555553932p-2, 0x1.999999a2a0e03p-3, 0x1.2492416eb2bd9p-3,
                        0x1.c7227d55aca51p-4, 0x1.732b74a199805p-4, 0x1.588020749efacp-4);
  return 2.0 * std::fma(s * z, p, s);
}

/// ln(1 + t) for t in [0, 1], to 2^-48 of the result.
[[gnu::always_inline]] HERO_HD inline double log1p_unit(double t) {
  const double s = t / (2.0 + t);
  const double z = s * s;
  const double p = poly(z, 0x1.555555554dba8p-2, 0x1.999999aab390ap-3, 0x1.24924293e5162p-3,
                        0x1.c71ee04aeeb33p-4, 0x1.741d98fa77898p-4, 0x1.3ed1c364882d9p-4,
                        0x1.e1ba70fde4371p-5, 0x1.7f861659eb200p-4);
  return 2.0 * std::fma(s * z, p, s);
}

/// ln(1 + e^x), for any x: max(x, 0) + ln(1 + e^-|x|).
[[gnu::always_inline]] HERO_HD inline double softplus_wide(double x) {
  const double y = clamp(x, -700.0, 700.0);
  const double t = log1p_unit(exp_wide(-std::fabs(y)));
  return (x < 0.0 ? 0.0 : x) + t;
}

/// What a logarithm gives outside (0, inf): -inf at 0, inf at inf, NaN elsewhere.
[[gnu::always_inline]] HERO_HD inline double log_special(double x) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double edge = x == 0.0 ? -infinity : x;
  return x < 0.0 ? nan : edge;
}

/// atan(y / x) for floats y >= 0 and x >= 0, to 2^-49; 0 / 0 counts as 0 and inf / inf as 1.
[[gnu::always_inline]] HERO_HD inline double atan_quadrant(double y, double x) {
  // Only inf is above 2^900, and any float divided by 2^900 rounds to 0 in float.
  y = y > 0x1p900 ? 0x1p900 : y;
  x = x > 0x1p900 ? 0x1p900 : x;
  const uint64_t flat = mask(y <= x);
  const double low = select(flat, y, x);
  const double high = select(flat, x, y);
  // Above tan(pi / 8), turn by pi / 4. The 2^-1000 only shows when both are 0.
  const uint64_t turn = mask(low > 0.41421356237309503 * high);
  const double t = (low - keep(turn, high)) / (high + keep(turn, low) + 0x1p-1000);
  const double z = t * t;
  const double p = poly(z, -0x1.5555555552265p-2, 0x1.99999993b3d45p-3, -0x1.249247424218bp-3,
                        0x1.c71bda44e760ap-4, -0x1.744f90985989ep-4, 0x1.3a57736a38f30p-4,
                        -0x1.0aaae7cd4689bp-4, 0x1.9cb565c2dd4b7p-5, -0x1.a1777e41a8a0dp-6);
  const double a = std::fma(t * z, p, t) + keep(turn, 0x1.921fb54442d18p-1);
  return select(flat, a, 0x1.921fb54442d18p+0 - a);
}

}  // namespace detail

/// Sine, correctly rounded but for one float in millions (0.5001 ulp), for every finite x; NaN at
/// +-inf.
[[gnu::always_inline]] HERO_HD inline float sin(float x) {
  const double y = x;
  const double s = detail::sin_quadrant(detail::reduce_quarter_turns(std::fabs(y)), 0);
  return static_cast<float>(detail::xor_sign(s, y));
}

/// Cosine; as sin.
[[gnu::always_inline]] HERO_HD inline float cos(float x) {
  const double y = x;
  return static_cast<float>(detail::sin_quadrant(detail::reduce_quarter_turns(std::fabs(y)), 1));
}

/// Tangent; as sin.
[[gnu::always_inline]] HERO_HD inline float tan(float x) {
  const double y = x;
  const detail::Reduced a = detail::reduce_quarter_turns(std::fabs(y));
  const double s = detail::sin_reduced(a.angle);
  const double c = detail::cos_reduced(a.angle);
  const bool odd = (a.quadrant & 1u) != 0;
  const double t = (odd ? -c : s) / (odd ? s : c);
  return static_cast<float>(detail::xor_sign(t, y));
}

/// Arc tangent; at most 0.51 ulp.
[[gnu::always_inline]] HERO_HD inline float atan(float x) {
  const double y = x;
  return static_cast<float>(detail::xor_sign(detail::atan_quadrant(std::fabs(y), 1.0), y));
}

/// The angle of the point (x, y), with the zeros and infinities of IEEE; at most 0.51 ulp.
[[gnu::always_inline]] HERO_HD inline float atan2(float y, float x) {
  const double yd = y;
  const double xd = x;
  const double a = detail::atan_quadrant(std::fabs(yd), std::fabs(xd));
  // By the sign bit: -0 lies on the left too.
  const bool left = static_cast<int64_t>(detail::bits(xd)) < 0;
  const double angle = left ? 0x1.921fb54442d18p+1 - a : a;
  return static_cast<float>(detail::xor_sign(angle, yd));
}

/// e^x - 1; at most 0.51 ulp.
[[gnu::always_inline]] HERO_HD inline float expm1(float x) {
  const double y = x;
  const double r = detail::expm1_wide(detail::clamp(y, -100.0, 200.0));
  return static_cast<float>(x == 0.0f ? y : r);
}

/// ln(1 + x); at most 0.51 ulp; -inf at -1, NaN below.
[[gnu::always_inline]] HERO_HD inline float log1p(float x) {
  // 1 + x is no longer exact below 2^-29, where ln(1 + x) = x - x^2 / 2.
  const double y = x;
  const detail::Split v = detail::split_exponent(1.0 + y);
  const double s = v.f / (2.0 + v.f);
  const double l = std::fma(v.n, detail::kLn2Hi64, detail::log_ratio(s));
  const double near = std::fma(y * y, -0.5, y);
  const double r = std::fabs(y) < 0x1p-28 ? near : l;
  const bool inside = y > -1.0 && y < std::numeric_limits<double>::infinity();
  return static_cast<float>(inside ? r : detail::log_special(1.0 + y));
}

/// log to the base 2; at most 0.51 ulp, exact for powers of two; -inf at 0, NaN below.
[[gnu::always_inline]] HERO_HD inline float log2(float x) {
  const double y = x;
  const detail::Split v = detail::split_exponent(y);
  const double l = std::fma(detail::log_ratio(v.f / (2.0 + v.f)), detail::kLog2E64, v.n);
  const bool inside = y > 0.0 && y < std::numeric_limits<double>::infinity();
  return static_cast<float>(inside ? l : detail::log_special(y));
}

/// Hyperbolic sine; at most 0.51 ulp.
[[gnu::always_inline]] HERO_HD inline float sinh(float x) {
  const double y = x;
  const double a = std::fabs(y);
  const double em = detail::expm1_wide(a > 200.0 ? 200.0 : a);
  return static_cast<float>(detail::xor_sign(0.5 * (em + em / (em + 1.0)), y));
}

/// Hyperbolic cosine; at most 0.51 ulp.
[[gnu::always_inline]] HERO_HD inline float cosh(float x) {
  const double a = std::fabs(static_cast<double>(x));
  const double e = detail::exp_wide(a > 200.0 ? 200.0 : a);
  return static_cast<float>(0.5 * (e + 1.0 / e));
}

/// -ln(1 + e^-x); at most 0.51 ulp.
[[gnu::always_inline]] HERO_HD inline float logsigmoid(float x) {
  return static_cast<float>(-detail::softplus_wide(-static_cast<double>(x)));
}

/// ln(1 + e^(beta x)) / beta, and x itself where beta x exceeds the threshold; at most 0.51 ulp.
[[gnu::always_inline]] HERO_HD inline float softplus(float x, float beta, float threshold) {
  const double z = static_cast<double>(x) * static_cast<double>(beta);
  const double r = detail::softplus_wide(z) / static_cast<double>(beta);
  return static_cast<float>(z > static_cast<double>(threshold) ? static_cast<double>(x) : r);
}

/// x tanh(ln(1 + e^x)); at most 0.51 ulp; -0 at -inf.
[[gnu::always_inline]] HERO_HD inline float mish(float x) {
  // With t = e^x, tanh(ln(1 + t)) = m / (m + 2) for m = t (t + 2).
  const double y = x;
  const double low = y < -200.0 ? -200.0 : y;
  const double t = detail::exp_wide(low > 40.0 ? 40.0 : low);
  const double m = t * (t + 2.0);
  return static_cast<float>(low * m / (m + 2.0));
}

/// x^y with the special cases of IEEE; at most 0.51 ulp.
[[gnu::always_inline]] HERO_HD inline float pow(float x, float y) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double xd = x;
  const double yd = y;
  const double a = std::fabs(xd);
  const detail::Split v = detail::split_exponent(a);
  double l = std::fma(detail::log_ratio(v.f / (2.0 + v.f)), detail::kLog2E64, v.n);
  l = detail::select(detail::mask(a < infinity), l, a);
  l = detail::select(detail::mask(a == 0.0), -infinity, l);
  const double magnitude = detail::exp2_wide(detail::clamp(yd * l, -1000.0, 1000.0));

  const uint64_t fraction = detail::mask(yd != std::rint(yd));
  const uint64_t even = detail::mask(0.5 * yd == std::rint(0.5 * yd));
  const uint64_t negative = detail::bits(xd) & detail::kSign64;
  double r = detail::from_bits(detail::bits(magnitude) | (negative & ~fraction & ~even));
  const uint64_t invalid = detail::mask(xd < 0.0) & detail::mask(a < infinity) & fraction;
  r = detail::select(invalid, std::numeric_limits<double>::quiet_NaN(), r);
  const uint64_t flip = detail::mask(xd == -1.0) & detail::mask(std::fabs(yd) == infinity);
  const uint64_t one = detail::mask(xd == 1.0) | detail::mask(yd == 0.0) | flip;
  return static_cast<float>(detail::select(one, 1.0, r));
}

}  // namespace hero::math
