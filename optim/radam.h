#pragma once
// This header has the optimizer RAdam and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of RAdam.
struct RAdamOptions {
  double lr = 1e-3;  ///< learning rate
  /// Decay of the running means of g and of g^2, each in [0, 1).
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;                    ///< added to the root that is divided by
  double weight_decay = 0.0;            ///< this times the parameter is added to its gradient
  bool decoupled_weight_decay = false;  ///< true: decay the parameter itself, as AdamW does
  bool maximize = false;  ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
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

/// Adam that divides by v only once the variance of its steps is finite: r = 2 / (1 - beta2) - 1
/// and r_t = r - 2 t beta2^t / (1 - beta2^t); if r_t > 5, it takes Adam's step times sqrt((r_t -
/// 4)(r_t - 2) r / ((r - 4)(r - 2) r_t)); otherwise p -= lr * m / (1 - beta1^t). Liu et al., arXiv
/// 1908.03265.
class RAdam : public OptimizerOf<RAdamOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit RAdam(const std::vector<Tensor>& params, const RAdamOptions& options = {})
      : OptimizerOf("radam", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit RAdam(const std::vector<Group>& groups) : OptimizerOf("radam", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  bool is_elementwise() const override { return true; }
};

}  // namespace hero::optim
