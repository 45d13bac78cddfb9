// Nesterov's accelerated gradient on sin(x) + x^2/10, in two forms: 34 steps in place of 222
#include <cstdio>

#include "support/lessons/valley.h"
#include "support/options/program.h"

#include <hero/autograd/autograd.h>
#include <hero/optim/optim.h>

using hero::Tensor;
using tutorial::f, tutorial::value, tutorial::Path, tutorial::Show;

namespace {

// [snippet: lookahead]
struct Lookahead {
  Tensor x;
  double lr, momentum;
  Tensor velocity = zeros_like(x), origin = {};

  void zero_grad() { x.set_grad({}); }
  void lookahead() {  // before the forward pass: go where the momentum leads anyway
    const hero::NoGrad no_grad;
    origin = clone(x);
    x += momentum * velocity;
  }
  void step() {  // the gradient is the one over there; the step starts from the origin
    const hero::NoGrad no_grad;
    velocity = momentum * velocity - lr * x.grad();
    x.copy_(origin + velocity);
  }
};
// [end]

// [snippet: pytorch]
struct PyTorchForm {
  Tensor x;
  double lr, momentum;
  Tensor velocity = {};

  void zero_grad() { x.set_grad({}); }
  void step() {
    const hero::NoGrad no_grad;
    velocity = velocity.defined() ? momentum * velocity + x.grad() : clone(x.grad());
    x -= lr * (x.grad() + momentum * velocity);
  }
};
// [end]

// [snippet: loop]
template <class Optimizer>
Path descend(Optimizer& optimizer, const Tensor& x, int steps, Show show, Show by_hand) {
  Path path;
  for (int step = 1; step <= steps && !path.converged; ++step) {
    optimizer.zero_grad();
    if constexpr (requires { optimizer.lookahead(); }) optimizer.lookahead();
    Tensor y = f(x);
    y.backward();
    path.add(value(x), value(y), value(x.grad()));
    if (show == Show::yes && step % 100 == 1) print_step(step, x, y, by_hand);
    path.converged = tutorial::distance(x) <= tutorial::kTolerance;
    if (!path.converged) optimizer.step();
  }
  return path;
}
// [end]

// Makes and runs one of the methods.
Path take(const std::string& method, double start, const tutorial::Options& options, Show show) {
  const double lr = options.lr.value_or(1.0), momentum = options.momentum.value_or(0.9);
  const int steps = options.steps.value_or(1000);
  const Tensor x = tutorial::parameter(start);
  const auto go = [&](auto&& optimizer, Show by_hand) {
    const Path path = descend(optimizer, x, steps, show, by_hand);
    if (show == Show::yes) print_results(path, x, steps);
    return path;
  };
  if (method == "lookahead") return go(Lookahead{x, lr, momentum}, Show::yes);
  if (method == "pytorch") return go(PyTorchForm{x, lr, momentum}, Show::no);
  // [snippet: library]
  using namespace hero::optim;
  if (method == "library-lookahead") {
    return go(NesterovLookahead({x}, {.lr = lr, .momentum = momentum}), Show::yes);
  }
  return go(SGD({x}, {.lr = lr, .momentum = momentum, .nesterov = true}), Show::no);
  // [end]
}

void from(double start, const std::string& method, const tutorial::Options& options) {
  const bool all = options.start.empty() && options.method.empty();
  if (all) std::printf("# %s form from x = %g\n", method.c_str(), start);
  const Path path = take(method, start, options, Show::yes);
  if (method == "library") return;
  if (all) {
    const std::string library = method == "pytorch" ? "library" : "library-lookahead";
    std::printf("# the library's own: %s\n",
                agreement(path, take(library, start, options, Show::no)).c_str());
  }
  draw_valley("Nesterov's method, " + method + " form, from x = " + tutorial::repr(start), path,
              options.lr.value_or(1.0), options.out,
              "05_nesterov_" + method + (start < tutorial::kTarget ? "_left" : "_right"));
}

}  // namespace

int main(int argc, char** argv) {
  const tutorial::Program program = {
      .title = "Nesterov's accelerated gradient on f(x) = sin(x) + x^2/10.",
      .methods = {"lookahead", "pytorch", "library"}};
  return tutorial::run(argc, argv, program, [&](const tutorial::Options& options) {
    tutorial::draw_lookahead(options.out);
    const char* gap = "";
    for (const std::string& method : program.methods) {
      if (!options.method.empty() && options.method != method) continue;
      for (double start : options.start.empty() ? std::vector{-8.0, 8.0} : options.start) {
        std::printf("%s", gap);
        from(start, method, options);
        gap = "\n";
      }
    }
  });
}
