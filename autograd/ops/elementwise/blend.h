#pragma once
// Blend: the operation of lerp() and of the cells of recurrent networks.
#include <hero/autograd/ops/detail/elementwise_op.h>

namespace hero::detail {

/// a + weight (b - a) for weights between 0 and 1, in one kernel.
struct Blend : ElementwiseOp<core::kernels::Lerp, AutocastRule::fallthrough, Save::input> {
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), weight = f(input(2));
    return f.run({{needs(0), dy * (1.0 - weight)},
                  {needs(1), dy * weight},
                  {needs(2), dy * (f(input(1)) - f(input(0)))}});
  }
};

}  // namespace hero::detail
