#pragma once
// Activation checkpointing: forward runs a second time, instead of saving the activations of the
// first. Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost", arXiv
// 1604.06174.
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include <hero/autograd/graph/checkpoint_frame.h>

namespace hero {

/// Returns fn(inputs...), recorded without saving the activations inside: when backward first needs
/// one, it calls fn again on the same inputs, with the same random state and Autocast. fn takes
/// Tensors and may return anything: a Tensor, several, or a struct.
///
/// The graph is the same as without a checkpoint: gradients have the same bits, parameters that fn
/// captures get theirs, hooks run once, grad(), create_graph and retain_graph work, and calls nest.
/// fn must do the same both times: an Error says so if the arrays that it saves differ, or if an
/// input or parameter was changed in place in between. It is also an Error if fn runs backward.
/// Only the inputs stay in memory until backward; in backward, the activations of one call at a
/// time do. fn is copied or moved; if it cannot be copied, as a module, a reference is kept, and it
/// must live until backward.
/// \snippet test_examples_gradients.cpp checkpoint
template <class F, std::same_as<Tensor>... In>
auto checkpoint(F&& fn, const In&... inputs) {
  using Plain = std::remove_cvref_t<F>;
  if (!grad_enabled()) return fn(inputs...);
  if constexpr (std::is_lvalue_reference_v<F> && !std::is_copy_constructible_v<Plain>) {
    return checkpoint([at = &fn](const auto&... given) { return (*at)(given...); }, inputs...);
  } else {
    const auto shared = std::make_shared<Plain>(std::forward<F>(fn));
    CheckpointFrame::Again again = [shared](const std::vector<Tensor>& given) {
      [&]<size_t... I>(std::index_sequence<I...>) { (void)(*shared)(given[I]...); }
      (std::index_sequence_for<In...>());
    };
    const CheckpointScope scope(CheckpointFrame::create(std::move(again), {inputs...}));
    return (*shared)(inputs...);
  }
}

/// Returns functions.back()(... functions[0](x)), run in `segments` segments of floor(n / segments)
/// functions, each of which is a checkpoint(). The last segment takes the remaining functions and
/// is run without one, because backward needs its activations at once. With sqrt(n) segments of n
/// equal layers, about 2 sqrt(n) activations are in memory.
Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions,
                             int segments, const Tensor& x);

/// Does the same for modules, which must live until backward: checkpoint_sequential(net.children(),
/// 4, x).
template <class M>
Tensor checkpoint_sequential(const std::vector<M*>& modules, int segments, const Tensor& x) {
  std::vector<std::function<Tensor(const Tensor&)>> functions;
  for (M* module : modules) {
    functions.push_back([module](const Tensor& y) { return (*module)(y); });
  }
  return checkpoint_sequential(functions, segments, x);
}

/// True while a checkpoint runs its function again. Whatever fn does besides computing its result,
/// such as counting or updating running statistics, it should not do then, since it did so the
/// first time.
bool recomputing();

}  // namespace hero
