#pragma once
// The pictures of chapters 1 and 2.
#include <functional>
#include <string>
#include <vector>

#include "support/pictures/plot.h"

namespace tutorial {

/// x^2 with pieces of its tangents, which fall before the minimum and rise after it. Into
/// folder/01_square.
void draw_square(const std::string& folder);

/// f with the points x, and f' with the tangents from them to zero at `to`.
void draw_newton(const Values& x, const Values& to, const std::string& folder,
                 const std::string& name);

/// Points alone.
void draw_points(const std::string& title, const Values& x, const Values& y,
                 const std::string& folder, const std::string& name);

/// Points and the line y = p1 x + p2.
void draw_fit(const std::string& title, const Values& x, const Values& y, double p1, double p2,
              const std::string& folder, const std::string& name);

/// The steps of a descent with two parameters.
struct Descent {
  std::string name;
  size_t dot_every = 1;  ///< steps from one dot to the next; 0: no dots
  Values p1 = {}, p2 = {};
};

/// A loss of two parameters around its minimum, of which a rectangle is shown.
struct Bowl {
  std::function<double(double, double)> loss;
  double best1, best2;
  double low1, high1, low2, high2;
};

/// Lines of equal loss over both parameters, with paths across them.
void draw_bowl(const std::string& title, const Bowl& bowl, const std::vector<Descent>& paths,
               const std::string& folder, const std::string& name);

/// One number a step.
void draw_series(const std::string& title, const std::string& label, const Values& y,
                 const std::string& folder, const std::string& name);

}  // namespace tutorial
