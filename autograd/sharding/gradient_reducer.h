#pragma once
// GradientReducer: for leaves that several ranks have whole, the object that averages their
// gradients over these ranks, such as DDP. A step that depends on more than the gradients, such as
// a line search, asks it for averages over the same ranks.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hero/autograd/sharding/partition.h>

namespace hero {

/// Averages the gradients of some leaves over ranks in backward().
class GradientReducer : public ConsistencyChecker {
 public:
  /// The name of this reducer in messages, such as "DDP of GPT".
  virtual std::string describe_reducer() const = 0;
  /// The ranks over which it averages: their numbers in the whole world.
  virtual std::vector<int> averaging_ranks() const = 0;
  /// Averages the ranks' own losses as backward averages their gradients, which are then the
  /// gradients of the result. A collective, which `op` names in errors. Throws an Error if
  /// gradients are not averaged now.
  virtual double average_loss(double loss, const char* op) = 0;
  /// The largest `number` of all ranks. A collective, which `op` names in errors.
  virtual int64_t largest(int64_t number, const char* op) = 0;
  /// Throws an Error if the leaf's gradient is this rank's own and has yet to be averaged, although
  /// averaging is on: `op` would give other values on each rank.
  virtual void check_averaged(const Tensor& leaf, const char* op) const = 0;
  /// Declares (see ConsistencyChecker) to the ranks over which it averages how many of its leaves
  /// have a gradient.
  virtual void declare_gradients(const char* op) const = 0;
  /// The name of a leaf's parameter in the module, which is the same on all ranks.
  virtual std::string name_of(const Tensor& leaf) const = 0;
};

/// A hook for Tensor::register_leaf_hook() in which gradient_reducer() finds the leaf's reducer.
struct AveragingHook {
  std::weak_ptr<GradientReducer> reducer;  ///< the leaf's reducer
  LeafHook call;                           ///< called by the hook
  void operator()(const Tensor& leaf) const { call(leaf); }
};

/// The reducer that averages the leaf's gradients; null if there is none.
std::shared_ptr<GradientReducer> gradient_reducer(const Tensor& leaf);

/// While it lives, collects the reducers of the modules whose forward begins on this thread.
class GradientReducerScope {
 public:
  GradientReducerScope();
  ~GradientReducerScope();
  GradientReducerScope(const GradientReducerScope&) = delete;
  GradientReducerScope& operator=(const GradientReducerScope&) = delete;
  /// Adds `reducer` to the scopes of this thread; called when forward of a module whose gradients
  /// it averages begins.
  static void enter(const std::shared_ptr<GradientReducer>& reducer);
  /// The largest `number` of all ranks over which the collected reducers average; `number` itself
  /// if there are no reducers. A collective, which `op` names in errors.
  int64_t largest(int64_t number, const char* op) const;

 private:
  GradientReducerScope* outer_;
  std::vector<std::shared_ptr<GradientReducer>> entered_;
};

/// Calls ConsistencyChecker::declare() once for each of the groups of these leaves' shards and of
/// the leaves' reducers, with the text that `what` returns; `what` is not called if there are none.
void declare(const std::vector<Tensor>& leaves, const std::function<std::string()>& what);
/// The same with a text for each group, which `what` returns for the positions in `leaves` of those
/// that belong to the group.
void declare_each(const std::vector<Tensor>& leaves,
                  const std::function<std::string(const std::vector<size_t>&)>& what);
/// The name that a leaf's parameter has on all ranks, by the owner of its shards or by its reducer;
/// empty if it has neither.
std::string name_on_ranks(const Tensor& leaf);

}  // namespace hero
