#pragma once
// This header has the optimizer Newton, which asks for second derivatives, and its options.
#include <functional>

#include <hero/autograd/tensor.h>

namespace hero::optim {

/// Options of Newton.
struct NewtonOptions {
  double lr = 1.0;       ///< share of the full Newton step that is taken
  double damping = 0.0;  ///< added to the diagonal of the matrix of second derivatives
};

/// Newton's method: p -= lr * H^-1 g, with the gradient g and the matrix H of all second
/// derivatives, both from automatic differentiation. With n parameters, H has n^2 elements and
/// costs n backward passes, so the method is for few parameters. It moves towards the nearest point
/// of zero slope, which may be a maximum or a saddle point as well as a minimum. A step throws an
/// Error if a parameter is a shard.
class Newton {
 public:
  /// What a step computed at the point where it began.
  struct Seen {
    Tensor loss;      ///< the loss, of one element
    Tensor gradient;  ///< [n], all parameters one after the other
    Tensor hessian;   ///< [n, n], the second derivatives
  };

  /// Makes an optimizer for these parameters: leaves that require gradients, all of the same
  /// floating dtype.
  explicit Newton(const std::vector<Tensor>& params, const NewtonOptions& options = {});
  Newton(const Newton&) = default;  // no move: an object that was moved from stays usable
  Newton& operator=(const Newton&) = default;

  /// Computes the loss, of one element, and moves the parameters; their grad() stays as it is.
  /// Throws an Error if H is singular.
  Seen step(const std::function<Tensor()>& loss);

  /// The options, which may be changed between steps.
  NewtonOptions& options() { return options_; }

 private:
  std::vector<Tensor> params_;
  NewtonOptions options_;
};

}  // namespace hero::optim
