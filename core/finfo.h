#pragma once
// The limits of a dtype's numbers, such as the largest, the smallest, and the step from 1 to the
// next.
#include <cstdint>
#include <limits>

#include <hero/core/dtype.h>
#include <hero/core/error.h>

namespace hero {

/// What finfo() returns, in double, which can represent all of these numbers.
struct FInfo {
  int bits;                ///< of one number
  double eps;              ///< the distance of 1 and the next larger number
  double max, min;         ///< the largest and the lowest finite number
  double tiny;             ///< the smallest positive normal number
  double smallest_normal;  ///< another name of tiny
  double resolution;       ///< 10^-d, where d decimal digits of a number are reliable
};

/// The limits of a floating dtype: `masked_fill(scores, mask, finfo(scores.dtype()).min)`. Throws
/// an Error for other dtypes.
inline FInfo finfo(DType dtype) {
  check(is_floating(dtype), "finfo: ", dtype, " is not floating; iinfo() is for integers");
  if (dtype == kFloat16) return {16, 0x1p-10, 65504.0, -65504.0, 0x1p-14, 0x1p-14, 1e-3};
  if (dtype == kBFloat16) {
    return {16, 0x1p-7, 0x1.fep127, -0x1.fep127, 0x1p-126, 0x1p-126, 1e-2};
  }
  if (dtype == kFloat32) {
    return {32, 0x1p-23, 0x1.fffffep127, -0x1.fffffep127, 0x1p-126, 0x1p-126, 1e-6};
  }
  constexpr double kMost = std::numeric_limits<double>::max();
  return {64, 0x1p-52, kMost, -kMost, 0x1p-1022, 0x1p-1022, 1e-15};
}

/// What iinfo() returns.
struct IInfo {
  int bits;          ///< of one number
  int64_t max, min;  ///< the largest and the lowest number
};

/// The limits of an integer dtype. Throws an Error for other dtypes.
inline IInfo iinfo(DType dtype) {
  check(kind(dtype) == 1, "iinfo: ", dtype, " is no integer; finfo() is for floats");
  if (dtype == kUInt8) return {8, 255, 0};
  if (dtype == kInt32) return {32, 0x7fffffff, -int64_t{0x80000000}};
  return {64, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
}

}  // namespace hero
