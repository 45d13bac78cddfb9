// 1. Newton's method: a step from first and second derivatives (chapter 1)
//
// You write two functions. The first one takes a step for a single parameter:
//
//   x_next = x - slope / curvature
//
// where the slope is the first derivative of f at x and the curvature is the second. The second
// function does the same for n parameters. Then the slope is a vector g with n elements, the
// curvature is a matrix H with n rows and n columns, the step d solves H d = -g, and the next point
// is x + d.
//
// What you need of the library:
//   hero::grad(y, x)                          the derivative of y with respect to x
//   hero::grad(y, x, {.create_graph = true})  the same, recorded: it has a derivative, too
//   hero::hessian(f, x)                       all second derivatives, a matrix [n, n]
//   hero::solve(H, b)                         the vector d for which H d = b
//   const hero::NoGrad no_grad;               from here to the closing brace nothing is recorded
#include "exercises/01_newton/exercise.h"

using hero::Tensor;

namespace exercise {

// x is a tensor of shape [1] that requires a gradient. Return the next point, of shape [1]. The
// next point is a number and not a part of the function, so compute it while nothing is recorded.
Tensor newton_step(const Function& f, const Tensor& x) {
  const Tensor y = f(x);  // the value, of shape [1]
  // WRITE 1: the slope and the curvature at x, and the next point. Delete the line below.
  to_write("1, the step for one parameter, in newton_step().");
}

// x is a tensor of shape [n] that requires a gradient. Return the next point, of shape [n].
Tensor newton_step_of_many(const Function& f, const Tensor& x) {
  // WRITE 2: the gradient, the matrix of second derivatives, and the next point.
  to_write("2, the step for n parameters, in newton_step_of_many().");
}

}  // namespace exercise
