#pragma once
// Units of 32 neighbouring numbers of a row in blocks of GGUF, decoded into registers: the float32
// numbers of core/io/gguf_blocks.cpp, where the blocks are described. Only quantized.cpp includes
// this.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hero/core/cpu/products/avx512_intrinsics.h>
#include <hero/core/cpu/products/gemm_kernel.h>

namespace hero::core::cpu::quantized {

inline constexpr int kUnit = 32;

/// Sixteen floats in vectors of any machine.
struct Sixteen {
  static constexpr int kParts = 16 / micro::kLanes<float>;
  micro::Vector<float> parts[kParts] = {};
};

/// A unit.
struct Unit {
  Sixteen first, second;
};

[[gnu::always_inline]] inline Sixteen load_sixteen(const float* from) {
  Sixteen x;
  for (int p = 0; p < Sixteen::kParts; ++p) {
    x.parts[p] = micro::load<float>(from + p * micro::kLanes<float>);
  }
  return x;
}

[[gnu::always_inline]] inline void store_sixteen(float* to, const Sixteen& x) {
  for (int p = 0; p < Sixteen::kParts; ++p) {
    micro::store<float>(to + p * micro::kLanes<float>, x.parts[p]);
  }
}

/// Rows of float32.
struct Plain {
  static constexpr int64_t row_bytes(int64_t k) { return k * 4; }
  [[gnu::always_inline]] static Unit unit(const std::byte* row, int64_t u) {
    const auto* from = reinterpret_cast<const float*>(row) + u * kUnit;
    return {load_sixteen(from), load_sixteen(from + 16)};
  }
};

#if defined(__AVX2__) && defined(__F16C__)
#define HERO_QUANTIZED_UNITS 1

using Floats = micro::Vector<float>;

[[gnu::always_inline]] inline __m128i load_bytes(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// A float16.
[[gnu::always_inline]] inline float half_of(const std::byte* from) {
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return _cvtsh_ss(bits);
}

// Bytes of two's complement as floats.
[[gnu::always_inline]] inline Sixteen floats_of(__m128i bytes) {
#if defined(__AVX512F__)
  return {{_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))}};
#else
  return {{_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
           _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))}};
#endif
}

[[gnu::always_inline]] inline Sixteen scaled(Sixteen x, float scale) {
  for (Floats& part : x.parts) part *= scale - Floats{};
  return x;
}

// What numbers of four bits stand for: scale * (q - middle), plus a shift where there is one; both
// operations round.
template <int middle, bool shifted>
class FourBits {
 public:
#if defined(__AVX512F__)
  [[gnu::always_inline]] FourBits(float scale, float shift) {
    constexpr float m = middle;
    constexpr Floats kNumbers = {0 - m, 1 - m, 2 - m,  3 - m,  4 - m,  5 - m,  6 - m,  7 - m,
                                 8 - m, 9 - m, 10 - m, 11 - m, 12 - m, 13 - m, 14 - m, 15 - m};
    values_ = kNumbers * (scale - Floats{});
    if constexpr (shifted) values_ += shift - Floats{};
  }
  // Of sixteen bytes the low halves, and the high halves. The exchange looks at four bits alone.
  [[gnu::always_inline]] Sixteen low(__m128i bytes) const {
    return {{_mm512_permutexvar_ps(_mm512_cvtepu8_epi32(bytes), values_)}};
  }
  [[gnu::always_inline]] Sixteen high(__m128i bytes) const {
    return {{_mm512_permutexvar_ps(_mm512_srli_epi32(_mm512_cvtepu8_epi32(bytes), 4), values_)}};
  }

 private:
  Floats values_;
#else
  [[gnu::always_inline]] FourBits(float scale, float shift) : scale_(scale), shift_(shift) {}
  [[gnu::always_inline]] Sixteen low(__m128i bytes) const {
    return values(_mm_and_si128(bytes, _mm_set1_epi8(15)));
  }
  [[gnu::always_inline]] Sixteen high(__m128i bytes) const {
    return values(_mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15)));
  }

 private:
  [[gnu::always_inline]] Sixteen values(__m128i q) const {
    if constexpr (middle != 0) q = _mm_sub_epi8(q, _mm_set1_epi8(middle));
    Sixteen x = scaled(floats_of(q), scale_);
    if constexpr (shifted) {
      for (Floats& part : x.parts) part += shift_ - Floats{};
    }
    return x;
  }
  float scale_, shift_;
#endif
};

// NOLINTBEGIN(readability-identifier-naming): the types' own names
struct Q8_0 {
  static constexpr int64_t row_bytes(int64_t k) { return k / 32 * 34; }
  [[gnu::always_inline]] static Unit unit(const std::byte* row, int64_t u) {
    const std::byte* block = row + u * 34;
    const float d = half_of(block);
    return {scaled(floats_of(load_bytes(block + 2)), d),
            scaled(floats_of(load_bytes(block + 18)), d)};
  }
};

struct Q4_0 {
  static constexpr int64_t row_bytes(int64_t k) { return k / 32 * 18; }
  [[gnu::always_inline]] static Unit unit(const std::byte* row, int64_t u) {
    const std::byte* block = row + u * 18;
    const FourBits<8, false> numbers(half_of(block), 0.0f);
    const __m128i bytes = load_bytes(block + 2);
    return {numbers.low(bytes), numbers.high(bytes)};
  }
};

struct Q4_1 {
  static constexpr int64_t row_bytes(int64_t k) { return k / 32 * 20; }
  [[gnu::always_inline]] static Unit unit(const std::byte* row, int64_t u) {
    const std::byte* block = row + u * 20;
    const FourBits<0, true> numbers(half_of(block), half_of(block + 2));
    const __m128i bytes = load_bytes(block + 4);
    return {numbers.low(bytes), numbers.high(bytes)};
  }
};

struct Q4_K {
  static constexpr int64_t row_bytes(int64_t k) { return k / 256 * 144; }
  [[gnu::always_inline]] static Unit unit(const std::byte* row, int64_t u) {
    const std::byte* block = row + u / 8 * 144;
    const int64_t group = u % 8;
    const auto [scale, minimum] = six_bits(block + 4, group);
    // a - b has the bits of a + (-b)
    const FourBits<0, true> numbers(half_of(block) * static_cast<float>(scale),
                                    -(half_of(block + 2) * static_cast<float>(minimum)));
    const std::byte* from = block + 16 + group / 2 * 32;
    const __m128i first = load_bytes(from), second = load_bytes(from + 16);
    if (group % 2 == 0) return {numbers.low(first), numbers.low(second)};
    return {numbers.high(first), numbers.high(second)};
  }

 private:
  struct Pair {
    int scale, minimum;
  };
  [[gnu::always_inline]] static Pair six_bits(const std::byte* in, int64_t group) {
    const auto at = [in](int64_t i) { return std::to_integer<int>(in[i]); };
    if (group < 4) return {at(group) & 63, at(group + 4) & 63};
    return {(at(group + 4) & 15) | at(group - 4) >> 6 << 4,
            at(group + 4) >> 4 | at(group) >> 6 << 4};
  }
};

struct Q6_K {
  static constexpr int64_t row_bytes(int64_t k) { return k / 256 * 210; }
  [[gnu::always_inline]] static Unit unit(const std::byte* row, int64_t u) {
    const std::byte* block = row + u / 8 * 210;
    const int64_t half = u % 8 / 4, run = u % 4;
    const std::byte* low = block + half * 64 + run % 2 * 32;
    const std::byte* high = block + 128 + half * 32;
    const float d = half_of(block + 208);
    const std::byte* scales = block + 192 + half * 8 + 2 * run;
    return {sixteen(low, high, run, d, scales[0]), sixteen(low + 16, high + 16, run, d, scales[1])};
  }

 private:
  [[gnu::always_inline]] static Sixteen sixteen(const std::byte* low, const std::byte* high,
                                                int64_t run, float d, std::byte scale) {
    const auto shifted = [](__m128i bytes, int64_t bits) {
      return _mm_srl_epi16(bytes, _mm_cvtsi64_si128(bits));
    };
    const __m128i four = _mm_and_si128(shifted(load_bytes(low), run / 2 * 4), _mm_set1_epi8(15));
    const __m128i two = _mm_and_si128(shifted(load_bytes(high), 2 * run), _mm_set1_epi8(3));
    const __m128i q = _mm_or_si128(four, _mm_slli_epi16(two, 4));
    const auto step = static_cast<float>(static_cast<int8_t>(std::to_integer<uint8_t>(scale)));
    return scaled(floats_of(_mm_sub_epi8(q, _mm_set1_epi8(32))), d * step);
  }
};
// NOLINTEND(readability-identifier-naming)
#endif

}  // namespace hero::core::cpu::quantized
