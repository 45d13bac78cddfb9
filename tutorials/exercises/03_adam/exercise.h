#pragma once
// Exercise 3: the functions that an answer defines.
#include "exercises/support/answer.h"

#include <hero/autograd/autograd.h>

namespace exercise {

/// What an optimizer remembers from step to step, of the shape of the parameters.
struct State {
  hero::Tensor mean;    ///< a running mean of the gradients; zeros before the first step
  hero::Tensor square;  ///< a running mean of their squares; zeros before the first step
  int64_t steps = 0;    ///< that were taken
};

/// \name One step from x, where the gradient is g: each returns the next point and updates the
/// state.
/// \{
hero::Tensor adam(const hero::Tensor& x, const hero::Tensor& g, State& state, double lr,
                  double beta1, double beta2, double eps);
hero::Tensor adamw(const hero::Tensor& x, const hero::Tensor& g, State& state, double lr,
                   double beta1, double beta2, double eps, double weight_decay);
/// \}

}  // namespace exercise
