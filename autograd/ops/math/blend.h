#pragma once
// What lerp and cells of recurrent networks share.
#include <hero/autograd/ops/map_op.h>

namespace hero::detail {

/// a + weight (b - a) for weights between 0 and 1, in one kernel.
struct Blend : Map<core::kernels::Lerp, Save::input> {
  Grads backward(const Tensor& g) override {
    const Tensor weight = widened(input(2));
    return {g * (1.0 - weight), g * weight,
            needs(2) ? g * (widened(input(1)) - input(0)) : Tensor()};
  }
};

}  // namespace hero::detail
