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

/// True if one of these tensors, which may be undefined, has a half-precision dtype.
template <class... In>
bool any_half(const In&... inputs) {
  return (is_half(inputs) || ...);
}

/// The definition of a function by several operations. It must depend on nothing but its inputs.
using Definition = std::function<Tensor(const std::vector<Tensor>& inputs)>;

/// definition(inputs), with inputs of half precision converted to float32 and the result rounded
/// once to the inputs' promoted dtype. Undefined inputs are passed on as they are, as are integers
/// and bools, and float32 and float64 beside half precision. `cast` is the rule by which Autocast
/// casts the inputs.
///
///   if (any_half(x)) {
///     return in_float32("celu", CastRule::promote, {x}, [=](const auto& in) { return celu(in[0],
///     alpha); });
///   }
Tensor in_float32(const char* op, CastRule cast, const std::vector<Tensor>& inputs,
                  Definition definition);

/// The same for a definition with several outputs: the first one is rounded and has a gradient; the
/// others stay as they are and have none.
using Definitions = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
std::vector<Tensor> in_float32_multi(const char* op, CastRule cast,
                                     const std::vector<Tensor>& inputs, Definitions definitions);

/// x in float32 if it has a half-precision dtype, else x itself: a recorded cast. Derivatives of
/// single operations compute with it, and the engine rounds the gradient that they return.
Tensor widened(const Tensor& x);

}  // namespace hero::detail
