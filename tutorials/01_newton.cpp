// Newton's method on sin(x) + x^2/10: a minimum from first and second derivatives
#include <cmath>
#include <cstdio>

#include "support/options/device.h"
#include "support/options/program.h"
#include "support/pictures/charts.h"

#include <hero/autograd/autograd.h>
#include <hero/optim/optim.h>

using hero::Tensor;

namespace {

// float64 [1]
Tensor parameter(double start) {
  return hero::tensor(
      {start}, {.dtype = hero::kFloat64, .device = tutorial::device(), .requires_grad = true});
}

Tensor f(const Tensor& x) { return sin(x) + square(x) / 10; }

// What a step saw where it began, and where it went.
struct Step {
  double from, value, slope, curvature, to;
};

// [snippet: by_hand]
double slope_by_hand(double x) { return std::cos(x) + x / 5; }
double curvature_by_hand(double x) { return -std::sin(x) + 0.2; }
// [end]

// [snippet: derivatives]
struct Derivatives {
  Tensor value, slope, curvature;
};

Derivatives derivatives(const Tensor& x) {
  const Tensor y = f(x);
  const Tensor slope = hero::grad(y, x, {.create_graph = true});
  return {y, slope, hero::grad(slope, x)};
}
// [end]

// [snippet: rule]
std::vector<Step> newton(double start, int steps, double lr) {
  Tensor x = parameter(start);
  std::vector<Step> path;
  for (int i = 0; i < steps; ++i) {
    const double from = x.item();
    const auto [value, slope, curvature] = derivatives(x);
    const hero::NoGrad no_grad;
    x -= lr * (slope / curvature);
    path.push_back({from, value.item(), slope.item(), curvature.item(), x.item()});
  }
  return path;
}
// [end]

// [snippet: library]
std::vector<Step> library_newton(double start, int steps, double lr) {
  Tensor x = parameter(start);
  hero::optim::Newton newton({x}, {.lr = lr});
  std::vector<Step> path;
  for (int i = 0; i < steps; ++i) {
    const double from = x.item();
    const auto seen = newton.step([&] { return f(x); });
    path.push_back({from, seen.loss.item(), seen.gradient.item(), seen.hessian.item(), x.item()});
  }
  return path;
}
// [end]

void print(const std::vector<Step>& path, const char* format) {
  const int steps = static_cast<int>(path.size());
  for (int i = 0; i < steps; ++i) {
    const Step& s = path[static_cast<size_t>(i)];
    std::printf(format, i, steps, s.to, s.value, s.slope, s.curvature);
  }
}

// Both derivatives from the graph against those on paper, for the reader who doubts.
void check_by_hand(const std::vector<Step>& path) {
  constexpr double kFewUlps = 1e-14;  // of numbers below 10
  for (const Step& s : path) {
    const double scale = 1.0 + std::fabs(s.from);
    hero::check(std::fabs(s.slope - slope_by_hand(s.from)) <= kFewUlps * scale &&
                    std::fabs(s.curvature - curvature_by_hand(s.from)) <= kFewUlps * scale,
                "derivatives differ from those by hand at x = ", s.from);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const tutorial::Program program = {.title = "Newton's method on f(x) = sin(x) + x^2/10.",
                                     .momentum = false};
  return tutorial::run(argc, argv, program, [](const tutorial::Options& options) {
    const double start = options.start.empty() ? -5.0 : options.start[0];
    const double lr = options.lr.value_or(1.0);
    const int steps = options.steps.value_or(12);
    const std::vector<Step> path = newton(start, steps, lr);
    check_by_hand(path);
    print(path, "[%2d/%2d] x = %.8f, f(x) = %.5f, f'(x) = %.5f, f''(x) = %.5f\n");
    std::printf(
        "\n# by the library's optim::Newton, in the format of the series' earlier version\n");
    print(library_newton(start, steps, lr),
          "[%d/%d] x = %.8g, f(x) = %.5g, f'(x) = %.5g, f''(x) = %.5g\n");
    tutorial::draw_square(options.out);
    tutorial::Values x, to;
    for (const Step& s : path) x.push_back(s.from), to.push_back(s.to);
    tutorial::draw_newton(x, to, options.out, "01_newton");
  });
}
