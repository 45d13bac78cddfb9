#pragma once
// Exact sums of squares of floats that are alike, for exact_sum.cpp.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace hero::core::cpu {

typedef double DoubleLanes __attribute__((vector_size(64)));
inline constexpr int kSumVectors = 4;  // of running sums, so that none waits for another
inline constexpr int kSumLanes = kSumVectors * 8;
// Elements that are added up at once, 16 a lane.
inline constexpr int64_t kCloseSquares = 16 * kSumLanes;
// The largest exponent may be so much above the smallest that what is left of 64 squares, each
// less than half of the grid, has 53 bits.
inline constexpr int kMostApart = 23;

// Eight floats. The compiler's own conversion takes five instructions.
inline void widen(const float* x, DoubleLanes& wide) {
#ifdef __AVX512F__
  wide = _mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(x));  // all; g++ 12 warns of the plain one
#else
  for (int i = 0; i < 8; ++i) wide[i] = static_cast<double>(x[i]);
#endif
}

// sum = to + wide^2. The squares are exact, so that an instruction which does not round them has
// the same result.
inline void plus_square(const DoubleLanes& to, const DoubleLanes& wide, DoubleLanes& sum) {
#ifdef __AVX512F__
  sum = _mm512_fmadd_pd(wide, wide, to);
#else
  sum = to + wide * wide;
#endif
}

inline double two_to(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

inline int float_exponent(uint32_t magnitude) {
  return std::max(static_cast<int>(magnitude >> 23), 1);
}

// grids * 2^grid + units * 2^unit
struct CloseSum {
  int64_t grids = 0;
  int grid = 0;
  int64_t units = 0;
  int unit = 0;
};

// The sum of the squares of kCloseSquares elements whose exponents lie close together, which is
// the usual case, in half of the operations that others take. Each lane has a sum that begins at
// 1.5 * 2^52 grids, so that adding a square rounds it to the grid, and one of what is left. Both
// are exact: the first has room for all 16 squares of the lane, and the second, also that of four
// lanes, is a sum of multiples of the smallest square's last bit that is at most 2^52 of them.
// False where exponents lie too far apart or an element is not finite.
inline bool add_up_close_squares(const float* x, CloseSum& sum) {
  uint32_t largest = 0, smallest = ~0u;  // the smallest one, less 1, but for zeros
  for (int64_t i = 0; i < kCloseSquares; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFu;
    largest = std::max(largest, magnitude);
    smallest = std::min(smallest, magnitude - 1u);
  }
  if (largest == 0) {
    sum = {};
    return true;
  }
  const int top = float_exponent(largest), low = float_exponent(smallest + 1u);
  if (largest >= 0x7F800000u || top - low > kMostApart) return false;
  // Elements are less than 2^(top - 126) and multiples of 2^(low - 150).
  const int grid = 2 * (top - 126) + 4 - 51, unit = 2 * (low - 150);
  const double offset = 1.5 * two_to(52 + grid);
  DoubleLanes sums[kSumVectors], left[kSumVectors];
  std::fill_n(sums, kSumVectors, DoubleLanes{} + offset);
  std::fill_n(left, kSumVectors, DoubleLanes{});
  for (int64_t i = 0; i < kCloseSquares; i += kSumLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kSumVectors; ++v) {
      DoubleLanes wide, next, rounded_off;
      widen(x + i + 8 * v, wide);
      plus_square(sums[v], wide, next);
      plus_square(sums[v] - next, wide, rounded_off);
      left[v] += rounded_off;
      sums[v] = next;
    }
  }
  std::array<uint64_t, kSumLanes> bits;
  std::array<double, 8> rest;
  const DoubleLanes all_left = (left[0] + left[1]) + (left[2] + left[3]);
  std::memcpy(bits.data(), sums, sizeof bits);
  std::memcpy(rest.data(), &all_left, sizeof rest);
  uint64_t grids = 0;
  int64_t units = 0;
  const double per_unit = two_to(-unit);
  for (const uint64_t lane : bits) grids += lane;
  for (const double one : rest) units += static_cast<int64_t>(one * per_unit);
  grids -= kSumLanes * std::bit_cast<uint64_t>(offset);
  sum = {static_cast<int64_t>(grids), grid, units, unit};
  return true;
}

}  // namespace hero::core::cpu
