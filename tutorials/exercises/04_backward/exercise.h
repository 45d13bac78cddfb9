#pragma once
// Exercise 4: the functions that an answer defines.
#include "exercises/support/answer.h"

#include <hero/autograd/autograd.h>

namespace exercise {

/// The gradients of the two inputs of an operation.
struct Two {
  hero::Tensor a, b;
};

/// \name From g, the gradient of the result y, to those of the inputs
/// \{
Two multiply_backward(const hero::Tensor& g, const hero::Tensor& a, const hero::Tensor& b);
Two add_row_backward(const hero::Tensor& g);
Two matmul_backward(const hero::Tensor& g, const hero::Tensor& a, const hero::Tensor& b);
hero::Tensor relu_backward(const hero::Tensor& g, const hero::Tensor& x);
hero::Tensor softmax_backward(const hero::Tensor& g, const hero::Tensor& y);
/// \}

}  // namespace exercise
