#pragma once
// The orders in which the processor's instructions add the products of bfloat16, in scalars:
// the notes of core/cpu/products/gemm_bf16.h, spelled out.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <hero/core/cpu/level.h>
#include <hero/core/cpu/products/gemm_bf16.h>

namespace hero_test {

inline float without_subnormal(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

// x * y + sum rounded once to 24 binary digits. A result below the normal numbers is zero; it
// counts as below them if rounding without a lower end of the range leaves it there.
inline float flushed_fma(float x, float y, float sum) {
  const float a = without_subnormal(x), b = without_subnormal(y), c = without_subnormal(sum);
  const float result = std::fma(a, b, c);
  constexpr float kLeast = std::numeric_limits<float>::min();
  if (!(std::abs(result) <= kLeast)) return result;
  // The same 2^128 times as large, where float32 has room below.
  const float scaled = std::fma(a * 0x1p64f, b * 0x1p64f, c * 0x1p64f * 0x1p64f);
  return std::abs(scaled) < kLeast * 0x1p64f * 0x1p64f ? std::copysign(0.0f, scaled) : result;
}

/// The sum of a(p) b(p) for p in [0, k), by AVX512-BF16; both give a BFloat16.
template <class A, class B>
float dot_half_sum(int64_t k, const A& a, const B& b) {
  const auto step = [&](int64_t p, float sum) {
    return flushed_fma(static_cast<float>(a(p)), static_cast<float>(b(p)), sum);
  };
  float total = 0.0f;
  for (int64_t first = 0; first < k; first += hero::core::cpu::kBf16Chain) {
    float sum = 0.0f;
    for (int64_t p = first; p < std::min(k, first + hero::core::cpu::kBf16Chain); p += 2) {
      sum = p + 1 < k ? step(p + 1, sum) : flushed_fma(0.0f, 0.0f, sum);
      sum = step(p, sum);
    }
    total = first == 0 ? sum : total + sum;
  }
  return total;
}

/// The same by AMX.
template <class A, class B>
float tile_half_sum(int64_t k, const A& a, const B& b) {
  const auto step = [&](int64_t p, float sum) {
    if (p >= k) return flushed_fma(0.0f, 0.0f, sum);
    return flushed_fma(static_cast<float>(a(p)), static_cast<float>(b(p)), sum);
  };
  const auto add = [](float x, float y) { return flushed_fma(x, 1.0f, y); };
  float total = 0.0f;
  for (int64_t first = 0; first < k; first += 32) {
    float even = 0.0f, odd = 0.0f;
    for (int64_t p = first; p < std::min(k, first + 32); p += 2) {
      even = step(p, even);
      odd = step(p + 1, odd);
    }
    total = add(total, add(even, odd));
  }
  return total;
}

// x + rest, of which x is the sum rounded to float64, rounded to odd: cut off to 24 binary digits,
// the last of which is one where something was lost. Zero below the normal numbers.
inline float rounded_to_odd(double x, double rest) {
  if (x == 0.0 || !std::isfinite(x)) return static_cast<float>(x);
  auto bits = std::bit_cast<uint64_t>(x);
  if (rest != 0.0) {
    if (std::signbit(rest) != std::signbit(x)) --bits;  // towards zero
    bits |= 1;
  }
  constexpr uint64_t kLost = (uint64_t{1} << 29) - 1;
  if ((bits & kLost) != 0) bits |= kLost + 1;
  const auto cut = std::bit_cast<double>(bits & ~kLost);
  if (std::abs(cut) < 0x1p-126) return std::copysign(0.0f, static_cast<float>(x));
  if (std::abs(cut) >= 0x1p128)
    return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(x));
  return static_cast<float>(cut);
}

inline float odd_product(float x, float y) {
  const double exact = static_cast<double>(without_subnormal(x)) * without_subnormal(y);
  return rounded_to_odd(exact, 0.0);
}

inline float odd_sum(float x, float y) {
  const double a = without_subnormal(x), b = without_subnormal(y), sum = a + b, part = sum - a;
  return rounded_to_odd(sum, (a - (sum - part)) + (b - part));
}

/// The same by BFMMLA and BFDOT.
template <class A, class B>
float arm_half_sum(int64_t k, const A& a, const B& b) {
  const auto product = [&](int64_t p) {
    return p < k ? odd_product(static_cast<float>(a(p)), static_cast<float>(b(p))) : 0.0f;
  };
  float total = 0.0f;
  for (int64_t first = 0; first < k; first += hero::core::cpu::kBf16Chain) {
    float sum = 0.0f;
    for (int64_t p = first; p < std::min(k, first + hero::core::cpu::kBf16Chain); p += 2)
      sum = odd_sum(sum, odd_sum(product(p), product(p + 1)));
    total = first == 0 ? sum : total + sum;
  }
  return total;
}

/// Which of them level() has.
enum class HalfOrder : uint8_t { dot, tile, arm };
inline HalfOrder half_order() {
#if defined(__aarch64__)
  return HalfOrder::arm;
#else
  using namespace hero::core::cpu;
  return level() == Level::amx ? HalfOrder::tile : HalfOrder::dot;
#endif
}

template <class A, class B>
float native_half_sum(int64_t k, const A& a, const B& b) {
  switch (half_order()) {
    case HalfOrder::dot:
      return dot_half_sum(k, a, b);
    case HalfOrder::tile:
      return tile_half_sum(k, a, b);
    case HalfOrder::arm:
      break;
  }
  return arm_half_sum(k, a, b);
}

}  // namespace hero_test
