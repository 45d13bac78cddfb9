#pragma once
// Stopping at the first NaN, with the name of the operation that produced it.
#include <cstdint>
#include <functional>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::nn {

/// Runs loss = forward() and loss.backward(), and returns the loss, of one element.
///
/// If the loss or a gradient of `parameters` is NaN or infinite, throws an Error with the step and
/// the name of the first operation that produced it: the step is run again, with the same random
/// numbers, under DetectAnomaly (for an infinite loss, the operation of the first infinity is
/// named). Ranks that train a module under DDP, ZeRO or fully_shard() agree first whether one of
/// them found such a number, by one small collective for the loss and, with `parameters`, one for
/// the gradients; then all of them run the step again, and the rank where it appeared names the
/// operation. So all of them call this in each step. Otherwise it costs only a test of the loss and
/// one pass over the gradients; without `parameters` gradients are not read, and a bad one shows in
/// the next step's loss. `forward` must compute the same when it is called again. Parameters are
/// not changed, but their gradients are.
///
///   Tensor loss = nn::finite_backward(step, [&] { return cross_entropy(model(x), y); });
Tensor finite_backward(int64_t step, const std::function<Tensor()>& forward,
                       const std::vector<Tensor>& parameters = {});

}  // namespace hero::nn
