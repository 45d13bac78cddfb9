#pragma once
// Fused operations. [note: fused and composed]
// A fused operation runs hand-written kernels forward and backward. Beside it stands its composed
// definition, the same function of other operations: its meaning, what tests compare it with, and
// its derivative when the backward pass is itself recorded.
#include <functional>

#include <hero/autograd/graph/op.h>
#include <hero/core/device/kernel_traits.h>

namespace hero::detail {

/// A composed definition, which computes the outputs from the inputs.
using Composed = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

/// The gradients of a fused operation's inputs, computed through its composed definition and
/// recorded. `inputs` are the node's inputs, with their history; `grads` are the gradients of its
/// outputs.
Grads composed_backward(const detail::Node& node, const std::vector<Tensor>& inputs,
                        const Grads& grads, const Composed& composed);
/// The same for inputs that are not one by one the node's: `wanted` says which of them need
/// gradients.
Grads composed_backward(const std::vector<bool>& wanted, const std::vector<Tensor>& inputs,
                        const Grads& grads, const Composed& composed);

/// The dtype in which a device's fused kernels take floats of `dtype`. They compute in float32 and
/// float64 alone; some read and write halves as they are, with float32 inside.
inline DType fused_dtype(DType dtype, Device device) {
  if (core::kernel_traits(device).takes_halves && is_floating(dtype)) return dtype;
  return dtype == kFloat64 ? kFloat64 : kFloat32;
}

/// The dtype of what fused kernels keep beside values of `dtype`: sums, means and scales.
inline DType statistics_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

/// The array converted to fused_dtype(), and contiguous, as its device's fused kernels take it.
inline Array fused_operand(const Array& x) {
  return x.to(fused_dtype(x.dtype(), x.device())).contiguous();
}

}  // namespace hero::detail
