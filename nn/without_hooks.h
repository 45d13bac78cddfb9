#pragma once

namespace hero::nn {

/// Modules called on this thread while it lives compute without their hooks: for one who asks what
/// shapes they give, and wants nothing gathered, freed or looked at for it.
class WithoutHooks {
 public:
  WithoutHooks();
  ~WithoutHooks();
  WithoutHooks(const WithoutHooks&) = delete;
  WithoutHooks& operator=(const WithoutHooks&) = delete;
  /// True while one lives on this thread.
  static bool active();
};

}  // namespace hero::nn
