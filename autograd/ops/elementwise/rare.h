#pragma once
// Functions that one functor computes (core/kernels/math_rare.h), on arrays.
#include <hero/core/functions/map.h>

namespace hero::detail {

/// The function of x, or of x and y, under the name that errors call it by.
Array rare(const char* name, math::Rare which, const core::Operand& x,
           const core::Operand& y = Scalar(0));

}  // namespace hero::detail
