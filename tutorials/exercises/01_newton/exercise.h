#pragma once
// Exercise 1: the functions that an answer defines.
#include <functional>

#include "exercises/support/answer.h"

#include <hero/autograd/autograd.h>

namespace exercise {

/// A function from a tensor of parameters to one number, a tensor with one element.
using Function = std::function<hero::Tensor(const hero::Tensor& x)>;

/// One step of Newton's method towards a point without slope. x: float64 [1], a leaf that requires
/// a gradient. Returns the next point, float64 [1], which has no history.
hero::Tensor newton_step(const Function& f, const hero::Tensor& x);

/// The same for n parameters. x: float64 [n], a leaf that requires a gradient; returns [n].
hero::Tensor newton_step_of_many(const Function& f, const hero::Tensor& x);

}  // namespace exercise
