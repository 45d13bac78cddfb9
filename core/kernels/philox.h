#pragma once
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011):
// a block cipher on a counter, so that number i costs the same whatever was drawn before it. Beside
// it are the maps from its words to uniform and normal numbers, written with exactly rounded
// operations only (no libm), so that every machine and every vector width gives the same bits.
#include <bit>
#include <cmath>
#include <cstdint>

#include <hero/core/kernels/config.h>

namespace hero::philox {

/// The four random words that one counter value gives.
struct Block {
  uint32_t word[4];
};

/// \name What a round multiplies words by, and what it adds to the halves of the key.
/// \{
inline constexpr uint32_t kFactor0 = 0xD2511F53, kFactor1 = 0xCD9E8D57;
inline constexpr uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;
inline constexpr int kRounds = 10;
/// \}

/// The four words for a 128-bit counter (block, stream) under a 64-bit key; low words first.
HERO_HD inline Block block(uint64_t key, uint64_t stream, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{kFactor0} * c0, p1 = uint64_t{kFactor1} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += kKeyStep0;
    k1 += kKeyStep1;
  }
  return {{c0, c1, c2, c3}};
}

/// Two words as one number, the first word above.
HERO_HD constexpr uint64_t join(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

/// A double that holds an integer below 2^52 exactly; the bit trick vectorises where the hardware
/// has no conversion from 64-bit integers.
HERO_HD inline double exact_double(uint64_t below_2_52) {
  return std::bit_cast<double>(below_2_52 | 0x4330000000000000u) - 0x1p52;
}

/// [0, 1) in steps of 2^-24, from the upper bits of one word.
HERO_HD inline float uniform24(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}

/// [0, 1) in steps of 2^-53, from the upper bits of two words.
HERO_HD inline double uniform53(uint32_t high, uint32_t low) {
  // 52 bits through the trick, the last one added: both steps are exact.
  const uint64_t bits = join(high, low) >> 11;
  return exact_double(bits >> 1) * 0x1p-52 + exact_double(bits & 1) * 0x1p-53;
}

/// (0, 1] in steps of 2^-32, from one word; safe to take the logarithm of.
HERO_HD inline double positive32(uint32_t word) {
  return exact_double(uint64_t{word} + 1) * 0x1p-32;
}

/// (0, 1] in steps of 2^-53, from two words; safe to take the logarithm of.
HERO_HD inline double positive53(uint32_t high, uint32_t low) {
  return uniform53(high, low) + 0x1p-53;
}

/// The natural logarithm of a normal positive double, within 2 ulp; 0 exactly at 1.
HERO_HD inline double log_of(double x) {
  // x = 2^e * m with m in [sqrt(1/2), sqrt(2)): moving the exponent's border there keeps the sum
  // e * ln 2 + ln m free of cancellation for x just below 1.
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t shifted = bits - 0x3FE6A09E667F3BCDu;  // minus the bits of sqrt(1/2)
  const uint64_t biased = (shifted + (uint64_t{1024} << 52)) >> 52;
  const double e = exact_double(biased) - 1024.0;
  const double m = std::bit_cast<double>(bits - ((biased - 1024) << 52));
  // ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716: the odd series to s^19.
  const double f = m - 1.0;
  const double s = f / (m + 1.0), z = s * s;
  double p = 2.0 / 19.0;
  p = p * z + 2.0 / 17.0;
  p = p * z + 2.0 / 15.0;
  p = p * z + 2.0 / 13.0;
  p = p * z + 2.0 / 11.0;
  p = p * z + 2.0 / 9.0;
  p = p * z + 2.0 / 7.0;
  p = p * z + 2.0 / 5.0;
  p = p * z + 2.0 / 3.0;
  // 2 s = f - s f: keeping f whole leaves the rounding errors to the small terms.
  const double small = s * (z * p - f);
  constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  return e * kLn2High + (f + (small + e * kLn2Low));
}

/// Sine and cosine of one angle.
struct SinCos {
  double sin, cos;
};

/// Sine and cosine of a full turn times `u` in [0, 1), within 2 ulp.
HERO_HD inline SinCos turn(double u) {
  // The nearest quarter turn is subtracted exactly; the rest is at most an eighth of a turn.
  const double quarter = (u * 4.0 + 0x1.8p52) - 0x1.8p52;
  const double x = (u - quarter * 0.25) * 0x1.921fb54442d18p+2;  // 2 pi
  const double z = x * x;
  double s = -1.0 / 1307674368000.0;
  s = s * z + 1.0 / 6227020800.0;
  s = s * z - 1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  s = x + x * (z * s);
  double c = 1.0 / 20922789888000.0;
  c = c * z - 1.0 / 87178291200.0;
  c = c * z + 1.0 / 479001600.0;
  c = c * z - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  c = (1.0 - 0.5 * z) + z * z * c;
  // Quarter q turns (s, c) into (s, c), (c, -s), (-s, -c), (-c, s); q = 4 is q = 0.
  const bool swap = quarter == 1.0 || quarter == 3.0;
  const double a = swap ? c : s, b = swap ? s : c;
  const double sin = quarter == 2.0 || quarter == 3.0 ? -a : a;
  const double cos = quarter == 1.0 || quarter == 2.0 ? -b : b;
  return {sin, cos};
}

/// Two independent standard normal numbers.
struct NormalPair {
  double first, second;
};

/// Box and Muller's map (1958) from u in (0, 1] and v in [0, 1).
HERO_HD inline NormalPair box_muller(double u, double v) {
  const double radius = std::sqrt(-2.0 * log_of(u));
  const SinCos angle = turn(v);
  return {radius * angle.cos, radius * angle.sin};
}

/// floor(x * bound / 2^64): an even spread of 64 random bits over [0, bound).
HERO_HD constexpr uint64_t scale_to(uint64_t x, uint64_t bound) {
  const uint64_t x0 = x & 0xffffffffu, x1 = x >> 32, b0 = bound & 0xffffffffu, b1 = bound >> 32;
  const uint64_t middle = x1 * b0 + (x0 * b0 >> 32);
  return x1 * b1 + (middle >> 32) + (((middle & 0xffffffffu) + x0 * b1) >> 32);
}

}  // namespace hero::philox
