#pragma once
// Exercise 10: what an answer is given, and the function that it defines.
#include <functional>
#include <vector>

#include "exercises/support/answer.h"

#include <hero/autograd/autograd.h>

namespace exercise {

using Layer = std::function<hero::Tensor(const hero::Tensor& x)>;
/// The loss, one number, of what the last layer returns.
using Loss = std::function<hero::Tensor(const hero::Tensor& y)>;

/// The answer: computes loss(layers.back()(... layers[0](x))), adds the gradients to those of the
/// layers' parameters, and returns the loss. The layers are cut in pieces of `every` layers, of
/// which the last one may be shorter; of a piece only the input is kept until backward comes to it.
hero::Tensor forward_and_backward(const std::vector<Layer>& layers, size_t every, const Loss& loss,
                                  const hero::Tensor& x);

/// layers[last - 1](... layers[first](x)).
hero::Tensor run(const std::vector<Layer>& layers, size_t first, size_t last,
                 const hero::Tensor& x);

}  // namespace exercise
