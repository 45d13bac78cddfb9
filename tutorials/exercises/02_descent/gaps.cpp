// 2. Gradient descent, momentum, Nesterov: one step of each (chapters 3 to 5)
//
// You write one step of three methods, for any number of parameters at once: x is a tensor with all
// of them, and slope(x) is a tensor of the same shape with the derivative along each. Tensors are
// added, subtracted and multiplied by numbers as numbers are: x - 0.1 * slope(x).
//
//   lr         the learning rate
//   mu         the share of the velocity that is kept, 0.9 for example
//   velocity   what the ball carries from step to step: zeros before the first step. It is
//              passed by reference, so what you write to it is there in the next step.
#include "exercises/02_descent/exercise.h"

using hero::Tensor;

namespace exercise {

// Gradient descent: go down the slope.
Tensor descend(const Tensor& x, const Slope& slope, double lr) {
  // WRITE 1: return the next point.
  to_write("1, gradient descent, in descend().");
}

// Momentum: the velocity keeps a share mu of itself and gets a push down the slope; the point moves
// by the velocity.
Tensor momentum(const Tensor& x, const Slope& slope, Tensor& velocity, double lr, double mu) {
  // WRITE 2: the new velocity, and the next point.
  to_write("2, momentum, in momentum().");
}

// Nesterov's method in the look-ahead form: as momentum, but the slope is asked for at the point to
// which mu times the velocity would lead anyway. The step itself begins at x.
Tensor nesterov(const Tensor& x, const Slope& slope, Tensor& velocity, double lr, double mu) {
  // WRITE 3: the new velocity, and the next point.
  to_write("3, Nesterov's method, in nesterov().");
}

}  // namespace exercise
