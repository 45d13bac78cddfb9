#pragma once
// This header has the optimizer Lion and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0.0;
  bool maximize = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.betas[0]);
    visit("beta2", self.betas[1]);
    visit("weight_decay", self.weight_decay);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<LionOptions>;

/// Only the sign of the momentum: p = p * (1 - lr * weight_decay) - lr * sign(beta1 m + (1 - beta1)
/// g); then m = beta2 m + (1 - beta2) g. One state instead of Adam's two. Chen et al., arXiv
/// 2302.06675.
class Lion : public OptimizerOf<LionOptions> {
 public:
  explicit Lion(const std::vector<Tensor>& params, const LionOptions& options = {})
      : OptimizerOf("lion", params, options) {}
  explicit Lion(const std::vector<Group>& groups) : OptimizerOf("lion", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim
