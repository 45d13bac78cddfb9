#pragma once
// This header has the optimizer RMSprop and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of RMSprop.
struct RMSpropOptions {
  double lr = 0.01;           ///< learning rate
  double alpha = 0.99;        ///< decay of the running mean of g^2, in [0, 1)
  double eps = 1e-8;          ///< added to the root that is divided by
  double weight_decay = 0.0;  ///< L2 penalty: this times the parameter is added to its gradient
  double momentum = 0.0;      ///< weight of the previous step in the next; 0: no momentum
  bool centered = false;  ///< true: divide by an estimate of the variance, v - m^2, instead of v
  bool maximize = false;  ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("alpha", self.alpha);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("momentum", self.momentum);
    visit("centered", self.centered);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<RMSpropOptions>;

/// Divides the gradient by the root of a running mean of its square: v = alpha v + (1 - alpha) g^2;
/// q = g / (sqrt(v) + eps); p -= lr * q. If centered, m = alpha m + (1 - alpha) g, and v - m^2, at
/// least 0, is under the root. With momentum, b = momentum * b + q takes the place of q. Before all
/// this, g += weight_decay * p. Tieleman and Hinton, lecture 6.5 of "Neural networks for machine
/// learning", 2012; the centered form is from Graves, arXiv 1308.0850.
class RMSprop : public OptimizerOf<RMSpropOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit RMSprop(const std::vector<Tensor>& params, const RMSpropOptions& options = {})
      : OptimizerOf("rmsprop", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit RMSprop(const std::vector<Group>& groups) : OptimizerOf("rmsprop", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  bool is_elementwise() const override { return true; }
};

}  // namespace hero::optim
