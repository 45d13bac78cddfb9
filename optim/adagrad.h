#pragma once
// This header has the optimizer Adagrad and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of Adagrad.
struct AdagradOptions {
  double lr = 0.01;           ///< learning rate
  double lr_decay = 0.0;      ///< step t takes lr / (1 + (t - 1) lr_decay)
  double weight_decay = 0.0;  ///< L2 penalty: this times the parameter is added to its gradient
  double initial_accumulator_value = 0.0;  ///< initial value of the sum s of squared gradients
  double eps = 1e-10;                      ///< added to the root that is divided by
  bool maximize = false;  ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("lr_decay", self.lr_decay);
    visit("weight_decay", self.weight_decay);
    visit("initial_accumulator_value", self.initial_accumulator_value);
    visit("eps", self.eps);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdagradOptions>;

/// Takes steps that shrink with the sum of all squared gradients so far: s += g^2; p -= lr / (1 +
/// (t - 1) lr_decay) * g / (sqrt(s) + eps). Before that, g += weight_decay * p. Duchi, Hazan and
/// Singer, JMLR 12, 2011.
class Adagrad : public OptimizerOf<AdagradOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit Adagrad(const std::vector<Tensor>& params, const AdagradOptions& options = {})
      : OptimizerOf("adagrad", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit Adagrad(const std::vector<Group>& groups) : OptimizerOf("adagrad", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  double first_value(int group, const char* name) const override;
  void update(int group, State& state, const Array& grad) override;
  bool is_elementwise() const override { return true; }
};

}  // namespace hero::optim
