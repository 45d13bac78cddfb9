#pragma once
// How functions made of several operations treat halves. [note: rounded once]
// Each operation rounds its result to its inputs' dtype. A function made of several would round
// between them, and a sum on the way may leave float16's range though the result does not. So for
// halves the whole definition is computed in float32 as one operation, whose result alone is
// rounded. Its graph keeps the halves and nothing else: the rest is made again in backward, in
// float32 too.
#include <functional>

#include <hero/autograd/graph/cast_rule.h>
#include <hero/autograd/tensor.h>

namespace hero::detail {

inline bool is_half(const Tensor& x) { return x.defined() && hero::is_half(x.dtype()); }

/// True when one of these, which may be undefined, is a half.
template <class... In>
bool any_half(const In&... inputs) {
  return (is_half(inputs) || ...);
}

/// What a function made of several operations computes. It must depend on nothing but its inputs.
using Definition = std::function<Tensor(const std::vector<Tensor>& inputs)>;

/// The definition of the inputs, computed in float32 where they are halves and rounded once to the
/// dtype that they promote to. Undefined inputs are passed on as they are; integers and bools too,
/// and float32 and float64 beside halves. `cast` is what Autocast does with the inputs.
///
///   if (any_half(x)) {
///     return in_float32("celu", CastRule::promote, {x}, [=](const auto& in) { return celu(in[0],
///     alpha); });
///   }
Tensor in_float32(const char* op, CastRule cast, const std::vector<Tensor>& inputs,
                  Definition definition);

/// The same of a definition with several outputs: the first is rounded, and differentiated; the
/// others stay as they are and have no gradient.
using Definitions = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
std::vector<Tensor> in_float32_multi(const char* op, CastRule cast,
                                     const std::vector<Tensor>& inputs, Definitions definitions);

/// Halves as float32, all else as it is: a recorded cast. Derivatives of single operations compute
/// with it, and the engine rounds the gradient that they give.
Tensor widened(const Tensor& x);

}  // namespace hero::detail
