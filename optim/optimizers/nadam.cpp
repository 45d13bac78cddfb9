#include <cmath>
#include <string_view>

#include <hero/core/functions/update_step.h>
#include <hero/optim/check_option.h>
#include <hero/optim/nadam.h>

namespace hero::optim {

namespace k = core::kernels;

template class OptimizerOf<NAdamOptions>;

void NAdamOptions::check_values() const {
  check_adam_options("nadam", *this);
  check_not_negative("nadam", "momentum_decay", momentum_decay);
}

std::vector<const char*> NAdam::array_names(int) const { return {"exp_avg", "exp_avg_sq"}; }
std::vector<const char*> NAdam::number_names() const { return {"mu_product"}; }

double NAdam::first_value(int, const char* name) const {
  return std::string_view(name) == "mu_product" ? 1.0 : 0.0;
}

// The product of the mu_t, each of which lies in [0, 1].
std::array<double, 2> NAdam::number_range(const char*) const { return {0.0, 1.0}; }

void NAdam::update(int group, State& state, const Array& grad) {
  const NAdamOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  const auto mu = [&, b = beta1](double t) {
    return b * (1.0 - 0.5 * std::pow(0.96, t * o.momentum_decay));
  };
  const double now = mu(state.steps), next = mu(state.steps + 1.0);
  double& product = state.numbers[0];
  product *= now;
  run<k::NAdam>({{o.maximize ? -1.0 : 1.0, o.decoupled_weight_decay ? 0.0 : o.weight_decay},
                 {beta1, 1.0 - beta1, beta2, 1.0 - beta2},
                 o.decoupled_weight_decay ? 1.0 - o.lr * o.weight_decay : 1.0,
                 o.lr * (1.0 - now) / (1.0 - product),
                 o.lr * next / (1.0 - product * next),
                 1.0 - std::pow(beta2, state.steps),
                 o.eps},
                state, grad);
}

}  // namespace hero::optim
