#pragma once
// The two 16-bit floats, which are storage types only, and the types in which elements are
// computed. Arithmetic on them is done in float and rounded once, to nearest even, when the result
// is stored. A GPU's own conversions give the same bits, except for NaNs.
#include <bit>
#include <cstdint>
#include <type_traits>

#include <hero/core/kernels/config.h>

namespace hero {

/// bfloat16: the upper half of a float32 (8 exponent bits, 7 fraction bits).
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  HERO_HD explicit BFloat16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto word = std::bit_cast<uint32_t>(value);
    // A NaN must stay one: rounding could carry its fraction into infinity.
    const uint32_t rounded = word + 0x7FFFu + ((word >> 16) & 1u);
    const bool is_nan = (word & 0x7FFFFFFFu) > 0x7F800000u;
    bits = static_cast<uint16_t>((is_nan ? (word | 0x400000u) : rounded) >> 16);
#endif
  }
  HERO_HD explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// IEEE 754 binary16 (5 exponent bits, 10 fraction bits).
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  HERO_HD explicit Float16(float value) {
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto word = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (word >> 16) & 0x8000u;
    const uint32_t magnitude = word & 0x7FFFFFFFu;
    // Normal results: rebias the exponent and round to nearest even on 13 dropped bits. Values that
    // reach 65520 round to infinity, since the carry runs into the exponent.
    const uint32_t normal = (magnitude - 0x38000000u + 0x0FFFu + ((magnitude >> 13) & 1u)) >> 13;
    // Subnormal results: adding 0.5 aligns the fraction so that the float adder does the rounding.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
    uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
    half = magnitude >= 0x47800000u ? 0x7C00u : half;
    half = magnitude > 0x7F800000u ? 0x7E00u : half;
    bits = static_cast<uint16_t>(sign | half);
#endif
  }
  HERO_HD explicit operator float() const {
#if defined(__CUDA_ARCH__)
    float value = 0.0f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7FFFu;
    // Scaling by 2^112 rebiases normal and subnormal numbers alike; infinities and NaNs are
    // patched.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    uint32_t word = std::bit_cast<uint32_t>(scaled);
    word = magnitude >= 0x7C00u ? (0x7F800000u | (magnitude << 13)) : word;
    return std::bit_cast<float>(sign | word);
#endif
  }
};

namespace core {

/// True for Float16 and BFloat16.
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// The type in which arithmetic on T is done: float for halves, else T.
template <class T>
using ComputeOf = std::conditional_t<kIsHalf<T>, float, T>;

/// The same with bool as uint8_t: for kernels whose bools are the bytes 0 and 1.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, bool>, uint8_t, ComputeOf<T>>;

}  // namespace core
}  // namespace hero
