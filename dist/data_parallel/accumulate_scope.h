#pragma once
#include <functional>
#include <utility>
#include <vector>

namespace hero::dist {

/// While one lives, backward passes on this thread add up the gradients of parameters that are
/// whole (DDP) and average nothing, as under no_sync(): those of a pipeline's micro-batches but the
/// last, which knows only the modules that keep shards.
class AccumulateScope {
 public:
  AccumulateScope();
  ~AccumulateScope();
  AccumulateScope(const AccumulateScope&) = delete;
  AccumulateScope& operator=(const AccumulateScope&) = delete;
  /// True while one lives on this thread.
  static bool active() { return innermost() != nullptr; }
  /// Said by a module after a pass that it would have averaged: how to do that once for all
  /// passes.
  static void average_later(const void* module, std::function<void()> average);
  /// Averages what was added up while this lived, each module once, in the order in which they
  /// said so. Passes that come later are averaged again.
  void average();

 private:
  static AccumulateScope*& innermost();

  AccumulateScope* outer_;
  std::vector<std::pair<const void*, std::function<void()>>> later_;
};

}  // namespace hero::dist
