#pragma once
// The functions of math::Rare, which one functor computes (core/kernels/math_rare.h), on arrays.
#include <hero/core/functions/map.h>

namespace hero::detail {

/// The function `which` of x, or of x and y; `name` is its name in errors.
Array rare(const char* name, math::Rare which, const core::Operand& x,
           const core::Operand& y = Scalar(0));

}  // namespace hero::detail
