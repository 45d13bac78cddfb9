#include "valley.h"

#include <cmath>
#include <cstdio>

#include "device.h"

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

void draw_valley(const std::string& title, const Path& path, double lr, const std::string& folder,
                 const std::string& name) {
  draw_path(
      title, [](double x) { return std::sin(x) + x * x / 10.0; }, path, lr, folder, name);
}

}  // namespace tutorial
