// says: The velocity keeps all of itself
#include "exercises/02_descent/exercise.h"

using hero::Tensor;

namespace exercise {

// Gradient descent: go down the slope.
Tensor descend(const Tensor& x, const Slope& slope, double lr) { return x - lr * slope(x); }

// Momentum: the velocity keeps a share mu of itself and gets a push down the slope; the point moves
// by the velocity.
Tensor momentum(const Tensor& x, const Slope& slope, Tensor& velocity, double lr, double mu) {
  velocity = velocity - lr * slope(x);
  return x + velocity;
}

// Nesterov's method in the look-ahead form: as momentum, but the slope is asked for at the point to
// which mu times the velocity would lead anyway. The step itself begins at x.
Tensor nesterov(const Tensor& x, const Slope& slope, Tensor& velocity, double lr, double mu) {
  velocity = mu * velocity - lr * slope(x + mu * velocity);
  return x + velocity;
}

}  // namespace exercise
