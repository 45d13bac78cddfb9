#pragma once
// This header has the optimizer Lion and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of Lion.
struct LionOptions {
  double lr = 1e-4;  ///< learning rate; Lion wants one that is 3 to 10 times smaller than Adam's
  /// Weight of m in the step, and decay of m, each in [0, 1).
  std::array<double, 2> betas = {0.9, 0.99};
  /// Decoupled decay: the parameter is multiplied by 1 - lr * weight_decay.
  double weight_decay = 0.0;
  bool maximize = false;  ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.betas[0]);
    visit("beta2", self.betas[1]);
    visit("weight_decay", self.weight_decay);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<LionOptions>;

/// Takes steps by the sign of the momentum alone: p = p * (1 - lr * weight_decay) - lr * sign(beta1
/// m + (1 - beta1) g); then m = beta2 m + (1 - beta2) g. It keeps one state, where Adam keeps two.
/// Chen et al., arXiv 2302.06675.
class Lion : public OptimizerOf<LionOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit Lion(const std::vector<Tensor>& params, const LionOptions& options = {})
      : OptimizerOf("lion", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit Lion(const std::vector<Group>& groups) : OptimizerOf("lion", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  bool is_elementwise() const override { return true; }
};

}  // namespace hero::optim
