#include <cmath>
#include <string>

#include <hero/autograd/graph/anomaly.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/sharding/gradient_reducer.h>
#include <hero/core/random.h>
#include <hero/nn/training/finite.h>

namespace hero::nn {
namespace {

// If the sum is finite, all terms are; if the sum itself overflows, the terms are checked one by
// one.
bool is_finite(const Tensor& gradient) {
  const NoGrad no_grad;
  if (std::isfinite(sum(gradient).item())) return true;
  return all(isfinite(gradient)).item<bool>();
}

bool any_not_finite(const std::vector<Tensor>& parameters) {
  for (const Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined() && !is_finite(gradient)) return true;
  }
  return false;
}

// What a rank found; the largest of all ranks' decides what is looked for.
enum Fault : int64_t { kNone, kInfinite, kNan };

// The same step once more, watched, on all ranks, as its collectives need. A NaN is looked for
// before infinities, as a mask of -infinity is no fault; an infinite loss has no NaN before it.
[[noreturn]] void find(const std::string& what, bool is_own, Fault fault,
                       const Generator::State& random, const std::function<Tensor()>& forward) {
  for (const bool infinities : {false, true}) {
    if (!infinities && fault == kInfinite) continue;
    default_generator().set_state(random);
    try {
      const DetectAnomaly watch({.infinities = infinities});
      forward().backward();
    } catch (const Error& error) {
      fail(what, ": ", error.what());
    }
  }
  if (!is_own) fail(what);
  fail(what, "; run again, the step made finite numbers, so its forward depends on something else");
}

}  // namespace

Tensor finite_backward(int64_t step, const std::function<Tensor()>& forward,
                       const std::vector<Tensor>& parameters) {
  const Generator::State random = default_generator().state();
  const GradientReducerScope ranks;
  const auto stop_at = [&](Fault own, const std::string& of) {
    const auto worst = static_cast<Fault>(ranks.largest(own, "finite_backward"));
    if (worst == kNone) return;
    const char* is = of == "a gradient" ? " is not finite"
                     : worst == kNan    ? " is nan"
                                        : " is infinite";
    const char* whose = own == worst ? "" : " of another rank";
    find("step " + std::to_string(step) + ": " + of + whose + is, own == worst, worst, random,
         forward);
  };
  Tensor loss = forward();
  const double value = loss.item();
  stop_at(std::isnan(value) ? kNan : std::isinf(value) ? kInfinite : kNone, "the loss");
  loss.backward();
  if (!parameters.empty()) {
    stop_at(any_not_finite(parameters) ? kNan : kNone, "a gradient");
  }
  return loss;
}

}  // namespace hero::nn
