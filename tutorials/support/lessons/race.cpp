#include "support/lessons/race.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "support/options/device.h"

namespace tutorial {

namespace {

constexpr int kValleySteps = 500;
constexpr int kCanyonSteps = 10000;
constexpr double kWidest = 4.5;  // lines grow thinner, so that those below show

hero::Tensor rosenbrock_loss(const hero::Tensor& p) {
  const hero::Tensor x = p[0], y = p[1];
  return square(1 - x) + 100 * square(y - square(x));
}

double missed_by(const Problem& problem, const std::vector<double>& at) {
  double most = 0.0;
  for (size_t i = 0; i < at.size(); ++i) {
    const double by = std::fabs(at[i] - problem.goal[i]);
    most = by <= most ? most : by;  // written so that NaN wins
  }
  return most;
}

// The path to the goal, or of `steps` points. x and y of a point are its coordinates in the plane,
// or a number and the loss there.
Path walk(const Problem& problem, const hero::Tensor& x, const Stepper& stepper, int steps,
          Show show) {
  Path path;
  for (int step = 1; step <= steps && !path.converged; ++step) {
    stepper.before();
    const hero::Tensor y = problem.loss(x);
    y.backward();
    const std::vector<double> at = x.to(hero::kFloat64).to_vector<double>();
    path.add(at[0], at.size() == 1 ? y.item() : at[1],
             x.grad().to(hero::kFloat64).to_vector<double>()[0]);
    if (show == Show::yes && step % 100 == 1) print_step(step, x, y, Show::yes);
    path.converged = missed_by(problem, at) <= problem.near;
    if (!path.converged && step < steps) stepper.after();
  }
  return path;
}

// Largest coordinate of the way from the end of the path to the goal.
double missed(const Problem& problem, const Path& path) {
  std::vector<double> at = {path.x.back()};
  if (problem.goal.size() == 2) at.push_back(path.y.back());
  return missed_by(problem, at);
}

struct Racer {
  std::string name;
  Path path;
};

// A step and the x there.
struct Spot {
  double step, x;
};

// Where a racer's curve is farthest from all others' within the picture, of the first `shown` steps
// and not where a name stands already.
Spot spot_apart(const std::vector<Racer>& racers, const Racer& mine, const std::vector<Spot>& names,
                size_t shown, double limit) {
  size_t best = 0;
  double most = -2.0 * limit;
  const auto taken = [&](size_t t) {
    return std::any_of(names.begin(), names.end(), [&](const Spot& name) {
      return std::fabs(name.step - static_cast<double>(t)) < 12.0 &&
             std::fabs(name.x - mine.path.x[t]) < 1.6;
    });
  };
  for (size_t t = 2; t < std::min(shown, mine.path.x.size()); ++t) {
    if (taken(t)) continue;
    double apart = limit - std::fabs(mine.path.x[t]);  // from the upper and lower edge
    for (const Racer& other : racers) {
      if (&other == &mine || t >= other.path.x.size()) continue;
      apart = std::min(apart, std::fabs(other.path.x[t] - mine.path.x[t]));
    }
    if (apart > most) best = t, most = apart;
  }
  return {static_cast<double>(best), mine.path.x[best]};
}

void draw_race(const std::string& title, const std::vector<Racer>& racers,
               const std::string& folder, const std::string& name) {
  constexpr int kShown = 60;
  Figure figure(title, "step", "x");
  figure.patterned().height(760).y_range(-10.0, 10.0);  // Newton's may leave the picture
  double width = kWidest;
  std::vector<Spot> names;
  for (const Racer& racer : racers) {
    Values t, x;
    for (int i = 0; i < std::min(kShown, racer.path.steps()); ++i) {
      t.push_back(i);
      x.push_back(racer.path.x[static_cast<size_t>(i)]);
    }
    figure.line("", t, x, width);
    names.push_back(spot_apart(racers, racer, names, kShown, 10.0));
    figure.tag(racer.name, std::max(6.0, names.back().step), names.back().x);
    width -= 0.4;
  }
  figure.save(folder, name);
}

void draw_canyon(const std::string& title, const std::vector<Racer>& racers,
                 const std::string& folder, const std::string& name) {
  constexpr size_t kShown = 1500;
  const auto loss = [](double x, double y) {
    return (1.0 - x) * (1.0 - x) + 100.0 * (y - x * x) * (y - x * x);
  };
  Figure figure(title, "x", "y");
  double low = -1.0, high = 3.0;  // no path leaves the picture
  for (const Racer& racer : racers) {
    const auto [least, most] = std::minmax_element(racer.path.y.begin(), racer.path.y.end());
    low = std::min(low, std::floor(*least));
    high = std::max(high, *most + 0.25);
  }
  figure.equal_axes().x_range(-2.0, 2.0).y_range(low, high);
  figure.x_ticks({{-2, "-2"}, {-1, "-1"}, {0, "0"}, {1, "1"}, {2, "2"}});
  figure.contours(loss, {0.5, 2.0, 8.0, 32.0, 128.0, 512.0});
  double width = kWidest;
  for (const Racer& racer : racers) {
    Values x, y;
    const size_t stride = racer.path.x.size() / kShown + 1;
    for (size_t i = 0; i < racer.path.x.size(); i += i < 200 ? 1 : stride) {
      x.push_back(racer.path.x[i]);
      y.push_back(racer.path.y[i]);
    }
    figure.line(racer.name, x, y, width);
    width -= 1.0;
  }
  const Path& first = racers.front().path;
  figure.points("", {first.x.front()}, {first.y.front()});
  figure.label("start", first.x.front(), first.y.front() + 0.3, "#333333");
  figure.mark("minimum", 1.0, 1.0).save(folder, name);
}

std::string steps_text(const Path& path) {
  return path.converged ? std::to_string(path.steps()) : "-";
}

}  // namespace

hero::Tensor Problem::parameter() const {
  return hero::tensor(start, {.dtype = dtype, .device = device(), .requires_grad = true});
}

Problem valley(double start) {
  const double target = kTarget;  // as float32 has it
  return {f, {start}, {target}, kTolerance, hero::kFloat32};
}

Problem rosenbrock() { return {rosenbrock_loss, {-1.5, 2.0}, {1.0, 1.0}, 1e-3, hero::kFloat64}; }

void show_method(const Method& method, double start, const Options& options) {
  const double lr = options.lr.value_or(method.lr);
  const int steps = options.steps.value_or(kValleySteps);
  std::printf("# %s from x = %g, lr = %g\n", method.name.c_str(), start, lr);
  const Problem problem = valley(start);
  const hero::Tensor x = problem.parameter(), again = problem.parameter();
  const Path path = walk(problem, x, method.library(problem, x, lr), steps, Show::yes);
  print_results(path, x, steps);
  const Path own = walk(problem, again, method.own(again, lr), steps, Show::no);
  std::printf("# our own rule: %s\n\n", agreement(path, own).c_str());
  draw_valley(method.name + " from x = " + repr(start), path, lr, options.out,
              "06_adaptive_" + method.name + (start < kTarget ? "_left" : "_right"));
}

void compare_methods(const std::vector<Method>& methods, const Options& options) {
  const int steps = options.steps.value_or(kValleySteps);
  const int far = options.steps.value_or(kCanyonSteps);
  std::printf("# steps to the minimum, and where they end; -: not within %d steps (%d)\n", steps,
              far);
  std::printf("                 from x = -8        from x = 8         Rosenbrock's canyon\n");
  std::printf("method       lr  steps         x   steps         x       lr   steps   missed by\n");
  std::vector<Racer> left, right, canyon;
  for (const Method& m : methods) {
    const auto run = [&](const Problem& problem, double lr, int most) {
      const hero::Tensor x = problem.parameter();
      return walk(problem, x, m.library(problem, x, lr), most, Show::no);
    };
    const double lr = options.lr.value_or(m.lr), low = options.lr.value_or(m.lr_rosenbrock);
    left.push_back({m.name, run(valley(-8.0), lr, steps)});
    right.push_back({m.name, run(valley(8.0), lr, steps)});
    canyon.push_back({m.name, run(rosenbrock(), low, far)});
    const Path &a = left.back().path, &b = right.back().path, &c = canyon.back().path;
    std::printf("%-9s %5g %6s %9.5f %7s %9.5f %8g %7s %11.6f\n", m.name.c_str(), lr,
                steps_text(a).c_str(), a.x.back(), steps_text(b).c_str(), b.x.back(), low,
                steps_text(c).c_str(), missed(rosenbrock(), c));
  }
  draw_race("From the left", left, options.out, "06_adaptive_left");
  draw_race("From the right", right, options.out, "06_adaptive_right");
  const auto half = canyon.begin() + static_cast<std::ptrdiff_t>(canyon.size() / 2);
  draw_canyon("Through Rosenbrock's canyon", {canyon.begin(), half}, options.out,
              "06_adaptive_canyon");
  draw_canyon("Through Rosenbrock's canyon with a step size for each parameter",
              {half, canyon.end()}, options.out, "06_adaptive_canyon_adaptive");
}

}  // namespace tutorial
