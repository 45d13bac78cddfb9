#pragma once
// This header has the optimizer ASGD and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of ASGD.
struct ASGDOptions {
  double lr = 0.01;           ///< learning rate of the first step
  double lambd = 1e-4;        ///< decay of the parameter, and of the learning rate
  double alpha = 0.75;        ///< power by which the learning rate falls
  double t0 = 1e6;            ///< the step after which the average begins
  double weight_decay = 0.0;  ///< L2 penalty: this times the parameter is added to its gradient
  bool maximize = false;      ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("lambd", self.lambd);
    visit("alpha", self.alpha);
    visit("t0", self.t0);
    visit("weight_decay", self.weight_decay);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<ASGDOptions>;

/// Gradient descent with a falling learning rate, and the average of the points it visits: at step
/// t, eta = lr / (1 + lambd lr (t - 1))^alpha; p = p (1 - lambd eta) - eta g; ax += (p - ax) /
/// max(1, t - 1 - t0). Before that, g += weight_decay * p. Up to step t0 + 2 the average ax is the
/// parameter itself. It is the state "ax", in state_dict() as "state.<parameter>.ax". Polyak and
/// Juditsky, "Acceleration of stochastic approximation by averaging", 1992.
class ASGD : public OptimizerOf<ASGDOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit ASGD(const std::vector<Tensor>& params, const ASGDOptions& options = {})
      : OptimizerOf("asgd", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit ASGD(const std::vector<Group>& groups) : OptimizerOf("asgd", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim
