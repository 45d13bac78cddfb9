#pragma once
// This header has the optimizers Adam and AdamW and their options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of Adam.
struct AdamOptions {
  double lr = 1e-3;  ///< learning rate
  /// Decay of the running means of g and of g^2, each in [0, 1).
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;          ///< added to the root that is divided by
  double weight_decay = 0.0;  ///< L2 penalty: this times the parameter is added to its gradient
  bool amsgrad = false;       ///< true: divide by the largest v so far instead of the present one
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
    visit("amsgrad", self.amsgrad);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdamOptions>;

/// Divides a running mean of the gradient by the root of a running mean of its square, both
/// corrected for their start at zero: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; p
/// -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps), where t counts the steps.
/// Before that, g += weight_decay * p. With amsgrad, the largest v so far takes the place of v.
/// An element whose (1 - beta2) g^2 is not finite once, as of a gradient above 5.8e20 in float32,
/// has an infinite v and stays where it is. Kingma and Ba, arXiv 1412.6980; amsgrad is from Reddi,
/// Kale and Kumar, arXiv 1904.09237.
class Adam : public OptimizerOf<AdamOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit Adam(const std::vector<Tensor>& params, const AdamOptions& options = {})
      : OptimizerOf("adam", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit Adam(const std::vector<Group>& groups) : OptimizerOf("adam", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  bool is_elementwise() const override { return true; }
};

/// Options of AdamW.
struct AdamWOptions {
  double lr = 1e-3;  ///< learning rate
  /// Decay of the running means of g and of g^2, each in [0, 1).
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;  ///< added to the root that is divided by
  /// Decoupled decay: the parameter is multiplied by 1 - lr * weight_decay.
  double weight_decay = 0.01;
  bool amsgrad = false;   ///< true: divide by the largest v so far instead of the present one
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
    visit("amsgrad", self.amsgrad);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdamWOptions>;

/// Adam with the decay applied to the parameter itself instead of added to the gradient: first p *=
/// 1 - lr * weight_decay, then Adam's step without decay. Loshchilov and Hutter, arXiv 1711.05101.
/// \snippet test_examples_optim.cpp AdamW
class AdamW : public OptimizerOf<AdamWOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit AdamW(const std::vector<Tensor>& params, const AdamWOptions& options = {})
      : OptimizerOf("adamw", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit AdamW(const std::vector<Group>& groups) : OptimizerOf("adamw", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  bool is_elementwise() const override { return true; }
};

}  // namespace hero::optim
