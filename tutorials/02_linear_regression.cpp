// A line through 100 points by gradient descent, watched to the last bit and checked against QR
#include <cmath>
#include <cstdio>
#include <functional>

#include "support/options/device.h"
#include "support/options/page.h"
#include "support/options/program.h"
#include "support/pictures/charts.h"

#include <hero/autograd/autograd.h>
#include <hero/core/numpy_random.h>
#include <hero/optim/optim.h>

using hero::Tensor;
using tutorial::repr;
using tutorial::Values;

namespace {

constexpr int kPoints = 100;

Tensor column(const std::vector<double>& values) {
  return hero::tensor(values, {.dtype = hero::kFloat64, .device = tutorial::device()})
      .reshape({-1, 1});
}

// [snippet: data]
struct Problem {
  Tensor x, y;    // [100, 1] float64
  double p1, p2;  // a first guess of slope and intercept
};

Problem make_problem() {
  hero::NumpyRandom random(0);
  const Tensor x = 2 * column(random.rand(kPoints));
  const Tensor y = 4 + 3 * x + column(random.randn(kPoints));
  const double p1 = random.randn() * 12;
  const double p2 = random.randn() * -9;
  return {x, y, p1, p2};
}
// [end]

// [snippet: gradient]
struct Seen {
  double loss, dp1, dp2;
};
Seen look(const Problem& p, double p1, double p2) {
  const hero::NoGrad no_grad;
  const Tensor error = p.y - (p.x * p1 + p2);
  return {(1.0 / kPoints) * square(error).sum().item(),
          -(2.0 / kPoints) * (error * p.x).sum().item(), -(2.0 / kPoints) * error.sum().item()};
}
// [end]

struct Run {
  double p1, p2;
  Seen last = {};
  Values loss = {}, log_norm = {};
};

Run descend(const Problem& p, const tutorial::Options& options, int steps) {
  const double lr = options.lr.value_or(0.05), momentum = options.momentum.value_or(0.0);
  Run run{p.p1, p.p2};
  double v1 = 0.0, v2 = 0.0;
  for (int i = 0; i < steps; ++i) {
    run.last = look(p, run.p1, run.p2);
    v1 = momentum * v1 + run.last.dp1;
    v2 = momentum * v2 + run.last.dp2;
    run.p1 -= lr * v1;
    run.p2 -= lr * v2;
    run.loss.push_back(run.last.loss);
    tutorial::note_step("", {{"loss", run.last.loss}, {"slope", run.p1}, {"intercept", run.p2}});
    run.log_norm.push_back(std::log(std::hypot(run.last.dp1, run.last.dp2)));
  }
  return run;
}

// [snippet: library]
Run descend_by_autograd(const Problem& p, const tutorial::Options& options, int steps) {
  Tensor slope = column({p.p1}).requires_grad_();  // [1, 1]
  Tensor intercept = column({p.p2}).requires_grad_();
  hero::optim::SGD sgd({slope, intercept}, {.lr = options.lr.value_or(0.05),
                                            .momentum = options.momentum.value_or(0.0)});
  for (int i = 0; i < steps; ++i) {
    sgd.zero_grad();
    Tensor loss = mean(square(p.y - (p.x * slope + intercept)));
    loss.backward();
    sgd.step();
  }
  return {slope.item(), intercept.item()};
}
// [end]

// [snippet: least_squares]
void compare_with_least_squares(const Problem& p, const Run& run) {
  const Tensor a = hero::cat({p.x, ones_like(p.x)}, 1);  // [100, 2]
  const Values best = lstsq(a, p.y).to_vector<double>();
  std::printf("Optimal slope (theta_1): %s\n", repr(best[0]).c_str());
  std::printf("Optimal intercept (theta_2): %s\n", repr(best[1]).c_str());
  std::printf("Difference between calculated vs. approximated slope: %s\n",
              repr(std::fabs(run.p1 - best[0])).c_str());
  std::printf("Difference between calculated vs. approximated intercept: %s\n",
              repr(std::fabs(run.p2 - best[1])).c_str());
}
// [end]

// Where the first `steps` steps from a place lead, at a rate and without momentum.
tutorial::Descent walk(const Problem& p, const char* name, double p1, double p2, double lr,
                       int steps) {
  tutorial::Descent path{.name = name};
  for (int i = 0; i <= steps; ++i) {
    path.p1.push_back(p1), path.p2.push_back(p2);
    const Seen seen = look(p, p1, p2);
    p1 -= lr * seen.dp1, p2 -= lr * seen.dp2;
  }
  return path;
}

// The same by the gradient of four points, chosen at random at each step.
tutorial::Descent walk_by_batches(const Values& x, const Values& y, const char* name, double p1,
                                  double p2, const std::function<double(int)>& rate, int steps) {
  constexpr int kBatch = 4;
  tutorial::Descent path{.name = name, .dot_every = 0};
  hero::NumpyRandom random(1);
  for (int step = 0; step <= steps; ++step) {
    path.p1.push_back(p1), path.p2.push_back(p2);
    double dp1 = 0.0, dp2 = 0.0;
    for (int i = 0; i < kBatch; ++i) {
      const auto at = static_cast<size_t>(random.randint(0, kPoints));
      const double error = y[at] - (p1 * x[at] + p2);
      dp1 -= 2.0 / kBatch * error * x[at], dp2 -= 2.0 / kBatch * error;
    }
    p1 -= rate(step) * dp1, p2 -= rate(step) * dp2;
  }
  return path;
}

void draw_bowls(const Problem& p, const Run& best, const std::string& folder) {
  const Values x = p.x.to_vector<double>(), y = p.y.to_vector<double>();
  const auto loss = [&](double p1, double p2) {
    double sum = 0.0;
    for (size_t i = 0; i < x.size(); ++i) sum += std::pow(y[i] - (p1 * x[i] + p2), 2);
    return sum / kPoints;
  };
  auto guess = walk(p, "first guess, rate 0.05, a dot every 10 steps", p.p1, p.p2, 0.05, 100);
  auto slow = walk(p, "from (9, 4), rate 0.05, a dot every 10 steps", 9.0, 4.0, 0.05, 100);
  const auto fast = walk(p, "from (9, 4), rate 0.45, a dot at each step", 9.0, 4.0, 0.45, 40);
  guess.dot_every = slow.dot_every = 10;
  tutorial::draw_bowl("Lines of equal loss, and the way down from two places",
                      {loss, best.p1, best.p2, -6.0, 10.0, -2.0, 14.0}, {guess, slow, fast}, folder,
                      "02_bowl");
  constexpr int kSteps = 500;
  const auto constant = [](int) { return 0.05; };
  const auto falling = [](int step) { return 0.05 * (kSteps - step) / kSteps; };
  tutorial::draw_bowl(
      "Three descents from (9, 4), each of which has looked at 2000 points",
      {loss, best.p1, best.p2, 1.8, 10.0, 0.8, 6.8},
      {walk_by_batches(x, y, "500 steps with 4 points each, rate 0.05", 9.0, 4.0, constant, kSteps),
       walk_by_batches(x, y, "the same, with a rate that falls to 0", 9.0, 4.0, falling, kSteps),
       walk(p, "20 steps with all 100 points, rate 0.05", 9.0, 4.0, 0.05, 20)},
      folder, "02_batches");
}

void regress(const tutorial::Options& options) {
  Problem p = make_problem();
  if (!options.start.empty()) p.p1 = options.start[0], p.p2 = options.start[1];
  const Seen first = look(p, p.p1, p.p2);
  std::printf("np.float64(%s)\nloss: %.4f\ndp1 = %.4f, dp2 = %.4f\n", repr(first.loss).c_str(),
              first.loss, first.dp1, first.dp2);
  const int steps = options.steps.value_or(1000);
  const Run run = descend(p, options, steps), longer = descend(p, options, 50 * steps);
  for (size_t i = 0; i < run.loss.size(); i += 50) {
    std::printf("[%3zu/%3d] loss: %.4f\n", i, steps, run.loss[i]);
  }
  std::printf("%s %s\n", repr(run.last.dp1).c_str(), repr(run.last.dp2).c_str());
  compare_with_least_squares(p, longer);
  const Run library = descend_by_autograd(p, options, steps);
  std::printf("# autograd and hero::optim::SGD after %d steps: slope within %.0e, intercept %.0e\n",
              steps, std::fabs(library.p1 - run.p1), std::fabs(library.p2 - run.p2));

  const Values x = p.x.to_vector<double>(), y = p.y.to_vector<double>();
  const char *norm = "log of the gradient's norm", *out = options.out.c_str();
  tutorial::draw_points("A hundred points near a line", x, y, out, "02_points");
  tutorial::draw_fit("A first guess", x, y, p.p1, p.p2, out, "02_first_guess");
  tutorial::draw_fit("The fitted line", x, y, run.p1, run.p2, out, "02_fitted");
  draw_bowls(p, longer, out);
  tutorial::draw_series("The loss", "mean squared error", run.loss, out, "02_loss");
  tutorial::draw_series("The gradient goes on shrinking", norm, run.log_norm, out, "02_gradient");
  tutorial::draw_series("After fifty times as many steps only rounding is left", norm,
                        longer.log_norm, out, "02_gradient_long");
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "A line through 100 points by gradient descent.";
  return tutorial::run(argc, argv, {.title = title, .coordinates = 2}, regress);
}
