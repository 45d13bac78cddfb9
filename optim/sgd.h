#pragma once
// This header has the optimizers SGD and NesterovLookahead and their options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool maximize = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("momentum", self.momentum);
    visit("dampening", self.dampening);
    visit("weight_decay", self.weight_decay);
    visit("nesterov", self.nesterov);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<SGDOptions>;

/// Stochastic gradient descent: g += weight_decay * p; with momentum b = momentum * b + (1 -
/// dampening) * g (b = g at the first step) and g = b, or g + momentum * b for nesterov; p -= lr *
/// g. Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013.
/// \snippet test_examples_optim.cpp SGD
class SGD : public OptimizerOf<SGDOptions> {
 public:
  explicit SGD(const std::vector<Tensor>& params, const SGDOptions& options = {})
      : OptimizerOf("sgd", params, options) {}
  explicit SGD(const std::vector<Group>& groups) : OptimizerOf("sgd", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

struct NesterovLookaheadOptions {
  double lr = 1e-3;
  double momentum = 0.9;
  bool maximize = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("momentum", self.momentum);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<NesterovLookaheadOptions>;

/// Nesterov's accelerated gradient in its first form: the gradient is taken where the momentum is
/// about to carry the parameter. v = momentum * v - lr * grad(p + momentum * v); p += v. Call
/// lookahead() before the forward pass and step() after the backward pass; in between the
/// parameters are the points looked at. Nesterov, "A method of solving a convex programming problem
/// with convergence rate O(1/k^2)", 1983.
class NesterovLookahead : public OptimizerOf<NesterovLookaheadOptions> {
 public:
  explicit NesterovLookahead(const std::vector<Tensor>& params,
                             const NesterovLookaheadOptions& options = {})
      : OptimizerOf("nesterov_lookahead", params, options) {}
  explicit NesterovLookahead(const std::vector<Group>& groups)
      : OptimizerOf("nesterov_lookahead", groups) {}

  /// Moves every parameter to p + momentum * v. An Error when it has already moved.
  void lookahead();
  /// Moves on from where lookahead() started; parameters without a gradient go back there.
  void step() override;
  /// An Error between lookahead() and step().
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& dict) override;

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;

 private:
  bool looking_ = false;  // between lookahead() and step(); scratch is where each came from
};

}  // namespace hero::optim
