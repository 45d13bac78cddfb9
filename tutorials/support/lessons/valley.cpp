#include "support/lessons/valley.h"

#include <cmath>
#include <cstdio>

#include "support/options/device.h"

namespace tutorial {

hero::Tensor parameter(double start) {
  return hero::tensor({static_cast<float>(start)}, {.device = device(), .requires_grad = true});
}

float value(const hero::Tensor& x) { return x.item<float>(); }

float distance(const hero::Tensor& x) { return std::fabs(value(x) - kTarget); }

void print_step(int step, const hero::Tensor& x, const hero::Tensor& y, Show by_hand) {
  const hero::NoGrad no_grad;
  std::printf("Step %d: x = %.4f, f(x) = %.4f, dy/dx = %.4f", step, value(x), value(y),
              value(x.grad()));
  if (by_hand == Show::yes) std::printf(", manual dy/dx = %.4f", value(slope_by_hand(x)));
  std::printf("\n");
}

void print_results(const Path& path, const hero::Tensor& x, int steps) {
  const hero::NoGrad no_grad;
  if (path.converged) std::printf("Converged after %d steps!\n", path.steps());
  std::printf("\nFinal Results:\nDiff: %.5f, x: %.5f, f(x): %.5f\n", distance(x), value(x),
              value(f(x)));
  if (path.converged) {
    std::printf("We've converged after %d steps!\n", path.steps());
  } else {
    std::printf("We did not converge after %d steps.\n", steps);
  }
}

namespace {

// Steep across it, and flat along x.
hero::Tensor long_valley(const hero::Tensor& p) {
  return 0.5 * square(p.select(0, 0)) + 4.0 * square(p.select(0, 1));
}

// One step from a place: the gradient is asked for there, or where the velocity leads.
struct StepParts {
  StepParts(bool looks_ahead, double shift) {
    const auto pair = [](double x, double y) { return hero::tensor({x, y}, {.device = device()}); };
    const hero::Tensor place = pair(-2.3, 0.9), velocity = pair(1.2, -1.3);
    const hero::Tensor led = kMomentum * velocity;
    const hero::Tensor asked = (looks_ahead ? place + led : place.clone()).requires_grad_();
    long_valley(asked).backward();
    const auto numbers = [](const hero::Tensor& t) { return t.detach().to_vector<double>(); };
    at = numbers(place), carried = numbers(led), corrected = numbers(-kRate * asked.grad());
    looked = numbers(asked);
    at[0] += shift, looked[0] += shift;
  }
  static constexpr double kMomentum = 0.9, kRate = 0.06;
  Values at, carried, corrected, looked;
};

}  // namespace

void draw_lookahead(const std::string& folder) {
  constexpr double kShift = 3.2, kEnd = 0.15, kBegin = 0.3;  // nothing is drawn in between
  const StepParts steps[] = {{false, 0.0}, {true, kShift}};
  Values x, y, turn_x, turn_y, carried_x, carried_y, corrected_x, corrected_y, whole_x, whole_y,
      looked_x, looked_y;
  for (const StepParts& step : steps) {
    x.push_back(step.at[0]), y.push_back(step.at[1]);
    carried_x.push_back(step.carried[0]), carried_y.push_back(step.carried[1]);
    corrected_x.push_back(step.corrected[0]), corrected_y.push_back(step.corrected[1]);
    turn_x.push_back(x.back() + carried_x.back()), turn_y.push_back(y.back() + carried_y.back());
    whole_x.push_back(carried_x.back() + corrected_x.back());
    whole_y.push_back(carried_y.back() + corrected_y.back());
    looked_x.push_back(step.looked[0]), looked_y.push_back(step.looked[1]);
  }
  Figure figure("One step across a valley: momentum (left), Nesterov (right)", "", "");
  figure.x_range(-2.9, 3.1).y_range(-1.1, 1.9);
  const auto valley = [](double at, double across) {
    if (at > kEnd && at < kBegin) return std::nan("");
    const double along = at <= kEnd ? at : at - kShift;
    return 0.5 * along * along + 4.0 * across * across;
  };
  figure.contours(valley, {0.25, 1.0, 2.25, 4.0, 6.25});
  figure.arrows("μv, where the velocity leads", x, y, carried_x, carried_y);
  figure.arrows("−η · gradient", turn_x, turn_y, corrected_x, corrected_y);
  figure.arrows("the step: both together", x, y, whole_x, whole_y);
  figure.points("where the gradient is asked for", looked_x, looked_y);
  figure.bare().save(folder, "05_nesterov_step");
}

void draw_valley(const std::string& title, const Path& path, double lr, const std::string& folder,
                 const std::string& name) {
  draw_path(
      title, [](double x) { return std::sin(x) + x * x / 10.0; }, path, lr, folder, name);
}

}  // namespace tutorial
