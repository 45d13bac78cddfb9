#pragma once
// Building blocks of the scalar functions of core/kernels/math.h: bit casts, Horner's rule, powers
// of two.
#include <cmath>
#include <cstdint>

#include <hero/core/kernels/config.h>

namespace hero::math::detail {

// [note: how these functions vectorise] Each is called once an element in a plain loop and has to
// become part of it: always inlined, no branches, no calls into libm, no conversion of an
// out-of-range float to an integer. A multiply-add is fused where std::fma says so and nowhere
// else, so a lane of AVX2, a lane of AVX-512 and a scalar tail give the same bits.

[[gnu::always_inline]] HERO_HD inline uint32_t bits(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
[[gnu::always_inline]] HERO_HD inline uint64_t bits(double x) {
  return __builtin_bit_cast(uint64_t, x);
}
[[gnu::always_inline]] HERO_HD inline float from_bits(uint32_t x) {
  return __builtin_bit_cast(float, x);
}
[[gnu::always_inline]] HERO_HD inline double from_bits(uint64_t x) {
  return __builtin_bit_cast(double, x);
}

constexpr uint32_t kSign32 = 0x80000000u;
constexpr uint64_t kSign64 = 0x8000000000000000u;

/// c0 + c1 x + c2 x^2 + ..., one fused step a coefficient.
template <class T>
[[gnu::always_inline]] HERO_HD inline T poly(T, T c0) {
  return c0;
}
template <class T, class... Rest>
[[gnu::always_inline]] HERO_HD inline T poly(T x, T c0, Rest... rest) {
  return std::fma(poly(x, rest...), x, c0);
}

/// magnitude with the sign bit of `sign` added to its own.
[[gnu::always_inline]] HERO_HD inline float xor_sign(float magnitude, float sign) {
  return from_bits(bits(magnitude) ^ (bits(sign) & kSign32));
}
[[gnu::always_inline]] HERO_HD inline double xor_sign(double magnitude, double sign) {
  return from_bits(bits(magnitude) ^ (bits(sign) & kSign64));
}

/// All ones where a condition holds. A mask is data: the compiler cannot turn a chain of masked
/// selections back into branches, which it does with a chain of ?: and which costs four times.
[[gnu::always_inline]] HERO_HD inline uint64_t mask(bool condition) {
  return uint64_t{0} - static_cast<uint64_t>(condition);
}
[[gnu::always_inline]] HERO_HD inline double keep(uint64_t mask, double x) {
  return from_bits(mask & bits(x));
}
[[gnu::always_inline]] HERO_HD inline double select(uint64_t mask, double x, double otherwise) {
  return from_bits((mask & bits(x)) | (~mask & bits(otherwise)));
}

/// x where a condition holds, else y. The code of ?: reads only the chosen operand, after the
/// comparison, for whose operands it may have to wait; this reads both at once.
[[gnu::always_inline]] HERO_HD inline float either(bool condition, float x, float y) {
  const uint32_t taken = uint32_t{0} - static_cast<uint32_t>(condition);
  return from_bits(((bits(x) ^ bits(y)) & taken) ^ bits(y));
}
[[gnu::always_inline]] HERO_HD inline double either(bool condition, double x, double y) {
  return from_bits(((bits(x) ^ bits(y)) & mask(condition)) ^ bits(y));
}

/// x held within [lo, hi]; NaN stays NaN.
template <class T>
[[gnu::always_inline]] HERO_HD inline T clamp(T x, T lo, T hi) {
  x = x < lo ? lo : x;
  return x > hi ? hi : x;
}

/// |x| held below `high` > 0, NaN included: the caller must bring that back. Floats of one sign are
/// ordered as their bits, and the smaller of two integers is one instruction, which the compiler
/// cannot turn into a selection between everything that follows.
[[gnu::always_inline]] HERO_HD inline float magnitude_below(float x, float high) {
  const uint32_t magnitude = bits(x) & ~kSign32;
  return from_bits(magnitude < bits(high) ? magnitude : bits(high));
}

/// x held within [lo, hi] for lo < 0 < hi, NaN included: positive floats are the positive signed
/// integers, negative floats the largest unsigned ones.
[[gnu::always_inline]] HERO_HD inline float clamp_by_bits(float x, float lo, float hi) {
  const auto top = static_cast<int32_t>(bits(hi));
  const auto whole = static_cast<int32_t>(bits(x));
  const auto below = static_cast<uint32_t>(whole < top ? whole : top);
  return from_bits(below < bits(lo) ? below : bits(lo));
}

// Adding 1.5 * 2^23 (2^52) rounds to the nearest integer, ties to even, and leaves that integer
// in the low bits: rounding and conversion in one addition.
constexpr float kRound32 = 0x1.8p23f;
constexpr double kRound64 = 0x1.8p52;

/// 2^n for the integer n held in the low bits of `rounded` = n + kRound; n in [-126, 127].
[[gnu::always_inline]] HERO_HD inline float power_of_two(float rounded) {
  return from_bits((bits(rounded) << 23) + 0x3f800000u);
}
/// p * 2^n for the same n where p and the product are positive normal numbers.
[[gnu::always_inline]] HERO_HD inline float times_power_of_two(float p, float rounded) {
  return from_bits(bits(p) + (bits(rounded) << 23));
}
/// As power_of_two(float); n in [-1022, 1023].
[[gnu::always_inline]] HERO_HD inline double power_of_two(double rounded) {
  return from_bits((bits(rounded) << 52) + 0x3ff0000000000000u);
}

constexpr float kLog2E32 = 0x1.715476p+0f;
constexpr float kLn2Hi32 = 0x1.62e43p-1f;  // ln 2 = hi + lo, good to 2^-53
constexpr float kLn2Lo32 = -0x1.05c61p-29f;
constexpr double kLog2E64 = 0x1.71547652b82fep+0;
constexpr double kLn2Hi64 = 0x1.62e42fefa39efp-1;  // ln 2 = hi + lo, good to 2^-109
constexpr double kLn2Lo64 = 0x1.abc9e3b39803fp-56;

}  // namespace hero::math::detail
