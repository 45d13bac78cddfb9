#pragma once
// This header has the optimizer Adamax and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of Adamax.
struct AdamaxOptions {
  double lr = 2e-3;  ///< learning rate
  /// Decay of the running mean of g and of the running maximum of |g|.
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;          ///< added to |g| before the maximum is taken
  double weight_decay = 0.0;  ///< L2 penalty: this times the parameter is added to its gradient
  bool maximize = false;      ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.betas[0]);
    visit("beta2", self.betas[1]);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdamaxOptions>;

/// Adam with a decaying maximum of |g| in the place of the root mean square: m = beta1 m + (1 -
/// beta1) g; u = max(beta2 u, |g| + eps); p -= lr / (1 - beta1^t) * m / u. Before that, g +=
/// weight_decay * p. Kingma and Ba, arXiv 1412.6980, section 7.
class Adamax : public OptimizerOf<AdamaxOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit Adamax(const std::vector<Tensor>& params, const AdamaxOptions& options = {})
      : OptimizerOf("adamax", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit Adamax(const std::vector<Group>& groups) : OptimizerOf("adamax", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  bool is_elementwise() const override { return true; }
};

}  // namespace hero::optim
