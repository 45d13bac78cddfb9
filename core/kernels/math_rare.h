#pragma once
// Functions so rare that one functor and one kernel serve all of them. Host and device; those of
// the host are compiled once (math_rare.cpp), for all instruction sets.
#include <cstdint>

#include <hero/core/kernels/config.h>

namespace hero::math {

enum class Rare : uint8_t {
  i0,
  i0e,
  i1,
  i1e,
  bessel_j0,
  bessel_j1,
  bessel_y0,
  bessel_y1,
  erfcx,
  log_ndtr,
  ndtri,
  gammainc,
  gammaincc,
  zeta,
  mantissa,     ///< of frexp()
  exponent,     ///< of frexp()
  next_double,  ///< nextafter() of numbers of this format
  next_float,
  next_bfloat16,
  next_float16
};

#if !defined(__CUDACC__)
/// The function `which` of x, or of x and y; x itself if no function has this number.
double rare(Rare which, double x, double y);
#endif

}  // namespace hero::math
