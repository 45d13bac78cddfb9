#pragma once
// The way an optimizer took over a curve, and its pictures.
#include <functional>
#include <string>

#include "support/pictures/plot.h"

namespace tutorial {

/// What a descent saw at each step: where it was, the value and the slope there.
struct Path {
  Values x, y, slope;
  bool converged = false;

  int steps() const { return static_cast<int>(x.size()); }
  void add(double at, double value, double gradient);
};

/// "bit for bit" when both paths are the same, else how far they are apart at most.
std::string agreement(const Path& a, const Path& b);

/// The curve f, the points of the path coloured by step, and from each the arrow to the next one.
/// Where a step is another than that of plain gradient descent, so is the arrow (-lr g, -lr g^2) of
/// the latter, a piece of the tangent. A path of more than 40 points is drawn up to where it stays
/// near its end, and the title says so.
void draw_path(const std::string& title, const std::function<double(double)>& f, const Path& path,
               double lr, const std::string& folder, const std::string& name);

/// x over the first `window` steps, and the level it should come to.
void draw_oscillation(const std::string& title, const Path& path, int window, double target,
                      const std::string& folder, const std::string& name);

}  // namespace tutorial
