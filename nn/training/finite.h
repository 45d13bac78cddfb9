#pragma once
// Stopping at the first NaN, with the operation that made it.
#include <cstdint>
#include <functional>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::nn {

/// loss = forward(); loss.backward(); and the loss, of one element, is returned.
///
/// Where the loss is NaN or infinite, or a gradient of `parameters` is, an Error says so with the
/// step and the name of the first operation that made it: the step is run again, with the same
/// random numbers, under DetectAnomaly (of an infinite loss the first infinity is named). Until
/// then nothing costs but a look at the loss and one pass over the gradients (none without
/// parameters: a bad gradient then shows in the next step's loss). `forward` must compute the same
/// when called again; the parameters are left as they were, their gradients are not.
///
///   Tensor loss = nn::finite_backward(step, [&] { return cross_entropy(model(x), y); });
Tensor finite_backward(int64_t step, const std::function<Tensor()>& forward,
                       const std::vector<Tensor>& parameters = {});

}  // namespace hero::nn
