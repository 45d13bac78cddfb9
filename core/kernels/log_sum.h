#pragma once
// The logarithm of a sum of exponentials, log(e^x[0] + e^x[1] + ...), as two terms. One number, the
// largest x plus a small logarithm, is rounded to the digits of the former: at 1e4 three decimals
// are left, which is what a loss would be good to. Host and device.
#include <hero/core/kernels/math.h>

namespace hero::core::kernels {

template <class T>
struct LogSum {
  T shift, rest;

  /// `top` is the largest x, and `sum` that of e^(x - top). The shift is 0 where one number has
  /// digits enough: below 16 it is rounded by less than 1e-6 in float32.
  HERO_HD static LogSum of(T top, T sum) {
    const T shift = math::abs(top) < T(16) ? T(0) : top;
    return {shift, (top - shift) + math::log(sum)};
  }
  HERO_HD T log_probability(T x) const { return (x - shift) - rest; }
};

}  // namespace hero::core::kernels
