// Gradient descent on sin(x) + x^2/10: it finds the minimum from the left, not from the right
#include <cstdio>

#include "support/lessons/valley.h"
#include "support/options/program.h"

#include <hero/autograd/autograd.h>
#include <hero/optim/optim.h>

using hero::Tensor;
using tutorial::f, tutorial::value, tutorial::kTarget, tutorial::Path, tutorial::Show;

namespace {

// [snippet: rule]
class GradientDescent {
 public:
  GradientDescent(const Tensor& x, double lr) : x_(x), lr_(lr) {}
  void zero_grad() { x_.set_grad({}); }
  void step() {
    const hero::NoGrad no_grad;
    x_ -= lr_ * x_.grad();
  }

 private:
  Tensor x_;
  double lr_;
};
// [end]

// [snippet: loop]
template <class Optimizer>
Path descend(Optimizer& optimizer, const Tensor& x, int steps, Show show) {
  Path path;
  float diff = 0.0f;
  for (int step = 0; step < steps && !path.converged; ++step) {
    optimizer.zero_grad();
    Tensor y = f(x);
    y.backward();
    path.add(value(x), value(y), value(x.grad()));
    if (show == Show::yes) {
      const hero::NoGrad no_grad;
      std::printf("x: %.4f, y: %.4f, dy/dx: %.4f, manual dy/dx: %.4f\n", value(x), value(y),
                  value(x.grad()), value(tutorial::slope_by_hand(x)));
    }
    diff = tutorial::distance(x);
    path.converged = diff <= tutorial::kTolerance;
    if (!path.converged) optimizer.step();
  }
  if (show == Show::yes) {
    const hero::NoGrad no_grad;
    std::printf("Diff: %.5f, x: %.5f, f(x): %.5f, optimum: %.5f, f(optimum): %.5f\n", diff,
                value(x), value(f(x)), kTarget, value(f(full_like(x, kTarget))));
  }
  return path;
}
// [end]

void from(double start, const char* side, const tutorial::Options& options) {
  const double lr = options.lr.value_or(1.0), momentum = options.momentum.value_or(0.0);
  const int steps = options.steps.value_or(20);
  const bool both_sides = options.start.empty();
  if (both_sides) std::printf("# from the %s: x = %g, lr = %g\n", side, start, lr);

  // [snippet: library]
  Tensor x = tutorial::parameter(start);
  hero::optim::SGD sgd({x}, {.lr = lr, .momentum = momentum});
  const Path path = descend(sgd, x, steps, Show::yes);
  // [end]
  if (path.converged) {
    std::printf("We've converged after %d steps!\n", path.steps() - 1);
  } else {
    std::printf("We failed to converge after %d steps!\n", steps);
  }

  if (both_sides && momentum == 0.0) {
    Tensor own = tutorial::parameter(start);
    GradientDescent rule(own, lr);
    std::printf("# our own rule: %s\n",
                agreement(path, descend(rule, own, steps, Show::no)).c_str());
  }
  draw_valley("Gradient descent from x = " + tutorial::repr(start), path, lr, options.out,
              std::string("03_sgd_") + side);
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "Gradient descent on f(x) = sin(x) + x^2/10.";
  return tutorial::run(argc, argv, {.title = title}, [](const tutorial::Options& options) {
    if (!options.start.empty()) {
      from(options.start[0], options.start[0] < kTarget ? "left" : "right", options);
      return;
    }
    from(-8.0, "left", options);
    std::printf("\n");
    from(8.0, "right", options);
  });
}
