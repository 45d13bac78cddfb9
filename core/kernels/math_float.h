#pragma once
// Float functions evaluated in float: those that training spends its time in.
#include <limits>

#include <hero/core/kernels/math_bits.h>

namespace hero::math {
namespace detail {

/// e^r for |r| <= 0.35; relative error of the polynomial 2^-28.
[[gnu::always_inline]] HERO_HD inline float exp_reduced(float r) {
  return poly(r, 1.0f, 1.0f, 0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558b8p-5f, 0x1.1239ap-7f,
              0x1.6a4494p-10f);
}

/// e^(x + tail) for x in [-87, 88], where one power of two is enough; the tail is |tail| << 1. Not
/// for NaN.
[[gnu::always_inline]] HERO_HD inline float exp_in_range(float x, float tail = 0.0f) {
  const float rounded = std::fma(x, kLog2E32, kRound32);
  const float n = rounded - kRound32;
  float r = std::fma(n, -kLn2Hi32, x);
  r = std::fma(n, -kLn2Lo32, r + tail);
  return times_power_of_two(exp_reduced(r), rounded);
}

/// e^(-(square + tail) / 2) for square in [0, 174]; the tail is |tail| << 1.
[[gnu::always_inline]] HERO_HD inline float exp_minus_half(float square, float tail) {
  // exp_in_range with every number but the result multiplied by -2.
  const float rounded = std::fma(square, -0.5f * kLog2E32, kRound32);
  const float n = rounded - kRound32;
  float r = std::fma(n, 2.0f * kLn2Hi32, square);
  r = std::fma(n, 2.0f * kLn2Lo32, r + tail);
  const float p = poly(r, 1.0f, -0.5f, 0x1.fffffcp-4f, -0x1.555492p-6f, 0x1.5558b8p-9f,
                       -0x1.1239ap-12f, 0x1.6a4494p-16f);
  return times_power_of_two(p, rounded);
}

/// p * 2^n with one rounding, n in [-152, 128] held in `rounded` and p in [0.7, 1.42].
[[gnu::always_inline]] HERO_HD inline float scale(float p, float rounded, bool tiny) {
  // Two factors: 2^128 is no float, and a product below 2^-126 must round only once. They are
  // 2^(n - 1) and 2, or 2^(n + 64) and 2^-64.
  const uint32_t moved = (uint32_t{0} - static_cast<uint32_t>(tiny)) & (65u << 23);
  const float first = from_bits((bits(rounded) << 23) + (0x3f000000u + moved));
  const float second = from_bits(0x40000000u - moved);
  return p * first * second;
}

/// value * factor; the value is a normal number, the factor 1 or 2^-64.
struct Scaled {
  float value;
  float factor;
};

/// e^-a for a >= 0.
[[gnu::always_inline]] HERO_HD inline Scaled exp_negative(float a) {
  const float x = a > 110.0f ? -110.0f : -a;
  const float rounded = std::fma(x, kLog2E32, kRound32);
  const float n = rounded - kRound32;
  float r = std::fma(n, -kLn2Hi32, x);
  r = std::fma(n, -kLn2Lo32, r);
  const uint32_t shift = x < -80.0f ? 64u : 0u;
  const float power = from_bits(((bits(rounded) + shift) << 23) + 0x3f800000u);
  return {exp_reduced(r) * power, x < -80.0f ? 0x1p-64f : 1.0f};
}

/// erfc(a) = 2^(polynomial) for a in [0.92, 3.95], to 2^-29 of erf(a).
[[gnu::always_inline]] HERO_HD inline float erfc_middle(float a) {
  const float t = poly(a, -0x1.274f16p-12f, -0x1.a07c3p+0f, -0x1.d6a886p-1f, -0x1.33171ep-3f,
                       0x1.06b5eap-5f, -0x1.1fc6a2p-8f, 0x1.287ceep-12f);
  const float rounded = t + kRound32;
  const float r = t - (rounded - kRound32);
  const float p = poly(r, 1.0f, 0x1.62e42ap-1f, 0x1.ebf9bcp-3f, 0x1.c6b6b4p-5f, 0x1.3ceaa8p-7f,
                       0x1.5bef18p-10f);
  return p * power_of_two(rounded);
}

}  // namespace detail

/// e^x; at most 1 ulp, denormal results included.
[[gnu::always_inline]] HERO_HD inline float exp(float x) {
  const float y = detail::clamp_by_bits(x, -105.0f, 89.0f);
  const float rounded = std::fma(y, detail::kLog2E32, detail::kRound32);
  const float n = rounded - detail::kRound32;
  float r = std::fma(n, -detail::kLn2Hi32, y);
  r = std::fma(n, -detail::kLn2Lo32, r);
  const float power = detail::scale(detail::exp_reduced(r), rounded, y < -80.0f);
  return x != x ? x : power;
}

/// 2^x; at most 1 ulp, exact for integers.
[[gnu::always_inline]] HERO_HD inline float exp2(float x) {
  const float y = detail::clamp_by_bits(x, -152.0f, 128.0f);
  const float rounded = y + detail::kRound32;
  const float r = y - (rounded - detail::kRound32);
  const float p = detail::poly(r, 1.0f, 0x1.62e43p-1f, 0x1.ebfbdcp-3f, 0x1.c6af7ap-5f,
                               0x1.3b2dd8p-7f, 0x1.5f0976p-10f, 0x1.4174e2p-13f);
  const float power = detail::scale(p, rounded, y < -100.0f);
  return x != x ? x : power;
}

/// ln x; at most 1 ulp; -inf at 0, NaN below.
[[gnu::always_inline]] HERO_HD inline float log(float x) {
  const bool denormal = x < 0x1p-126f;
  const float y = denormal ? x * 0x1p23f : x;
  // Subtracting the bits of sqrt(1/2) leaves the exponent for a mantissa in [sqrt(1/2), sqrt(2)).
  const uint32_t offset = detail::bits(y) - 0x3f3504f3u;
  const int32_t exponent = static_cast<int32_t>(offset) >> 23;
  const float f = detail::from_bits((offset & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float n = static_cast<float>(exponent) - (denormal ? 23.0f : 0.0f);
  const float q = detail::poly(f, 0x1.555554p-2f, -0x1.000228p-2f, 0x1.99a016p-3f, -0x1.54720ap-3f,
                               0x1.22d9f6p-3f, -0x1.0d87d8p-3f, 0x1.05590ap-3f, -0x1.389acep-4f);
  const float f2 = f * f;
  float tail = std::fma(f2 * f, q, n * detail::kLn2Lo32);
  tail = std::fma(-0.5f, f2, tail);
  const float result = std::fma(n, detail::kLn2Hi32, f + tail);
  // x - x is 0 or, for inf and NaN, NaN.
  const float infinity = std::numeric_limits<float>::infinity();
  const float special = x == 0.0f ? -infinity : (x > 0.0f ? x : x * 0.0f + (x - x) / 0.0f);
  return x > 0.0f && x < infinity ? result : special;
}

/// tanh x; at most 3 ulp (2.49 found).
[[gnu::always_inline]] HERO_HD inline float tanh(float x) {
  // (e^-2a - 1) / (e^-2a + 1) with the numerator as expm1: no cancellation near 0.
  const float y = detail::magnitude_below(x, 10.0f);
  const float rounded = std::fma(y, -2.0f * detail::kLog2E32, detail::kRound32);
  const float n = rounded - detail::kRound32;
  float r = std::fma(n, -detail::kLn2Hi32, -2.0f * y);
  r = std::fma(n, -detail::kLn2Lo32, r);
  const float q = detail::poly(r, 0x1.fffffep-2f, 0x1.5554b2p-3f, 0x1.555712p-5f, 0x1.12268ap-7f,
                               0x1.6b7828p-10f);
  const float p = std::fma(r * r, q, r);
  const float s = detail::power_of_two(rounded);
  const float em = std::fma(s, p, s - 1.0f);
  const float t = detail::xor_sign(std::fabs(em / (em + 2.0f)), x);
  return x != x ? x : t;
}

/// 1 / (1 + e^-x); at most 2.5 ulp (2.29 found), down to the denormals.
[[gnu::always_inline]] HERO_HD inline float sigmoid(float x) {
  const detail::Scaled t = detail::exp_negative(std::fabs(x));
  const float e = t.value * t.factor;
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/// x sigmoid(x); at most 3.5 ulp (3.24 found); -0 at -inf.
[[gnu::always_inline]] HERO_HD inline float silu(float x) {
  const detail::Scaled t = detail::exp_negative(std::fabs(x));
  const float y = x < -120.0f ? -120.0f : x;
  const float e = t.value * t.factor;
  // The factor comes last, so that a product of normal size never has a denormal for a factor.
  const float quotient = y * (x < 0.0f ? t.value : 1.0f) / (1.0f + e);
  return quotient * (x < 0.0f ? t.factor : 1.0f);
}

/// The error function; at most 1.5 ulp.
[[gnu::always_inline]] HERO_HD inline float erf(float x) {
  const float a = std::fabs(x);
  const float z = a * a;
  const float q = detail::poly(z, 0x1.06eba8p-3f, -0x1.81274p-2f, 0x1.ce2d66p-4f, -0x1.b80164p-6f,
                               0x1.544d7cp-8f, -0x1.a629b2p-11f, 0x1.4fcc56p-14f);
  const float small = std::fma(a, q, a);
  const float large = 1.0f - detail::erfc_middle(a > 3.95f ? 3.95f : a);
  return detail::xor_sign(a < 0.92f ? small : large, x);
}

/// x / 2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), as x / (1 + e^-2u), which does not
/// cancel for negative x. At most 2.5 ulp above -1 and 3.5 (1 + |u|) ulp below; -0 below -10, where
/// 1.21e-37 or less is left.
[[gnu::always_inline]] HERO_HD inline float gelu_tanh(float x) {
  constexpr float kLinear = -1.5957691216057308f;  // -2 sqrt(2 / pi)
  constexpr float kCubic = -0.07135481627159866f;  // the same times 0.044715
  const float y = detail::xor_sign(detail::magnitude_below(x, 10.0f), x);
  const float g = std::fma(y * y, kCubic, kLinear);
  const float w = y * g;
  const float t = detail::exp_in_range(w, std::fma(y, g, -w));
  return (x < -10.0f ? -0.0f : x) / (1.0f + t);
}

/// x Phi(x) = x / 2 (1 + erf(x / sqrt 2)), the tail without cancellation; at most 6.5 ulp (6.08
/// found) above -13; -0 below -13.19, where less than 1e-38 is left.
[[gnu::always_inline]] HERO_HD inline float gelu(float x) {
  // Phi(-a) = e^(-a^2 / 2) P(a) / Q(a), to 2^-27.
  const float a = std::fabs(x);
  const float y = detail::magnitude_below(x, 13.19f);
  const float p =
      detail::poly(y, 0.5f, 0x1.be0b32p-2f, 0x1.732bb6p-3f, 0x1.475af4p-5f, 0x1.073cap-8f);
  const float q = detail::poly(y, 1.0f, 0x1.ab47c8p+0f, 0x1.31b64ap+0f, 0x1.db555cp-2f,
                               0x1.9a4f36p-4f, 0x1.49e9e8p-7f);
  const float square = y * y;
  const float e = detail::exp_minus_half(square, std::fma(y, y, -square));
  const float phi = a > 13.19f ? 0.0f : e * p / q;
  return (x < -13.19f ? -13.19f : x) * (x < 0.0f ? phi : 1.0f - phi);
}

}  // namespace hero::math
