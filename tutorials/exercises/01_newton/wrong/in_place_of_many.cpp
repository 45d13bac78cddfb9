// says: return a new tensor, x + d
#include "exercises/01_newton/exercise.h"

using hero::Tensor;

namespace exercise {

// x is a tensor of shape [1] that requires a gradient. Return the next point, of shape [1]. The
// next point is a number and not a part of the function, so compute it while nothing is recorded.
Tensor newton_step(const Function& f, const Tensor& x) {
  const Tensor y = f(x);  // the value, of shape [1]
  const Tensor slope = hero::grad(y, x, {.create_graph = true});
  const Tensor curvature = hero::grad(slope, x);
  const hero::NoGrad no_grad;
  return x - slope / curvature;
}

// x is a tensor of shape [n] that requires a gradient. Return the next point, of shape [n].
Tensor newton_step_of_many(const Function& f, const Tensor& x) {
  const Tensor gradient = hero::grad(f(x), x);
  const Tensor curvatures = hero::hessian(f, x);
  const hero::NoGrad no_grad;
  return x.add_(hero::solve(curvatures, -gradient)).detach();
}

}  // namespace exercise
