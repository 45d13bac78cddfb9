#pragma once
// Activation checkpointing: forward a second time in place of remembering the first. Chen, Xu,
// Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174.
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include <hero/autograd/checkpoint_frame.h>

namespace hero {

/// fn(inputs...), recorded without keeping the activations made inside: backward calls fn once more
/// on the same inputs, under the random state and Autocast of the first time, when it first needs
/// one. fn takes Tensors and returns what it likes: a Tensor, several, a struct.
///
/// The graph is the one that would be recorded without: gradients have the same bits, parameters
/// that fn captures get theirs, hooks fire once, grad(), create_graph and retain_graph work, calls
/// nest. fn must do the same both times: an Error says so when the arrays it saves differ, or when
/// an input or parameter was changed in place in between. An Error, too, if fn runs backward.
/// Memory: the inputs, until backward; in backward one call's activations at a time.
/// fn itself is copied or moved in; one that cannot be copied, such as a module, is referred to and
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

/// functions.back()(... functions[0](x)) in `segments` pieces of floor(n / segments) functions,
/// each a checkpoint(); the last piece takes the rest and is run as it is, since its activations
/// are needed at once. With sqrt(n) segments of n equal layers about 2 sqrt(n) activations are
/// alive.
Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions,
                             int segments, const Tensor& x);

/// The same for modules, which must live until backward:
/// checkpoint_sequential(net.children(), 4, x).
template <class M>
Tensor checkpoint_sequential(const std::vector<M*>& modules, int segments, const Tensor& x) {
  std::vector<std::function<Tensor(const Tensor&)>> functions;
  for (M* module : modules) {
    functions.push_back([module](const Tensor& y) { return (*module)(y); });
  }
  return checkpoint_sequential(functions, segments, x);
}

/// True while a checkpoint runs its function again: what fn does besides computing its result
/// (counting, running statistics) was done the first time.
bool recomputing();

}  // namespace hero
