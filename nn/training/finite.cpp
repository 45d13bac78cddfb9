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

// The same step once more, watched.
[[noreturn]] void find(const std::string& what, const std::function<Tensor()>& forward) {
  try {
    const DetectAnomaly watch({.infinities = true});
    forward().backward();
  } catch (const Error& error) {
    fail(what, ": ", error.what());
  }
  fail(what, "; run again, the step made finite numbers, so its forward depends on something else");
}

}  // namespace

Tensor finite_backward(int64_t step, const std::function<Tensor()>& forward,
                       const std::vector<Tensor>& parameters) {
  const Generator::State random = default_generator().state();
  Tensor loss = forward();
  const double value = loss.item();
  std::string what;
  if (!std::isfinite(value)) {
    what = "step " + std::to_string(step) + ": the loss is " + detail::number_text(value);
  } else {
    loss.backward();
    if (!any_not_finite(parameters)) return loss;
    what = "step " + std::to_string(step) + ": a gradient is not finite";
  }
  default_generator().set_state(random);
  find(what, forward);
}

}  // namespace hero::nn
