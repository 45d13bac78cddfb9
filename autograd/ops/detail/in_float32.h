#pragma once
// How functions that are composed of several operations treat half precision. [note: rounded once]
// Each operation rounds its result to its inputs' dtype. A function composed of several would round
// between them, and an intermediate sum may leave float16's range although the result does not. So
// for half precision the whole definition is computed in float32 as one operation, of which only
// the result is rounded. The graph saves only the half-precision inputs: everything else is
// computed again in backward, also in float32.
#include <functional>

#include <hero/autograd/graph/autocast_rule.h>
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
///     return in_float32("celu", AutocastRule::fallthrough, {x},
///                       [=](const auto& in) { return celu(in[0], alpha); });
///   }
Tensor in_float32(const char* op, AutocastRule cast, const std::vector<Tensor>& inputs,
                  Definition definition);

/// The same for a definition with several outputs: the first one is rounded and has a gradient; the
/// others stay as they are and have none.
using Definitions = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
std::vector<Tensor> in_float32_multi(const char* op, AutocastRule cast,
                                     const std::vector<Tensor>& inputs, Definitions definitions);

/// x in float32 if it has a half-precision dtype, else x itself: a recorded cast. Derivatives of
/// single operations compute with it, and the engine rounds the gradient that they return.
Tensor widened(const Tensor& x);

}  // namespace hero::detail
