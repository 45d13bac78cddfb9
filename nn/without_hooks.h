#pragma once

namespace hero::nn {

/// While it lives, modules called on this thread compute without their hooks; for callers that only
/// ask for the shapes of outputs, for which nothing should be gathered or freed.
class WithoutHooks {
 public:
  WithoutHooks();
  ~WithoutHooks();
  WithoutHooks(const WithoutHooks&) = delete;
  WithoutHooks& operator=(const WithoutHooks&) = delete;
  /// True while a WithoutHooks lives on this thread.
  static bool active();
};

}  // namespace hero::nn
