// 3. Adam and AdamW: running means, and weights that decay (chapter 6)
//
// You write one step of two methods, for any number of parameters at once. x and g are tensors of
// one shape: the parameters and their gradient. The state is passed by reference:
//
//   state.mean     m, the running mean of the gradients; zeros before the first step
//   state.square   v, the running mean of their squares; zeros before the first step
//   state.steps    how many steps were taken before this one
//
// In step t = 1, 2, 3 ... the rules are
//
//   m = beta1 m + (1 - beta1) g                 v = beta2 v + (1 - beta2) g^2
//   m_hat = m / (1 - beta1^t)                   v_hat = v / (1 - beta2^t)
//   x = x - lr m_hat / (sqrt(v_hat) + eps)
//
// What you need of the library: square(g) and sqrt(v) of tensors, and std::pow(beta1, t) of
// numbers.
#include <cmath>

#include "exercises/03_adam/exercise.h"

using hero::Tensor;

namespace exercise {

Tensor adam(const Tensor& x, const Tensor& g, State& state, double lr, double beta1, double beta2,
            double eps) {
  // WRITE 1: update the state, and return the next point.
  to_write("1, Adam's step, in adam().");
}

// AdamW: before Adam's step each parameter shrinks by lr times weight_decay of itself. The decay
// does not pass through the running means.
Tensor adamw(const Tensor& x, const Tensor& g, State& state, double lr, double beta1, double beta2,
             double eps, double weight_decay) {
  // WRITE 2: two lines; the second one calls adam().
  to_write("2, AdamW's step, in adamw().");
}

}  // namespace exercise
