#pragma once
// How numbers that a scatter sends to the same place are combined, for host and device.
#include <limits>

#include <hero/core/device/backend.h>
#include <hero/core/kernels/elementwise_base.h>

namespace hero::core::kernels {

/// Combines the number at a place with a new one, in any mode but assign; NaN counts as the largest
/// and as the smallest.
template <class C>
HERO_HD inline C scattered(ScatterMode mode, C there, C value) {
  if (mode == ScatterMode::multiply) return wrapping_mul(there, value);
  if (mode == ScatterMode::maximum) return there > value || is_nan(there) ? there : value;
  if (mode == ScatterMode::minimum) return there < value || is_nan(there) ? there : value;
  return wrapping_add(there, value);
}

/// The neutral element of a mode: 0, 1, or the lowest or highest number.
template <class C>
HERO_HD inline C neutral(ScatterMode mode) {
  using Limits = std::numeric_limits<C>;
  if (mode == ScatterMode::multiply) return C(1);
  if (mode == ScatterMode::maximum) {
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  if (mode == ScatterMode::minimum) {
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  return C(0);
}

}  // namespace hero::core::kernels
