#include <cmath>
#include <string>

#include <hero/autograd/anomaly.h>
#include <hero/autograd/ops.h>
#include <hero/core/random.h>
#include <hero/nn/training/finite.h>

namespace hero::nn {
namespace {

// A sum is finite where all its terms are; where it overflows by itself, terms decide.
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

enum class Look { nans_first, infinities };

// The same step once more, watched. A NaN is looked for before infinities, as a mask of -infinity
// is no fault; an infinite loss has no NaN before it.
[[noreturn]] void find(const std::string& what, Look look, const Generator::State& random,
                       const std::function<Tensor()>& forward) {
  for (const bool infinities : {false, true}) {
    if (!infinities && look == Look::infinities) continue;
    default_generator().set_state(random);
    try {
      const DetectAnomaly watch({.infinities = infinities});
      forward().backward();
    } catch (const Error& error) {
      fail(what, ": ", error.what());
    }
  }
  fail(what, "; run again, the step made finite numbers, so its forward depends on something else");
}

}  // namespace

Tensor finite_backward(int64_t step, const std::function<Tensor()>& forward,
                       const std::vector<Tensor>& parameters) {
  const Generator::State random = default_generator().state();
  Tensor loss = forward();
  const double value = loss.item();
  const std::string where = "step " + std::to_string(step) + ": ";
  if (std::isnan(value)) find(where + "the loss is nan", Look::nans_first, random, forward);
  if (std::isinf(value)) find(where + "the loss is infinite", Look::infinities, random, forward);
  loss.backward();
  if (any_not_finite(parameters)) {
    find(where + "a gradient is not finite", Look::nans_first, random, forward);
  }
  return loss;
}

}  // namespace hero::nn
