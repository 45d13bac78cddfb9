#pragma once
// This header has the optimizer RAdam and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled_weight_decay = false;  ///< as AdamW's, instead of added to the gradient
  bool maximize = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.betas[0]);
    visit("beta2", self.betas[1]);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("decoupled_weight_decay", self.decoupled_weight_decay);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<RAdamOptions>;

/// Adam that waits until the variance of its steps is finite: r = 2 / (1 - beta2) - 1 and r_t = r -
/// 2 t beta2^t / (1 - beta2^t); where r_t > 5 Adam's step times sqrt((r_t - 4)(r_t - 2) r / ((r -
/// 4)(r - 2) r_t)), else p -= lr * m / (1 - beta1^t). Liu et al., arXiv 1908.03265.
class RAdam : public OptimizerOf<RAdamOptions> {
 public:
  explicit RAdam(const std::vector<Tensor>& params, const RAdamOptions& options = {})
      : OptimizerOf("radam", params, options) {}
  explicit RAdam(const std::vector<Group>& groups) : OptimizerOf("radam", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim
