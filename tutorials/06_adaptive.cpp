// Adagrad, RMSprop, Adam and AdamW: a step size for each parameter; all optimizers compared
#include <array>
#include <cmath>
#include <functional>
#include <memory>

#include "support/lessons/race.h"
#include "support/options/program.h"

#include <hero/autograd/autograd.h>
#include <hero/optim/optim.h>

using hero::Tensor;
using tutorial::Method, tutorial::Problem, tutorial::Stepper;

namespace {

// What to do with a parameter and its gradient. The running means live in the rule.
using Rule = std::function<void(const Tensor& x, const Tensor& g)>;

// [snippet: adagrad]
Rule adagrad(const Tensor& like, double lr) {
  return [lr, sum = zeros_like(like)](const Tensor& x, const Tensor& g) mutable {
    sum = sum + g * g;
    x -= lr * g / (sqrt(sum) + 1e-10);
  };
}
// [end]

// [snippet: rmsprop]
Rule rmsprop(const Tensor& like, double lr, double alpha = 0.99) {
  return [=, mean = zeros_like(like)](const Tensor& x, const Tensor& g) mutable {
    mean = alpha * mean + (1 - alpha) * g * g;
    x -= lr * g / (sqrt(mean) + 1e-8);
  };
}
// [end]

// [snippet: adam]
Rule adam(const Tensor& like, double lr, double beta1, double beta2 = 0.999, double decay = 0.0) {
  return [=, m = zeros_like(like), v = zeros_like(like), t = 0](const Tensor& x,
                                                                const Tensor& g) mutable {
    ++t;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const Tensor mean = m / (1 - std::pow(beta1, t));
    const Tensor size = sqrt(v / (1 - std::pow(beta2, t)));
    x *= 1 - lr * decay;  // AdamW; nothing happens for decay 0
    x -= lr * mean / (size + 1e-8);
  };
}
// [end]

// [snippet: own]
Stepper own(const Tensor& x, Rule rule) {
  return {[x] { x.set_grad({}); },
          [x, rule = std::move(rule)] {
            const hero::NoGrad no_grad;
            rule(x, x.grad());
          }};
}
// [end]

// [snippet: library]
template <class Optimizer, class Options>
Stepper library(const Tensor& x, const Options& options) {
  auto optimizer = std::make_shared<Optimizer>(std::vector{x}, options);
  return {[optimizer] { optimizer->zero_grad(); }, [optimizer] { optimizer->step(); }};
}
// [end]

Stepper newton(const Problem& problem, const Tensor& x) {
  auto method = std::make_shared<hero::optim::Newton>(std::vector{x});
  return {[x] { x.set_grad({}); }, [=] { method->step([=] { return problem.loss(x); }); }};
}

// Name, learning rate in the valley and in the canyon, the library's class, our own rule.
std::vector<Method> methods(double mu) {
  using namespace hero::optim;
  const std::array<double, 2> betas = {mu, 0.999};
  return {
      {"Newton", 1.0, 1.0, [](auto& p, auto& x, double) { return newton(p, x); }},
      {"SGD", 1.0, 1e-3,
       [](auto&, auto& x, double lr) { return library<SGD, SGDOptions>(x, {.lr = lr}); }},
      {"Momentum", 1.0, 1e-3,
       [=](auto&, auto& x, double lr) {
         return library<SGD, SGDOptions>(x, {lr, mu});
       }},
      {"Nesterov", 1.0, 1e-3,
       [=](auto&, auto& x, double lr) {
         return library<SGD, SGDOptions>(x, {.lr = lr, .momentum = mu, .nesterov = mu > 0.0});
       }},
      {"Adagrad", 1.0, 1.0,
       [](auto&, auto& x, double lr) { return library<Adagrad, AdagradOptions>(x, {lr}); },
       [](auto& x, double lr) { return own(x, adagrad(x, lr)); }},
      {"RMSprop", 0.1, 0.01,
       [](auto&, auto& x, double lr) { return library<RMSprop, RMSpropOptions>(x, {lr}); },
       [](auto& x, double lr) { return own(x, rmsprop(x, lr)); }},
      {"Adam", 0.5, 0.1,
       [=](auto&, auto& x, double lr) {
         return library<Adam, AdamOptions>(x, {lr, betas});
       },
       [=](auto& x, double lr) { return own(x, adam(x, lr, mu)); }},
      {"AdamW", 0.5, 0.1,
       [=](auto&, auto& x, double lr) {
         return library<AdamW, AdamWOptions>(x, {lr, betas});
       },
       [=](auto& x, double lr) { return own(x, adam(x, lr, mu, 0.999, 0.01)); }},
  };
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "Optimizers with a step size for each parameter, and all of them compared.";
  return tutorial::run(argc, argv, {.title = title}, [](const tutorial::Options& options) {
    const std::vector<Method> all = methods(options.momentum.value_or(0.9));
    for (const Method& method : all) {
      if (!method.own) continue;
      for (double start : options.start.empty() ? std::vector{-8.0, 8.0} : options.start) {
        show_method(method, start, options);
      }
    }
    compare_methods(all, options);
  });
}
