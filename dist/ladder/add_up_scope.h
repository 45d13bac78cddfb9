#pragma once

namespace hero::dist {

/// While one lives, backward passes on this thread add up the gradients of parameters that are
/// whole (DDP) and average nothing, as under no_sync(): those of a pipeline's micro-batches but the
/// last, which knows only the replicas that keep shards.
class AddUpScope {
 public:
  AddUpScope();
  ~AddUpScope();
  AddUpScope(const AddUpScope&) = delete;
  AddUpScope& operator=(const AddUpScope&) = delete;
  /// True while one lives on this thread.
  static bool active();
};

}  // namespace hero::dist
