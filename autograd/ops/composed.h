#pragma once
// Fused operations. [note: fused and composed]
// A fused operation runs hand-written kernels forward and backward. Beside it stands its composed
// definition, the same function of other operations: its meaning, what tests compare it with, and
// its derivative when the backward pass is itself recorded.
#include <functional>

#include <hero/autograd/op.h>

namespace hero::detail {

/// The definition: outputs from inputs.
using Composed = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

/// Gradients of a fused operation's inputs by way of its composed definition, recorded. `inputs`
/// are the node's, with their history; `grads` those of its outputs.
Grads composed_backward(const Node& node, const std::vector<Tensor>& inputs, const Grads& grads,
                        const Composed& composed);

/// A dense array as fused kernels take it: float64 stays, all else becomes float32.
inline Array fused_operand(const Array& x) {
  return x.to(x.dtype() == kFloat64 ? kFloat64 : kFloat32).contiguous();
}

}  // namespace hero::detail
