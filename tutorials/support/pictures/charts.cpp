#include "support/pictures/charts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tutorial {

void draw_square(const std::string& folder) {
  Values x, y, dx, dy;
  for (const double at : {-2.5, -1.5, 0.0, 1.5, 2.5}) {
    const double half = 0.5;  // of the piece, along x
    x.push_back(at - half), y.push_back(at * at - 2.0 * at * half);
    dx.push_back(2.0 * half), dy.push_back(4.0 * at * half);
  }
  Figure figure("f(x) = x²: where the derivative is zero, the curve is level", "x", "f(x)");
  figure.x_range(-3.5, 3.5).y_range(-1.5, 10.0);
  figure.curve(
      "f(x) = x²", [](double at) { return at * at; }, -3.5, 3.5);
  figure.arrows("tangents, with the slope 2x", x, y, dx, dy).mark("minimum", 0.0, 0.0);
  figure.save(folder, "01_square");
}

void draw_newton(const Values& x, const Values& to, const std::string& folder,
                 const std::string& name) {
  const auto f = [](double at) { return std::sin(at) + at * at / 10.0; };
  const auto slope = [](double at) { return std::cos(at) + at / 5.0; };
  constexpr double kShortestTangent = 1e-3;  // what is shorter cannot be seen
  Values y, g, from_x, from_g, dx, dy;
  double low = -10.0, high = 10.0;
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(f(x[i]));
    g.push_back(slope(x[i]));
    if (std::hypot(to[i] - x[i], g[i]) > kShortestTangent) {
      from_x.push_back(x[i]);
      from_g.push_back(g[i]);
      dx.push_back(to[i] - x[i]);
      dy.push_back(-g[i]);
    }
    low = std::min(low, x[i] - 1.0);
    high = std::max(high, x[i] + 1.0);
  }
  Figure("Newton's method: the points it visits", "x", "f(x)")
      .x_range(low, high)
      .curve("f(x) = sin(x) + x^2/10", f, low, high)
      .steps("step", x, y)
      .save(folder, name);
  Figure tangents("Newton's method: each tangent of f' to zero", "x", "f'(x)");
  Figure crowd("The points around −6, larger", "x", "f'(x)");
  constexpr double kLeft = -8.3, kRight = -4.7;
  int inside = 0;
  for (size_t i = 0; i < std::min<size_t>(x.size(), 9); ++i) {  // those behind lie on each other
    const bool crowded = kLeft < x[i] && x[i] < kRight;
    inside += crowded ? 1 : 0;
    const double up = i % 2 == 0 ? 1.0 : -1.0;
    (crowded ? crowd : tangents)
        .label(std::to_string(i), x[i], g[i] + (crowded ? 0.17 : 0.45) * up, "#333333");
  }
  tangents.x_range(low, high)
      .curve("f'(x) = cos(x) + x/5", slope, low, high)
      .arrows("tangent", from_x, from_g, dx, dy)
      .points("", x, g);
  crowd.x_range(kLeft, kRight)
      .y_range(-1.8, 0.2)
      .curve("", slope, kLeft, kRight)
      .arrows("", from_x, from_g, dx, dy)
      .points("", x, g);
  if (inside > 3) tangents.below(crowd);
  tangents.save(folder, name + "_tangents");
}

void draw_points(const std::string& title, const Values& x, const Values& y,
                 const std::string& folder, const std::string& name) {
  Figure(title, "x", "y").points("", x, y).save(folder, name);
}

void draw_fit(const std::string& title, const Values& x, const Values& y, double p1, double p2,
              const std::string& folder, const std::string& name) {
  char label[80];
  std::snprintf(label, sizeof label, "y = %.2f x %s %.2f", p1, p2 < 0 ? "−" : "+", std::fabs(p2));
  const double end = *std::max_element(x.begin(), x.end());
  Figure(title, "x", "y")
      .points("data", x, y)
      .line(label, {0.0, end}, {p2, end * p1 + p2})
      .save(folder, name);
}

void draw_bowl(const std::string& title, const Bowl& bowl, const std::vector<Descent>& paths,
               const std::string& folder, const std::string& name) {
  Figure figure(title, "slope", "intercept");
  figure.equal_axes().x_range(bowl.low1, bowl.high1).y_range(bowl.low2, bowl.high2);
  figure.contours(bowl.loss, {1.1, 1.5, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0});
  for (const Descent& path : paths) {
    figure.line(path.name, path.p1, path.p2);
    Values p1, p2;
    for (size_t i = 0; path.dot_every > 0 && i < path.p1.size(); i += path.dot_every) {
      p1.push_back(path.p1[i]), p2.push_back(path.p2[i]);
    }
    if (!p1.empty()) figure.points("", p1, p2);
  }
  figure.mark("the minimum", bowl.best1, bowl.best2).save(folder, name);
}

void draw_series(const std::string& title, const std::string& label, const Values& y,
                 const std::string& folder, const std::string& name) {
  Values x, shown;
  const size_t stride = y.size() / 2000 + 1;  // as many points as the eye can tell apart
  std::vector<Tick> ticks;
  for (size_t i = 0; i < y.size(); i += stride) {
    x.push_back(static_cast<double>(i));
    shown.push_back(y[i]);
  }
  Figure figure(title, "step", label);
  if (y.size() > 10'000) {
    const auto last = static_cast<double>(y.size());
    for (const double share : {0.0, 0.5, 1.0})
      ticks.push_back({share * last, std::to_string(std::lround(share * last))});
    figure.x_ticks(ticks);
  }
  figure.line("", x, shown).save(folder, name);
}

}  // namespace tutorial
