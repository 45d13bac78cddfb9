#pragma once
// Matrices far from 1, whose products would be out of range.
#include <hero/autograd/tensor.h>

namespace hero::detail {

/// The power of two in the largest magnitude of each matrix, [.., 1, 1], without history: dividing
/// by it rounds nothing. 1 for matrices of zeros and those that are not finite.
Tensor power_of_two(const Tensor& x);

}  // namespace hero::detail
