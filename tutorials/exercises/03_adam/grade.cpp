// Grades answers to exercise 3.
#include <cmath>

#include "exercises/03_adam/exercise.h"
#include "exercises/support/compare.h"

#include <hero/optim/optim.h>

using exercise::compare, exercise::Path, exercise::State, exercise::walk;
using hero::Tensor;

namespace {

constexpr int kSteps = 5;
constexpr double kRate = 0.3, kBeta1 = 0.8, kBeta2 = 0.99, kEps = 1e-2, kDecay = 0.4;

State begin() {
  const Tensor zeros = hero::zeros({2}, {.dtype = hero::kFloat64});
  return {clone(zeros), clone(zeros)};
}

// The path of an optimizer of the library.
template <class Optimizer, class Options>
Path by_library(const Options& options) {
  const Tensor x = hero::tensor({2.0, -3.0}, {.dtype = hero::kFloat64, .requires_grad = true});
  Optimizer optimizer({x}, options);
  return walk(kSteps, [&](const Tensor& at) {
    x.set_grad(exercise::slope(at));
    optimizer.step();
    return Tensor(x.array().clone());
  });
}

// A step of Adam with mistakes.
struct Variant {
  bool corrected = true, square_corrected = true, root = true, eps_inside = false,
       square_of_mean = false, by_mean = true, swapped = false, stored = false;
  int64_t counted = 1;  // how often a step is
  double shrink = 0.0, in_gradient = 0.0;
  bool shrinks_after = false;
  double beta1 = kBeta1;
};
Path path(const Variant& variant) {
  State s = begin();
  const double beta1 = variant.swapped ? kBeta2 : variant.beta1,
               beta2 = variant.swapped ? kBeta1 : kBeta2;
  return walk(kSteps, [&](const Tensor& x) {
    const Tensor g = exercise::slope(x) + variant.in_gradient * x;
    s.steps += variant.counted;
    s.mean = beta1 * s.mean + (1 - beta1) * g;
    s.square = beta2 * s.square + (1 - beta2) * square(variant.square_of_mean ? s.mean : g);
    const auto t = static_cast<double>(s.steps);
    const Tensor m = (variant.by_mean ? s.mean : g) /
                     (variant.corrected && variant.by_mean ? 1 - std::pow(beta1, t) : 1.0);
    const Tensor v =
        s.square / (variant.corrected && variant.square_corrected ? 1 - std::pow(beta2, t) : 1.0);
    if (variant.stored) s.mean = m, s.square = v;
    const Tensor below = variant.eps_inside ? sqrt(v + kEps) : (variant.root ? sqrt(v) : v) + kEps;
    const Tensor next = x - kRate * m / below;
    return next - variant.shrink * (variant.shrinks_after ? next : x);
  });
}

const std::vector<std::pair<Path, std::string>>& mistakes() {
  static const std::vector<std::pair<Path, std::string>> list = {
      {path({.corrected = false}),
       "The running means are not corrected: they begin at zero, and the first ones are too "
       "small."},
      {path({.square_corrected = false}),
       "The running mean of the squares is not corrected, and it begins at zero, too."},
      {path({.stored = true}),
       "The corrected means are put into the state, and corrected once more in the next step: the "
       "state keeps the running means as they are."},
      {path({.swapped = true}), "beta1 and beta2 have changed places."},
      {path({.beta1 = 0.9}), "beta1 is 0.9 whatever it should be: use the argument."},
      {path({.root = false}), "The mean square is used without its root."},
      {path({.eps_inside = true}), "eps is added under the root, and should be added after it."},
      {path({.square_of_mean = true}),
       "The square of the running mean was taken, and should be that of the gradient."},
      {path({.by_mean = false}),
       "The step is along the gradient and not along its running mean: this is RMSprop."}};
  return list;
}

void finite(const Path& got) {
  exercise::require(std::isfinite(got[0][0]) && std::isfinite(got[0][1]),
                    "The first step divides by zero: 1 - beta^t is zero for t = 0, and t is 1 in "
                    "the first step.");
}

std::string adam() {
  State s = begin();
  const Path got = walk(kSteps, [&](const Tensor& x) {
    return exercise::adam(x, exercise::slope(x), s, kRate, kBeta1, kBeta2, kEps);
  });
  finite(got);
  return compare(got,
                 by_library<hero::optim::Adam>(
                     hero::optim::AdamOptions{.lr = kRate, .betas = {kBeta1, kBeta2}, .eps = kEps}),
                 mistakes());
}

std::string adamw() {
  State s = begin();
  const Path got = walk(kSteps, [&](const Tensor& x) {
    return exercise::adamw(x, exercise::slope(x), s, kRate, kBeta1, kBeta2, kEps, kDecay);
  });
  finite(got);
  auto list = mistakes();
  list.push_back({path({}), "Nothing decays: weight_decay is not used."});
  list.push_back({path({.in_gradient = kDecay}),
                  "The decay was added to the gradient and has passed through the running means: "
                  "this is Adam with an L2 "
                  "penalty. In AdamW the parameters shrink by themselves."});
  list.push_back({path({.counted = 2, .shrink = kRate * kDecay}),
                  "Every step is counted twice: adam() counts it, and adamw() need not."});
  list.push_back({path({.shrink = kRate * kDecay, .shrinks_after = true}),
                  "The parameters shrink after Adam's step, and should before it."});
  list.push_back(
      {path({.shrink = -kRate * kDecay}), "The parameters grow by the decay: subtract it."});
  list.push_back({path({.shrink = kDecay}), "The decay is not multiplied by the learning rate."});
  return compare(got,
                 by_library<hero::optim::AdamW>(hero::optim::AdamWOptions{
                     .lr = kRate, .betas = {kBeta1, kBeta2}, .eps = kEps, .weight_decay = kDecay}),
                 list);
}

}  // namespace

int main() {
  return exercise::grade("Exercise 3. Adam and AdamW", {{"Adam", adam}, {"AdamW", adamw}});
}
