#pragma once
// This header has the optimizers SGD and NesterovLookahead and their options.
#include <optional>

#include <hero/autograd/sharding/replaced_values.h>
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of SGD.
struct SGDOptions {
  double lr = 1e-3;           ///< learning rate
  double momentum = 0.0;      ///< decay of the momentum b; 0: no momentum
  double dampening = 0.0;     ///< share of the newest gradient that does not enter the momentum
  double weight_decay = 0.0;  ///< L2 penalty: this times the parameter is added to its gradient
  bool nesterov = false;      ///< true: step along g + momentum * b instead of b
  bool maximize = false;      ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
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

/// Stochastic gradient descent: g += weight_decay * p; p -= lr * g. With momentum, b = momentum * b
/// + (1 - dampening) * g, which begins as b = g, and the step is along b instead of g; with
/// nesterov it is along g + momentum * b. Sutskever et al., "On the importance of initialization
/// and momentum in deep learning", 2013.
/// \snippet test_examples_optim.cpp SGD
class SGD : public OptimizerOf<SGDOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit SGD(const std::vector<Tensor>& params, const SGDOptions& options = {})
      : OptimizerOf("sgd", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit SGD(const std::vector<Group>& groups) : OptimizerOf("sgd", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  bool is_elementwise() const override { return true; }
};

/// Options of NesterovLookahead.
struct NesterovLookaheadOptions {
  double lr = 1e-3;       ///< learning rate
  double momentum = 0.9;  ///< decay of the velocity v, in [0, 1)
  bool maximize = false;  ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("momentum", self.momentum);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<NesterovLookaheadOptions>;

/// Nesterov's accelerated gradient in its original form: the gradient is taken at the point to
/// which the momentum is about to carry the parameter. v = momentum * v - lr * grad(p + momentum *
/// v); p += v. Call lookahead() before the forward pass and step() after the backward pass; in
/// between, the parameters are at the points ahead. Nesterov, "A method of solving a convex
/// programming problem with convergence rate O(1/k^2)", 1983.
class NesterovLookahead : public OptimizerOf<NesterovLookaheadOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit NesterovLookahead(const std::vector<Tensor>& params,
                             const NesterovLookaheadOptions& options = {})
      : OptimizerOf("nesterov_lookahead", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit NesterovLookahead(const std::vector<Group>& groups)
      : OptimizerOf("nesterov_lookahead", groups) {}

  /// Moves every parameter to p + momentum * v. Until step(), states of the parameters can neither
  /// be saved nor loaded. Throws an Error if called twice without step().
  void lookahead();
  /// Steps from the point where lookahead() started; parameters without a gradient return to it.
  void step() override;
  /// Returns the states and options. Throws an Error between lookahead() and step().
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& dict) override;

 protected:
  void check_group(const std::vector<Tensor>& params) const override;
  const char* no_master_weights() const override {
    return "lookahead() moves the parameters themselves, and needs all states; use SGD with "
           "nesterov";
  }
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;

 private:
  // Whether lookahead() was called without step(): parameters are at the points ahead, and scratch
  // has their values from before.
  bool looking() const { return ahead_.has_value(); }

  std::optional<ReplacedValuesScope> ahead_;
};

}  // namespace hero::optim
