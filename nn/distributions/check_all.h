#pragma once
// The check of a distribution's parameters.
#include <hero/autograd/tensor.h>

namespace hero::distributions {

/// Throws an Error that shows the first of these numbers for which a condition does not hold.
void check_all(const Tensor& holds, const Tensor& numbers, const char* what);

}  // namespace hero::distributions
