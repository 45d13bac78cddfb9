#pragma once
// Leaves that several ranks have whole, and whose gradients are averaged over these ranks, as under
// DDP. What steps by more than the gradients, such as a line search, asks here.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hero/autograd/sharding/partition.h>

namespace hero {

/// What averages the gradients of some leaves in backward().
class GradientReducer : public Declares {
 public:
  /// What averages them, such as "DDP of GPT"; for messages.
  virtual std::string describe_reducer() const = 0;
  /// The ranks over which it averages: their numbers in the whole world.
  virtual std::vector<int> averaging_ranks() const = 0;
  /// The loss whose gradient the averaged gradients are, given each rank's own loss. A collective,
  /// which `op` names in errors. Throws an Error if gradients are not averaged now.
  virtual double average_loss(double loss, const char* op) = 0;
  /// The largest of the numbers that the ranks give. A collective, which `op` names in errors.
  virtual int64_t largest(int64_t number, const char* op) = 0;
  /// Throws an Error if the leaf's gradient is this rank's own and has yet to be averaged, although
  /// averaging is on: ranks that do `op` would part ways.
  virtual void check_averaged(const Tensor& leaf, const char* op) const = 0;
  /// Tells the ranks over which it averages how many of its leaves have a gradient, with their next
  /// collective.
  virtual void declare_gradients(const char* op) const = 0;
};

/// A hook for Tensor::register_leaf_hook() by which gradient_reducer() finds what averages the
/// leaf.
struct AveragingHook {
  std::weak_ptr<GradientReducer> reducer;  ///< what averages the leaf
  LeafHook call;                           ///< what the hook does
  void operator()(const Tensor& leaf) const { call(leaf); }
};

/// What averages the leaf's gradients; null if nothing does.
std::shared_ptr<GradientReducer> gradient_reducer(const Tensor& leaf);

/// While it lives, notes what averages the gradients of modules whose forward begins on this
/// thread.
class GradientReducerScope {
 public:
  GradientReducerScope();
  ~GradientReducerScope();
  GradientReducerScope(const GradientReducerScope&) = delete;
  GradientReducerScope& operator=(const GradientReducerScope&) = delete;
  /// Says to the scopes of this thread that the forward begins of a module whose gradients
  /// `reducer` averages.
  static void enter(const std::shared_ptr<GradientReducer>& reducer);
  /// The largest of the numbers that all ranks give among which gradients of these modules are
  /// averaged; `number` itself if there are none. A collective, which `op` names in errors.
  int64_t largest(int64_t number, const char* op) const;

 private:
  GradientReducerScope* outer_;
  std::vector<std::shared_ptr<GradientReducer>> entered_;
};

/// Declares a text to the owners of these leaves' shards, and to the ranks that average them; to
/// each once. `what` makes the text, and is not called if nobody is told.
void declare(const std::vector<Tensor>& leaves, const std::function<std::string()>& what);

}  // namespace hero
