#include "support/lessons/path.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "support/options/page.h"

namespace tutorial {

// Below it an arrow is shorter than its head.
constexpr double kShortestArrow = 0.1;

void Path::add(double at, double value, double gradient) {
  x.push_back(at);
  y.push_back(value);
  slope.push_back(gradient);
  note_step("", {{"x", at}, {"value", value}, {"slope", gradient}});
}

std::string agreement(const Path& a, const Path& b) {
  char text[80];
  if (a.x.size() != b.x.size()) {
    std::snprintf(text, sizeof text, "%d points in place of %d", b.steps(), a.steps());
    return text;
  }
  double apart = 0.0;
  for (size_t i = 0; i < a.x.size(); ++i) apart = std::max(apart, std::fabs(a.x[i] - b.x[i]));
  if (apart == 0.0) {
    std::snprintf(text, sizeof text, "the same %d points, bit for bit", a.steps());
  } else {
    std::snprintf(text, sizeof text, "the same %d points to within %.0e", a.steps(), apart);
  }
  return text;
}

namespace {

// The path, or of a long one what comes before it stays near its end, where its points would hide
// each other.
Path before_rest(const Path& path) {
  constexpr size_t kLong = 40;
  constexpr double kNear = 0.5;
  if (path.x.size() <= kLong) return path;
  size_t end = path.x.size();
  while (end > 1 && std::fabs(path.x[end - 1] - path.x.back()) < kNear) --end;
  Path shown;
  for (size_t i = 0; i < end; ++i) {
    shown.x.push_back(path.x[i]);
    shown.y.push_back(path.y[i]);
    shown.slope.push_back(path.slope[i]);
  }
  return shown;
}

}  // namespace

void draw_path(const std::string& title, const std::function<double(double)>& f, const Path& all,
               double lr, const std::string& folder, const std::string& name) {
  const Path path = before_rest(all);
  const std::string first =
      path.x.size() < all.x.size() ? ", first " + std::to_string(path.x.size()) + " steps" : "";
  // From each point to the next: the step taken. Where that is not -lr g, that too, along the
  // tangent.
  Values from_x, from_y, dx, dy, tangent_x, tangent_y, plain_dx, plain_dy;
  for (size_t i = 0; i + 1 < path.x.size(); ++i) {
    const double taken = path.x[i + 1] - path.x[i], plain = -lr * path.slope[i];
    if (std::fabs(taken) > kShortestArrow) {
      from_x.push_back(path.x[i]);
      from_y.push_back(path.y[i]);
      dx.push_back(taken);
      dy.push_back(path.y[i + 1] - path.y[i]);
    }
    if (std::fabs(plain) > kShortestArrow && std::fabs(taken - plain) > kShortestArrow / 10) {
      tangent_x.push_back(path.x[i]);
      tangent_y.push_back(path.y[i]);
      plain_dx.push_back(plain);
      plain_dy.push_back(plain * path.slope[i]);
    }
  }
  double low = -10.0, high = 10.0;
  for (double x : path.x) {
    if (!std::isfinite(x)) continue;
    low = std::min(low, x - 1.0);
    high = std::max(high, x + 1.0);
  }
  Figure figure(title + first, "x", "f(x)");
  figure.x_range(low, high);
  figure.curve("f(x) = sin(x) + x^2/10", f, low, high);
  figure.arrows("the step taken", from_x, from_y, dx, dy);
  if (!tangent_x.empty()) {
    figure.arrows("−lr · gradient", tangent_x, tangent_y, plain_dx, plain_dy);
  }
  figure.steps("step", path.x, path.y).save(folder, name);
}

void draw_oscillation(const std::string& title, const Path& path, int window, double target,
                      const std::string& folder, const std::string& name) {
  Values t, x;
  for (int i = 0; i < std::min(window, path.steps()); ++i) {
    t.push_back(i);
    x.push_back(path.x[static_cast<size_t>(i)]);
  }
  Figure(title, "step", "x")
      .line("x", t, x)
      .points("", t, x)
      .line("minimum", {0.0, static_cast<double>(window)}, {target, target})
      .save(folder, name);
}

}  // namespace tutorial
