#pragma once
// What attention's definitions share.
#include <hero/autograd/tensor.h>

namespace hero::detail {

/// softmax over the last dimension of scores; a row of nothing but -inf, whose keys are all hidden,
/// becomes 0 and has the gradient 0.
Tensor softmax_of_seen(const Tensor& scores);

}  // namespace hero::detail
