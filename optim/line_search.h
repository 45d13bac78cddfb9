#pragma once
#include <functional>

#include <hero/core/array.h>

namespace hero::optim {

/// A point on the line x + t * d.
struct LinePoint {
  double t = 0.0;
  double loss = 0.0;
  double slope = 0.0;  ///< the gradient times the direction d
  Array gradient;
};

/// Options of strong_wolfe().
struct StrongWolfeOptions {
  /// A step must achieve at least this share of the decrease that the initial slope predicts.
  double decrease = 1e-4;
  double curvature = 0.9;    ///< largest slope at the end of a step, as a share of the initial one
  double least_width = 0.0;  ///< stop when the bracket is narrower than this
  int max_eval = 25;         ///< largest number of evaluations after that of `first`
};

/// Finds a step length that meets the strong Wolfe conditions, by bracketing and cubic
/// interpolation; if none is found, returns the best point seen. `start` is the point t = 0, and
/// `first` is the step length that is tried first. Nocedal and Wright, "Numerical Optimization",
/// algorithms 3.5 and 3.6.
LinePoint strong_wolfe(const std::function<LinePoint(double t)>& look, const LinePoint& start,
                       double first, const StrongWolfeOptions& options);

}  // namespace hero::optim
