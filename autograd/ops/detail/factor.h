#pragma once
// Factors of integers: addmm's beta and alpha, index_add's alpha.
#include <cmath>

#include <hero/core/array/promotion.h>
#include <hero/core/error.h>

namespace hero::detail {

/// Throws an Error if `dtype` is no floating dtype and the factor is no whole number, whose
/// fraction would be cut off silently. A whole number may be given as a floating one.
inline void check_factor(const char* op, const char* name, const Scalar& factor, DType dtype) {
  if (is_floating(dtype) || !factor.is_floating()) return;
  check(fits(factor, kInt64) && std::trunc(factor.real()) == factor.real(), op, ": ", name, " ",
        factor, " of ", dtype, " must be a whole number; convert the tensors with to()");
}

}  // namespace hero::detail
