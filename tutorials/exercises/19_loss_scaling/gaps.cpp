// 19. Loss scaling (chapter 9a)
//
// float16 has nothing between 0 and 6e-8, and nothing above 65504. Gradients of a small loss are
// lost below, so the loss is multiplied by a scale before backward, and all gradients with it. The
// optimizer steps float32 copies of the parameters, the masters, with gradients in float32 that are
// divided by the scale again.
//
// Which scale is right? It should be as large as possible, but where it is too large a gradient
// becomes infinite, or no number. Then this step is left out, and the scale is halved. After
// options.interval good steps in a row it is doubled.
//
// What is given:
//   parameters_, masters_      as many of each: parameters_[i] is masters_[i] in float16
//   optimizer_step_()          a step of the masters
//   options_.interval
//
// What you need of the library, for tensors:
//   x.to(hero::kFloat32), x.to(hero::kFloat16)    the same numbers in another dtype, rounded
//   x * 2.0, x / 2.0           element by element, in the dtype of x
//   p.grad(), p.set_grad(g)    the gradient of p, which has the dtype of p; p.set_grad({}): none
//   all(isfinite(x)).item() != 0    whether no number of x is infinite or NaN
//   p.copy_(x)                 the values of p become those of x, in the dtype of p; it has to
//                              stand where a NoGrad lives
//   const hero::NoGrad no_grad;     as long as it lives, nothing is recorded for backward
#include "exercises/19_loss_scaling/exercise.h"

using hero::Tensor;

namespace exercise {

class LossScaler : public Scaler {
 public:
  LossScaler(const std::vector<Tensor>& parameters, const std::vector<Tensor>& masters,
             const std::function<void()>& optimizer_step, const ScalerOptions& options)
      : parameters_(parameters),
        masters_(masters),
        optimizer_step_(optimizer_step),
        options_(options),
        scale_(options.first) {}

  Tensor scale(const Tensor& loss) const override {
    // WRITE 1: the loss times the scale. 65536 is infinite in float16, so not in float16.
    to_write("1, scale().");
  }

  bool step() override {
    const hero::NoGrad no_grad;
    // WRITE 2: are all gradients of the parameters finite?
    to_write("2, the gradients in step().");

    // WRITE 3: if they are, the masters get their true gradients, the optimizer steps, and the
    // parameters get the new values. The parameters' gradients go, whatever they are.
    to_write("3, the step in step().");

    // WRITE 4: the scale of the next step.
    to_write("4, the scale in step().");
  }

  double get_scale() const override { return scale_; }

 private:
  std::vector<Tensor> parameters_, masters_;
  std::function<void()> optimizer_step_;
  ScalerOptions options_;
  double scale_;
  int64_t good_ = 0;  // good steps in a row since the scale has changed
};

std::unique_ptr<Scaler> scaler(const std::vector<Tensor>& parameters,
                               const std::vector<Tensor>& masters,
                               const std::function<void()>& optimizer_step,
                               const ScalerOptions& options) {
  return std::make_unique<LossScaler>(parameters, masters, optimizer_step, options);
}

}  // namespace exercise
