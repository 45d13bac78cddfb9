#pragma once
// Gradients that are not in grad() of a leaf which is a shard: each rank's sum under no_sync(), for
// the whole parameter, which has yet to be reduced over the ranks.
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

/// A ParameterOwner (see partition.h) that holds gradients of its leaves outside of their grad().
class HoldsUnreducedGradients {
 public:
  HoldsUnreducedGradients() = default;
  HoldsUnreducedGradients(const HoldsUnreducedGradients&) = delete;
  HoldsUnreducedGradients& operator=(const HoldsUnreducedGradients&) = delete;
  virtual ~HoldsUnreducedGradients() = default;
  /// Drops the unreduced gradient of a parameter; `leaf` is the shard that optimizers hold, or the
  /// whole parameter that forward computes with. For the latter, grad() of the former is cleared as
  /// well: it becomes undefined if set_to_none is true, else zero.
  virtual void clear_gradient(const Tensor& leaf, bool set_to_none) = 0;
  /// Throws an Error if it holds a gradient of this parameter that a backward pass has yet to
  /// average over the ranks, although averaging is on: `op` would lose it.
  virtual void check_averaged(const Tensor& leaf, const char* op) const = 0;
  /// Declares (see ConsistencyChecker) to the ranks that hold the shards how many of its leaves
  /// have a gradient: a rank that alone had dropped some would not step its shards.
  virtual void declare_gradients(const char* op) const = 0;
  /// The name of a leaf's parameter in the module, which is the same on all ranks.
  virtual std::string name_of(const Tensor& leaf) const = 0;
};

/// Drops the unreduced gradients that owners of parameters hold for these leaves; each zero_grad()
/// calls it. Throws an Error, and then drops nothing, if some still have to be averaged.
void clear_unreduced_gradients(const std::vector<Tensor>& leaves, bool set_to_none);
/// Throws an Error if gradients of these leaves still have to be averaged over the ranks; each
/// step() calls it.
void check_averaged(const std::vector<Tensor>& leaves, const char* op);
/// Calls declare_gradients() of the owners (ParameterOwner) and reducers of these leaves, once
/// each.
void declare_gradients(const std::vector<Tensor>& leaves, const char* op);

}  // namespace hero
