#pragma once
#include <functional>

#include <hero/core/array.h>

namespace hero::optim {

/// A point on the line x + t * d.
struct LinePoint {
  double t = 0.0;
  double loss = 0.0;
  double slope = 0.0;  ///< gradient . d
  Array gradient;
};

struct StrongWolfeOptions {
  double decrease = 1e-4;    ///< of the first slope's promise that must be kept
  double curvature = 0.9;    ///< of the first slope that may remain
  double least_width = 0.0;  ///< stops when the bracket is narrower
  int max_eval = 25;
};

/// A step length that meets the strong Wolfe conditions, by bracketing and cubic interpolation, or
/// the best found. `start` has t = 0; the first point looked at is `first`. Nocedal and Wright,
/// "Numerical Optimization", algorithms 3.5 and 3.6.
LinePoint strong_wolfe(const std::function<LinePoint(double t)>& look, const LinePoint& start,
                       double first, const StrongWolfeOptions& options);

}  // namespace hero::optim
