#pragma once
// This header has the optimizer Newton, which asks for second derivatives, and its options.
#include <functional>

#include <hero/autograd/tensor.h>

namespace hero::optim {

struct NewtonOptions {
  double lr = 1.0;       ///< part of the full step taken
  double damping = 0.0;  ///< added to the diagonal of the second derivatives
};

/// Newton's method: p -= lr * H^-1 g, with the gradient g and the matrix H of all second
/// derivatives from automatic differentiation. H has the square of the number of parameters in
/// elements and costs a backward pass a row: for few parameters. It goes to the next point without
/// slope, a maximum or saddle as well as a minimum. A shard of a parameter is an Error at the step.
class Newton {
 public:
  /// What a step saw, at the point it started from.
  struct Seen {
    Tensor loss;
    Tensor gradient;  ///< [n], all parameters behind one another
    Tensor hessian;   ///< [n, n]
  };

  /// Parameters: leaves of one floating dtype that require grad.
  explicit Newton(const std::vector<Tensor>& params, const NewtonOptions& options = {});

  /// Evaluates the loss (one element) and moves the parameters; their grad() stays as it is. An
  /// Error when H is singular.
  Seen step(const std::function<Tensor()>& loss);

  NewtonOptions& options() { return options_; }

 private:
  std::vector<Tensor> params_;
  NewtonOptions options_;
};

}  // namespace hero::optim
