#pragma once
// Gradients that belong to a leaf and do not show in its grad(): what ranks have added up under
// no_sync() for the whole parameter of which the leaf is a shard.
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

/// A ParameterOwner (see partition.h) that has gradients of its leaves elsewhere.
class HoldsUnreducedGradients {
 public:
  HoldsUnreducedGradients() = default;
  HoldsUnreducedGradients(const HoldsUnreducedGradients&) = delete;
  HoldsUnreducedGradients& operator=(const HoldsUnreducedGradients&) = delete;
  virtual ~HoldsUnreducedGradients() = default;
  /// Forgets what it keeps of this parameter, given the leaf that optimizers hold or the one that
  /// forward computes with. If it is the latter, the former's gradient is cleared as well:
  /// set_to_none says whether it becomes undefined or zero.
  virtual void clear_gradient(const Tensor& leaf, bool set_to_none) = 0;
  /// Throws an Error if it keeps gradients of this parameter that a backward pass has yet to
  /// average over the ranks, although averaging is on: `op` would lose them.
  virtual void check_averaged(const Tensor& leaf, const char* op) const = 0;
  /// Tells the ranks among which its leaves are cut how many of them have a gradient, with their
  /// next collective: one that has dropped some alone would leave its shards as they are.
  virtual void declare_gradients(const char* op) const = 0;
};

/// Clears what owners of parameters have of these leaves' gradients; each zero_grad() calls it.
/// Throws an Error, and then clears nothing, if they still have to be averaged.
void clear_unreduced_gradients(const std::vector<Tensor>& leaves, bool set_to_none);
/// Throws an Error if gradients of these leaves still have to be averaged over the ranks; each
/// step() calls it.
void check_averaged(const std::vector<Tensor>& leaves, const char* op);
/// Tells the ranks that share the gradients of these leaves how many there are; see Declares.
void declare_gradients(const std::vector<Tensor>& leaves, const char* op);

}  // namespace hero
