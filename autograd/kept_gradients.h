#pragma once
// Gradients that belong to a leaf and do not show in its grad(): what ranks have added up under
// no_sync() for the whole parameter of which the leaf is a shard.
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

/// A Keeper (see partition.h) that has gradients of its leaves elsewhere.
class KeepsGradients {
 public:
  KeepsGradients() = default;
  KeepsGradients(const KeepsGradients&) = delete;
  KeepsGradients& operator=(const KeepsGradients&) = delete;
  virtual ~KeepsGradients() = default;
  /// Forgets what it keeps of this parameter, given the leaf that optimizers hold or the one that
  /// forward computes with. If it is the latter, the former's gradient is cleared as well:
  /// set_to_none says whether it becomes undefined or zero.
  virtual void clear_gradient(const Tensor& leaf, bool set_to_none) = 0;
};

/// Clears what keepers have of these leaves' gradients; each zero_grad() calls it.
void clear_kept_gradients(const std::vector<Tensor>& leaves, bool set_to_none);

}  // namespace hero
