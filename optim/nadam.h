#pragma once
// This header has the optimizer NAdam and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of NAdam.
struct NAdamOptions {
  double lr = 2e-3;  ///< learning rate
  /// Decay of the running means of g and of g^2, each in [0, 1).
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;                    ///< added to the root that is divided by
  double weight_decay = 0.0;            ///< this times the parameter is added to its gradient
  double momentum_decay = 4e-3;         ///< how fast mu_t rises to beta1; see the formula of mu_t
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
    visit("momentum_decay", self.momentum_decay);
    visit("decoupled_weight_decay", self.decoupled_weight_decay);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<NAdamOptions>;

/// Adam with Nesterov's momentum: mu_t = beta1 (1 - 0.5 * 0.96^(t momentum_decay)), P_t = mu_1 ...
/// mu_t; m and v are those of Adam; p -= lr ((1 - mu_t) / (1 - P_t) g + mu_{t+1} / (1 - P_{t+1}) m)
/// / (sqrt(v / (1 - beta2^t)) + eps). Dozat, "Incorporating Nesterov momentum into Adam", ICLR
/// workshop 2016.
class NAdam : public OptimizerOf<NAdamOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit NAdam(const std::vector<Tensor>& params, const NAdamOptions& options = {})
      : OptimizerOf("nadam", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit NAdam(const std::vector<Group>& groups) : OptimizerOf("nadam", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  std::vector<const char*> number_names() const override;
  double first_value(int group, const char* name) const override;
  std::array<double, 2> number_range(const char* name) const override;
  void update(int group, State& state, const Array& grad) override;
  bool is_elementwise() const override { return true; }
};

}  // namespace hero::optim
