#include <cmath>

#include <hero/core/functions/update_step.h>
#include <hero/optim/check_option.h>
#include <hero/optim/radam.h>

namespace hero::optim {

namespace k = core::kernels;

template class OptimizerOf<RAdamOptions>;

void RAdamOptions::check_values() const { check_adam_options("radam", *this); }

std::vector<const char*> RAdam::array_names(int) const { return {"exp_avg", "exp_avg_sq"}; }

void RAdam::update(int group, State& state, const Array& grad) {
  const RAdamOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  const double t = state.steps;
  const double power2 = std::pow(beta2, t);
  const double limit = 2.0 / (1.0 - beta2) - 1.0;
  const double length = limit - 2.0 * t * power2 / (1.0 - power2);
  const bool rectified = length > 5.0;
  double gain = 0.0;
  if (rectified) {
    gain = std::sqrt(((length - 4.0) * (length - 2.0) * limit) /
                     ((limit - 4.0) * (limit - 2.0) * length)) *
           std::sqrt(1.0 - power2);
  }
  run<k::RAdam>({{o.maximize ? -1.0 : 1.0, o.decoupled_weight_decay ? 0.0 : o.weight_decay},
                 {beta1, 1.0 - beta1, beta2, 1.0 - beta2},
                 o.decoupled_weight_decay ? 1.0 - o.lr * o.weight_decay : 1.0,
                 o.lr / (1.0 - std::pow(beta1, t)),
                 o.eps,
                 rectified ? 1.0 : 0.0,
                 gain},
                state, grad);
}

}  // namespace hero::optim
