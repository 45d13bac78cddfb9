#pragma once
// The digits of an exact sum (core/functions/exact_sum.h), for host and device: how doubles are
// converted to digits and digits to a double.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <hero/core/kernels/config.h>

namespace hero::core::exact {

/// The layout of the words: digits of 32 bits, the lowest one, of weight 2^kLowest, first; then a
/// word to which kInfinite or kNan is added for each infinity and each NaN.
inline constexpr int kLowest = -2176;  // a multiple of 32
inline constexpr int kDigits = 134;
inline constexpr int kWords = kDigits + 1;
// Counted separately in one word: the two must not meet when words of many sums are added up.
inline constexpr int64_t kInfinite = 1;
inline constexpr int64_t kNan = int64_t{1} << 32;

inline constexpr int64_t kDigitMask = 0xFFFFFFFF;
inline constexpr int kExponents = 0x7FF;  ///< the exponent field of infinities and NaN

/// integer * 2^exponent
struct Parts {
  int64_t integer;
  int exponent;
};

/// The zero bits above the highest one of x > 0. std::countl_zero is not for a device: libstdc++'s
/// calls __builtin_clzl, of which nvcc 13.0 makes 64 whatever x is.
HERO_HD inline int leading_zeros(uint64_t x) { return __builtin_clzll(x); }

HERO_HD inline int exponent_field(double x) {
  return static_cast<int>(std::bit_cast<uint64_t>(x) >> 52) & kExponents;
}

/// |x| of a finite x.
HERO_HD inline Parts parts_of(double x) {
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  const auto fraction = static_cast<int64_t>(std::bit_cast<uint64_t>(x) & kFraction);
  const int field = exponent_field(x);
  if (field == 0) return {fraction, -1074};
  return {fraction | (int64_t{1} << 52), field - 1075};
}

/// Calls add(integer, exponent) twice, for two terms whose sum is x^2: all 106 bits, whether or not
/// a double could hold the square. (a * 2^27 + b)^2
template <class Add>
HERO_HD void split_square(double x, const Add& add) {
  constexpr int64_t kHalf = int64_t{1} << 27;
  const auto [integer, exponent] = parts_of(x);
  const int64_t a = integer / kHalf, b = integer % kHalf, middle = 2 * a * b;
  add(a * a + middle / kHalf, 2 * exponent + 54);
  add(b * b + middle % kHalf * kHalf, 2 * exponent);
}

/// Calls add(digit, amount) for the three digits to which integer * 2^exponent adds, each by less
/// than 2^33.
template <class Add>
HERO_HD void split_integer(int64_t integer, int exponent, const Add& add) {
  const int position = exponent - kLowest, digit = position / 32, shift = position % 32;
  const int64_t low = (integer & kDigitMask) << shift;
  const int64_t high = (integer >> 32) * (int64_t{1} << shift);
  add(digit, low & kDigitMask);
  add(digit + 1, (low >> 32) + (high & kDigitMask));
  add(digit + 2, high >> 32);
}

/// Propagates carries, so that every digit but the highest is in [0, 2^32), and reduces the counts
/// of infinities and NaNs to at most one each.
HERO_HD inline void carry(int64_t* words) {
  int64_t carried = 0;
  for (int i = 0; i + 1 < kDigits; ++i) {
    const int64_t digit = words[i] + carried;
    words[i] = digit & kDigitMask;
    carried = digit >> 32;
  }
  words[kDigits - 1] += carried;
  const int64_t special = words[kDigits];
  words[kDigits] = (special >= kNan ? kNan : 0) | (special % kNan != 0 ? kInfinite : 0);
}

/// mantissa * 2^exponent, the mantissa rounded to 53 bits; 0 for 0.
struct Rounded {
  double mantissa;
  int exponent;
};

/// The sum that carried words hold, with its mantissa rounded once: the 64 bits from the highest
/// set bit on, of which the last is also set if any lower bit is, round as the whole sum would.
HERO_HD inline Rounded rounded(const int64_t* words) {
  int top = kDigits - 1;
  while (top > 2 && words[top] == 0) --top;
  const auto first = static_cast<uint64_t>(words[top]);
  const auto second = static_cast<uint64_t>(words[top - 1]);
  const auto third = static_cast<uint64_t>(words[top - 2]);
  const int zeros = leading_zeros(first | 1) - 32, shift = zeros < 31 ? zeros : 31;
  uint64_t bits = ((first << 32 | second) << shift) | (third >> (32 - shift));
  bool below = third << (32 + shift) != 0;
  for (int i = 0; i + 2 < top; ++i) below = below || words[i] != 0;
  if (below) bits |= 1;
  return {static_cast<double>(bits), kLowest + 32 * (top - 1) - shift};
}

/// The value of carried words that hold infinities or NaN.
HERO_HD inline double not_finite(const int64_t* words) {
  return words[kDigits] >= kNan ? std::numeric_limits<double>::quiet_NaN()
                                : std::numeric_limits<double>::infinity();
}

/// The sum that carried words hold, rounded to the nearest double (twice where it is below
/// 2^-1022).
HERO_HD inline double value(const int64_t* words) {
  if (words[kDigits] != 0) return not_finite(words);
  const auto [mantissa, exponent] = rounded(words);
  return std::ldexp(mantissa, exponent);
}

/// The square root of the sum, which overflows only if the root itself does.
HERO_HD inline double root(const int64_t* words) {
  if (words[kDigits] != 0) return not_finite(words);
  const auto [mantissa, exponent] = rounded(words);
  const bool odd = exponent % 2 != 0;
  return std::ldexp(std::sqrt(odd ? 2.0 * mantissa : mantissa), (exponent - (odd ? 1 : 0)) / 2);
}

}  // namespace hero::core::exact
