#pragma once
// The softmax of attention's composed definitions.
#include <hero/autograd/tensor.h>

namespace hero::detail {

/// softmax() over the last dimension of the scores; a row of which all scores are -inf, since all
/// keys are masked, becomes 0 and has the gradient 0.
Tensor softmax_of_seen(const Tensor& scores);

}  // namespace hero::detail
