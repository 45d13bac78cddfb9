#pragma once
// Results of a GPU beside those that the CPU gets in float64.
#include <cmath>

#include "cuda/gpu.h"
#include "cuda/same_bits.h"
#include "support/arrays.h"

#include <hero/core/array.h>

namespace hero_test {

/// |x - y| / |y| over the elements that are finite in y; infinite when x and y do not have the same
/// NaNs and infinities. x may lie anywhere.
inline double distance(const hero::Array& x, const hero::Array& y) {
  const auto a = x.to(hero::kCpu).to(hero::kFloat64).to_vector<double>();
  const auto b = y.to(hero::kCpu).to(hero::kFloat64).to_vector<double>();
  if (!(x.shape() == y.shape())) return INFINITY;
  double apart = 0.0, length = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(b[i])) {
      apart += (a[i] - b[i]) * (a[i] - b[i]);
      length += b[i] * b[i];
    } else if (std::isnan(a[i]) != std::isnan(b[i]) || (!std::isnan(b[i]) && a[i] != b[i])) {
      return INFINITY;
    }
  }
  if (std::isnan(apart)) return INFINITY;
  return apart > 0.0 ? std::sqrt(apart / length) : 0.0;
}

/// How far a result may be from the exact one: it is rounded once to its dtype, by half of the
/// spacing at most; float32 and float64 results come out of sums and products whose errors add up
/// to a few spacings.
inline double allowed(hero::DType dtype) {
  switch (dtype) {
    case hero::DType::bfloat16:
      return 0x1p-8;
    case hero::DType::float16:
      return 0x1p-11;
    case hero::DType::float64:
      return 0x1p-49;
    default:
      return 0x1p-20;
  }
}

/// Half the distance of 1 to the next number: the largest relative error of one rounding.
inline double rounding(hero::DType dtype) {
  if (dtype == hero::kFloat64) return 0x1p-53;
  if (dtype == hero::kFloat32) return 0x1p-24;
  return dtype == hero::kFloat16 ? 0x1p-11 : 0x1p-8;
}

/// Sums of k products of random signs: each addition rounds once to the accumulator (float32, or
/// float64), and roundings of random sign grow with the square root of their number; the result is
/// rounded once more when stored. Twice that, since some elements are unluckier than the rest.
inline double product_tolerance(hero::DType dtype, int64_t k) {
  const double sum = rounding(dtype == hero::kFloat64 ? hero::kFloat64 : hero::kFloat32);
  return 2.0 * (rounding(dtype) + std::sqrt(static_cast<double>(k)) * sum);
}

/// The values on the GPU over memory with gaps, dimensions in reverse order.
inline hero::Array awkward_on_gpu(const hero::Array& x) { return on_gpu(hero::test::awkward(x)); }

inline constexpr hero::DType kFloatDTypes[] = {hero::kFloat64, hero::kFloat32, hero::kBFloat16,
                                               hero::kFloat16};

}  // namespace hero_test
