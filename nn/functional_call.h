#pragma once
// A call of a module with other tensors in the place of its parameters and buffers.
//
//   nn::Named<Tensor> fast = model.named_parameters();
//   const auto g = grad({mse_loss(nn::functional_call(model, fast, x), y)}, ...);
//   for (size_t i = 0; i < fast.size(); ++i) fast[i].second = fast[i].second - 0.1 * g[i];
#include <utility>
#include <vector>

#include <hero/nn/module.h>

namespace hero::nn {

namespace detail {

/// While it lives, slots of a module hold other tensors.
class TensorsInPlace {
 public:
  /// Puts the tensors into the slots of these names.
  TensorsInPlace(Module& module, const Named<Tensor>& tensors);
  /// Puts a tensor into the slots of each parameter.
  TensorsInPlace(Module& module, const std::vector<Tensor>& parameters);
  ~TensorsInPlace();
  TensorsInPlace(const TensorsInPlace&) = delete;
  TensorsInPlace& operator=(const TensorsInPlace&) = delete;

 private:
  void put(const Named<Slot*>& slots, const std::vector<Tensor>& in_place_of,
           const std::vector<Tensor>& tensors);

  std::vector<std::pair<Slot*, Tensor>> before_;
};

}  // namespace detail

/// Calls module(args...) with these tensors in the place of the parameters and buffers of the same
/// names; those that are not named stay. The tensors may be computed, so that gradients flow
/// through them to what they were computed from, as in MAML (Finn et al., arXiv 1703.03400) and
/// other steps that are differentiated. All names of a tied parameter get the tensor that one of
/// them is given. Throws an Error that lists the names that the module does not have. Do not call
/// the module on another thread meanwhile. \snippet test_examples_networks.cpp functional_call
template <class M, class... Args>
auto functional_call(M& module, const Named<Tensor>& tensors, Args&&... args) {
  const detail::TensorsInPlace scope(module, tensors);
  return module(std::forward<Args>(args)...);
}
/// Does the same with a tensor for each of module.parameters(), in their order.
template <class M, class... Args>
auto functional_call(M& module, const std::vector<Tensor>& parameters, Args&&... args) {
  const detail::TensorsInPlace scope(module, parameters);
  return module(std::forward<Args>(args)...);
}

}  // namespace hero::nn
