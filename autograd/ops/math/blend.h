#pragma once
// What lerp and cells of recurrent networks share.
#include <hero/autograd/ops/map_op.h>

namespace hero::detail {

/// a + weight (b - a) for weights between 0 and 1, in one kernel.
struct Blend : Map<core::kernels::Lerp, Save::input> {
  Grads backward(const Tensor& g) override {
    Formula f;
    const Term dy = f(g), weight = f(input(2));
    return {needs(0) ? f.run(dy * (1.0 - weight)) : Tensor(),
            needs(1) ? f.run(dy * weight) : Tensor(),
            needs(2) ? f.run(dy * (f(input(1)) - f(input(0)))) : Tensor()};
  }
};

}  // namespace hero::detail
