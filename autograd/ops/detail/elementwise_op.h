#pragma once
// ElementwiseOp: the base of autograd's elementwise operations.
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/fused_expression.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/core/functions/map.h>

namespace hero {

enum class Save { nothing, input, output, both };

/// An elementwise operation of one functor; a derived struct adds its `backward`. `Cast` is the
/// rule by which Autocast casts its inputs.
template <class F, AutocastRule Cast, Save What = Save::nothing>
struct ElementwiseOp : Op {
  static constexpr AutocastRule kAutocast = Cast;
  static constexpr bool kIn = What == Save::input || What == Save::both;
  static constexpr bool kOut = What == Save::output || What == Save::both;
  static constexpr unsigned kSaveInputs = kIn ? ~0u : 0u;
  static constexpr unsigned kSaveOutputs = kOut ? 1u : 0u;
  const char* name() const override { return F::name; }
  template <class... In>
  Array forward(const In&... inputs) {
    return core::map<F>(inputs...);
  }

 protected:
  // The input and the output for derivatives, half precision as float32, so that only the gradient
  // is rounded.
  Tensor x() const { return detail::widened(input(0)); }
  Tensor y() const { return detail::widened(output()); }
};

/// Where nothing is recorded, the derivatives of the usual activations run as one pass.
template <class F, class... Numbers>
Grads in_one_pass(const Tensor& g, const Tensor& saved, Numbers... numbers) {
  return {Tensor(core::map<F>(g.array(), saved.array(), Scalar(numbers)...))};
}

/// The gradient of a constant function: zeros of g's shape, of which memory holds one element.
inline Tensor flat_gradient(const Tensor& g) {
  return Tensor(Array::zeros({}, g.dtype(), g.device()).expand(g.shape()));
}

/// An operation that is constant almost everywhere: recorded with a zero gradient, as PyTorch does.
template <class F>
struct PiecewiseConstant : ElementwiseOp<F, AutocastRule::fallthrough> {
  Grads backward(const Tensor& g) override { return {flat_gradient(g)}; }
};

}  // namespace hero
