// Momentum on sin(x) + x^2/10: out of the valley that held gradient descent, and the price of it
#include <cstdio>

#include "support/lessons/valley.h"
#include "support/options/program.h"

#include <hero/autograd/autograd.h>
#include <hero/optim/optim.h>

using hero::Tensor;
using tutorial::f, tutorial::value, tutorial::kTarget, tutorial::Path, tutorial::Show;

namespace {

// [snippet: rule]
class Momentum {
 public:
  Momentum(const Tensor& x, double lr, double momentum)
      : x_(x), velocity_(zeros_like(x)), lr_(lr), momentum_(momentum) {}
  void zero_grad() { x_.set_grad({}); }
  void step() {
    const hero::NoGrad no_grad;
    velocity_ = momentum_ * velocity_ - lr_ * x_.grad();
    x_ += velocity_;
  }

 private:
  Tensor x_, velocity_;
  double lr_, momentum_;
};
// [end]

template <class Optimizer>
Path descend(Optimizer& optimizer, const Tensor& x, int steps, Show show) {
  Path path;
  for (int step = 1; step <= steps && !path.converged; ++step) {
    optimizer.zero_grad();
    Tensor y = f(x);
    y.backward();
    path.add(value(x), value(y), value(x.grad()));
    if (show == Show::yes && step % 100 == 1) print_step(step, x, y, Show::yes);
    path.converged = tutorial::distance(x) <= tutorial::kTolerance;
    if (!path.converged) optimizer.step();
  }
  return path;
}

void from(double start, double lr, const std::string& name, const tutorial::Options& options) {
  const double momentum = options.momentum.value_or(0.9);
  const int steps = options.steps.value_or(1000);
  const bool both_sides = options.start.empty();
  if (both_sides) std::printf("# x = %g, lr = %g, momentum = %g\n", start, lr, momentum);

  // [snippet: compare]
  Tensor x = tutorial::parameter(start);
  Momentum rule(x, lr, momentum);
  const Path path = descend(rule, x, steps, Show::yes);
  print_results(path, x, steps);

  Tensor again = tutorial::parameter(start);
  hero::optim::SGD sgd({again}, {.lr = lr, .momentum = momentum});
  const Path library = descend(sgd, again, steps, Show::no);
  // [end]
  if (both_sides) std::printf("# hero::optim::SGD: %s\n", agreement(path, library).c_str());

  const std::string title = "momentum from x = " + tutorial::repr(start);
  draw_valley("Gradient descent with " + title, path, lr, options.out, "04_momentum_" + name);
  draw_oscillation("The first 50 steps with " + title, path, 50, kTarget, options.out,
                   "04_momentum_" + name + "_oscillation");
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "Gradient descent with momentum on f(x) = sin(x) + x^2/10.";
  return tutorial::run(argc, argv, {.title = title}, [](const tutorial::Options& options) {
    if (!options.start.empty()) {
      const double start = options.start[0];
      from(start, options.lr.value_or(0.1), start < kTarget ? "left" : "right", options);
      return;
    }
    from(8.0, options.lr.value_or(0.1), "right", options);
    std::printf("\n");
    from(-8.0, options.lr.value_or(1.0), "left", options);
  });
}
