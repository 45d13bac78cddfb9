#pragma once
// This header has the optimizer Rprop and its options.
#include <array>

#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of Rprop.
struct RpropOptions {
  double lr = 0.01;  ///< the step size that every element begins with
  /// Factors of a step size where the gradient has turned, in (0, 1), and where it has kept its
  /// sign, above 1.
  std::array<double, 2> etas = {0.5, 1.2};
  /// The smallest and the largest step size; if they cross, all have the largest.
  std::array<double, 2> step_sizes = {1e-6, 50.0};
  bool maximize = false;  ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("eta_minus", self.etas[0]);
    visit("eta_plus", self.etas[1]);
    visit("step_size_min", self.step_sizes[0]);
    visit("step_size_max", self.step_sizes[1]);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<RpropOptions>;

/// Steps by the sign of the gradient, with a step size s for each element: s is multiplied by
/// etas[1] where g has the sign of the step before and by etas[0] where it has turned, and is kept
/// within step_sizes; then p -= s sign(g), but an element whose gradient has turned stays where it
/// is, and its next step counts as neither. It is for gradients of the whole data set, since the
/// noise of batches turns signs. lr matters at a parameter's first step only. Riedmiller and Braun,
/// "A direct adaptive method for faster backpropagation learning: the RPROP algorithm", 1993.
class Rprop : public OptimizerOf<RpropOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit Rprop(const std::vector<Tensor>& params, const RpropOptions& options = {})
      : OptimizerOf("rprop", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit Rprop(const std::vector<Group>& groups) : OptimizerOf("rprop", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  double first_value(int group, const char* name) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim
