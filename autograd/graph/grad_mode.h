#pragma once

namespace hero {

/// True while operations on this thread are recorded for backward.
bool grad_enabled();

/// While it lives, switches recording on this thread on or off.
class GradMode {
 public:
  /// Begins the scope.
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/// While it lives, operations on this thread are not recorded: `NoGrad no_grad;`.
/// \snippet test_examples_gradients.cpp NoGrad
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};

/// While it lives, operations on this thread are recorded, also inside a NoGrad.
struct EnableGrad : GradMode {
  EnableGrad() : GradMode(true) {}
};

}  // namespace hero
