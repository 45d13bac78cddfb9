#pragma once
// Results of the GPU beside references of the CPU.
#include <cmath>

#include "cuda/gpu.h"
#include "support/arrays.h"

namespace hero_test {

/// |got - expected| / |expected| over all elements, both as float64; got may lie anywhere. An
/// element that is not finite counts as infinitely wrong unless both are the same.
inline double relative_error(const hero::Array& got, const hero::Array& expected) {
  REQUIRE(got.shape() == expected.shape());
  const std::vector<double> x = got.to(hero::kCpu).to_vector<double>();
  const std::vector<double> y = expected.to(hero::kCpu).to_vector<double>();
  double wrong = 0.0, all = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) {
      all += std::isfinite(y[i]) ? y[i] * y[i] : 0.0;
      continue;
    }
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return INFINITY;
    wrong += (x[i] - y[i]) * (x[i] - y[i]);
    all += y[i] * y[i];
  }
  return wrong == 0.0 ? 0.0 : std::sqrt(wrong / all);
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

/// The same view of the array's copy on the GPU, gaps and all.
inline hero::Array there(const hero::Array& view) {
  const int64_t count = view.storage().bytes() / item_size(view.dtype());
  const hero::Array all(view.storage_ref(), {count}, {1}, 0, view.dtype());
  return all.to(kGpu).as_strided(view.shape(), view.strides(), view.offset());
}

}  // namespace hero_test
