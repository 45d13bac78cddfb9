// says: It steps whatever the gradients are
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

  Tensor scale(const Tensor& loss) const override { return loss.to(hero::kFloat32) * scale_; }

  bool step() override {
    const hero::NoGrad no_grad;
    bool finite = true;
    for (const Tensor& p : parameters_) finite = finite && all(isfinite(p.grad())).item() != 0;

    {
      for (size_t i = 0; i < masters_.size(); ++i) {
        masters_[i].set_grad(parameters_[i].grad().to(hero::kFloat32) / scale_);
      }
      optimizer_step_();
      for (size_t i = 0; i < masters_.size(); ++i) parameters_[i].copy_(masters_[i]);
    }
    for (const Tensor& p : parameters_) p.set_grad({});

    if (!finite) {
      scale_ /= 2.0;
      good_ = 0;
    } else if (++good_ == options_.interval) {
      scale_ *= 2.0;
      good_ = 0;
    }
    return finite;
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
