#pragma once
#include <functional>
#include <utility>
#include <vector>

namespace hero::dist {

/// While an object lives, backward passes on this thread add up the gradients of DDP's modules
/// without averaging them, as under no_sync(). A pipeline uses it for all micro-batches but the
/// last, since it has handles only of the modules that are sharded.
class AccumulateScope {
 public:
  AccumulateScope();
  ~AccumulateScope();
  AccumulateScope(const AccumulateScope&) = delete;
  AccumulateScope& operator=(const AccumulateScope&) = delete;
  /// True while one lives on this thread.
  static bool active() { return innermost() != nullptr; }
  /// Called by a module after a backward pass whose gradients it would otherwise have averaged;
  /// `average` averages the sums of all such passes.
  static void average_later(const void* module, std::function<void()> average);
  /// Ends the scope and calls these functions, one for each module, in the order in which the
  /// modules passed them. Later backward passes average their gradients again.
  void average();

 private:
  static AccumulateScope*& innermost();

  AccumulateScope* outer_;
  std::vector<std::pair<const void*, std::function<void()>>> later_;
};

}  // namespace hero::dist
