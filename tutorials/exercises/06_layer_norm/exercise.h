#pragma once
// Exercise 6: the functions that an answer defines.
#include "exercises/support/answer.h"

#include <hero/autograd/autograd.h>

namespace exercise {

/// What layer_norm_backward() returns.
struct Gradients {
  hero::Tensor x, weight, bias;
};

/// Layer norm of every row of x [B, D]; weight and bias [D].
hero::Tensor layer_norm_forward(const hero::Tensor& x, const hero::Tensor& weight,
                                const hero::Tensor& bias, double eps);
/// From g [B, D], the gradient of its result, to those of the inputs.
Gradients layer_norm_backward(const hero::Tensor& g, const hero::Tensor& x,
                              const hero::Tensor& weight, double eps);

}  // namespace exercise
