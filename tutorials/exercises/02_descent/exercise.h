#pragma once
// Exercise 2: the functions that an answer defines.
#include <functional>

#include "exercises/support/answer.h"

#include <hero/autograd/autograd.h>

namespace exercise {

/// The slope of a function at a point, of the point's shape.
using Slope = std::function<hero::Tensor(const hero::Tensor& x)>;

/// \name One step from x: each returns the next point. `velocity` is zero before the first step,
/// and what a step leaves in it is there in the next.
/// \{
hero::Tensor descend(const hero::Tensor& x, const Slope& slope, double lr);
hero::Tensor momentum(const hero::Tensor& x, const Slope& slope, hero::Tensor& velocity, double lr,
                      double mu);
hero::Tensor nesterov(const hero::Tensor& x, const Slope& slope, hero::Tensor& velocity, double lr,
                      double mu);
/// \}

}  // namespace exercise
