#pragma once
// The arithmetic of codecs, for host and device: encoding and decoding the numbers of a block.
// core/functions/codec.h describes the format of the bytes.
#include <bit>
#include <cmath>
#include <cstdint>

#include <hero/core/kernels/config.h>

namespace hero::core::codecs {

/// Elements that share a scale.
inline constexpr int kBlock = 256;
/// Bytes of a scale, a float32 before the codes to which it belongs.
inline constexpr int kScaleBytes = 4;
/// A block without a magnitude of 2^-110 is stored as zeros: the inverse of its scale could
/// overflow.
inline constexpr uint32_t kLeastBits = (127u - 110u) << 23;
/// The bits of the smallest float that is not finite, without its sign.
inline constexpr uint32_t kNotFinite = 0x7F800000u;
inline constexpr uint32_t kNanBits = 0x7FC00000u;

HERO_HD inline uint32_t magnitude_bits(float x) { return std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu; }

/// Whole numbers from -kMost to kMost, the nearest to each element, ties to even.
template <int kMost>
struct Integers {
  static constexpr float kLargest = kMost;
  /// |y| <= kMost, but for a rounding. 1.5 * 2^23 has the last bit 1: adding it rounds.
  HERO_HD static int code(float y) {
    return static_cast<int>(std::bit_cast<uint32_t>(y + 12582912.0f) - 0x4B400000u);
  }
  HERO_HD static float value(int code) { return static_cast<float>(code); }
};

/// Eight bits: a sign, an exponent with a bias, and kFraction bits of fraction, with subnormal
/// numbers; the nearest to each element, ties to even. Micikevicius et al., arXiv 2209.05433. The
/// codes of infinities and NaN do not occur.
template <int kFraction, int kBias, int kMost>
struct Float8 {
  static constexpr float kLargest = kMost;
  HERO_HD static int code(float y) {
    constexpr int kDropped = 23 - kFraction;
    constexpr uint32_t kSmallestNormal = (128u - kBias) << 23;
    // A float whose last bit has the weight of the smallest subnormal number: adding it rounds.
    constexpr uint32_t kUnit = (127u + 1 - kBias - kFraction + 23) << 23;
    const uint32_t magnitude = magnitude_bits(y);
    const uint32_t sign = std::bit_cast<uint32_t>(y) >> 24 & 0x80u;
    const uint32_t even = magnitude >> kDropped & 1u;
    const uint32_t normal =
        (magnitude - ((127u - kBias) << 23) + (1u << (kDropped - 1)) - 1u + even) >> kDropped;
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kUnit)) -
        kUnit;
    return static_cast<int>(sign | (magnitude < kSmallestNormal ? subnormal : normal));
  }
  HERO_HD static float value(int code) {
    const uint32_t bits = static_cast<uint32_t>(code);
    const float scaled = std::bit_cast<float>((bits & 0x7Fu) << (23 - kFraction));
    const float rebias = std::bit_cast<float>((127u + 127u - kBias) << 23);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled * rebias) | (bits & 0x80u) << 24);
  }
};

using Int8 = Integers<127>;
using Int4 = Integers<7>;
using E4M3 = Float8<3, 7, 448>;
using E5M2 = Float8<2, 15, 57344>;

/// How the elements of a block become codes: element * inverse is rounded to a code, and a code is
/// decoded to its value * scale. `scale` is NaN where an element is not finite.
struct BlockScale {
  float scale, inverse;
};

/// For a block whose largest magnitude has these bits.
template <class Format>
HERO_HD inline BlockScale block_scale(uint32_t largest) {
  if (largest >= kNotFinite) return {std::bit_cast<float>(kNanBits), 0.0f};
  if (largest < kLeastBits) return {0.0f, 0.0f};
  const float most = std::bit_cast<float>(largest);
  const float scale = most / Format::kLargest;
  // Rounded up it could be too large at the end of the range.
  const bool overflows = magnitude_bits(scale * Format::kLargest) >= kNotFinite;
  const uint32_t bits = std::bit_cast<uint32_t>(scale) - (overflows ? 1u : 0u);
  return {std::bit_cast<float>(bits), Format::kLargest / most};
}

/// The scale of sign bits: the root of the mean square of `count` elements, the root of the sum of
/// whose squares is given; NaN where that is not finite.
HERO_HD inline float sign_scale(double root, int64_t count) {
  if (count == 0) return 0.0f;
  const auto scale = static_cast<float>(root / std::sqrt(static_cast<double>(count)));
  return magnitude_bits(scale) < kNotFinite ? scale : std::bit_cast<float>(kNanBits);
}

/// A sign bit's value.
HERO_HD inline float sign_value(uint32_t bit, float scale) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scale) ^ bit << 31);
}

/// The error of a code: the element minus its decoded value, or 0 if the scale is NaN, so that
/// error feedback stays finite.
HERO_HD inline float left_out(float x, float decoded, float scale) {
  return scale == scale ? x - decoded : 0.0f;
}

}  // namespace hero::core::codecs
