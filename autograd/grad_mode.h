#pragma once

namespace hero {

/// True while operations on this thread are recorded for backward.
bool grad_enabled();

/// Sets recording on this thread while it lives.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/// Operations are not recorded while it lives: `NoGrad no_grad;`.
/// \snippet test_examples_gradients.cpp NoGrad
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};

/// Operations are recorded while it lives, also inside a NoGrad.
struct EnableGrad : GradMode {
  EnableGrad() : GradMode(true) {}
};

}  // namespace hero
