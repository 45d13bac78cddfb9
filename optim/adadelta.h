#pragma once
// This header has the optimizer Adadelta and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of Adadelta.
struct AdadeltaOptions {
  double lr = 1.0;            ///< factor of every step, which already has the parameter's units
  double rho = 0.9;           ///< decay of the running means of g^2 and d^2, in [0, 1)
  double eps = 1e-6;          ///< added to both running means under their roots
  double weight_decay = 0.0;  ///< L2 penalty: this times the parameter is added to its gradient
  bool maximize = false;      ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("rho", self.rho);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdadeltaOptions>;

/// Takes steps in the units of the parameter: v = rho v + (1 - rho) g^2; d = sqrt(u + eps) / sqrt(v
/// + eps) * g; u = rho u + (1 - rho) d^2; p -= lr * d. Before that, g += weight_decay * p. Here g
/// is the gradient, and the means v and u begin at 0. Zeiler, arXiv 1212.5701.
class Adadelta : public OptimizerOf<AdadeltaOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit Adadelta(const std::vector<Tensor>& params, const AdadeltaOptions& options = {})
      : OptimizerOf("adadelta", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit Adadelta(const std::vector<Group>& groups) : OptimizerOf("adadelta", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  bool is_elementwise() const override { return true; }
};

}  // namespace hero::optim
