#include <cmath>

#include <hero/core/functions/update_step.h>
#include <hero/optim/adamax.h>
#include <hero/optim/check_option.h>

namespace hero::optim {

namespace k = core::kernels;

template class OptimizerOf<AdamaxOptions>;

void AdamaxOptions::check_values() const { check_adam_options("adamax", *this); }

std::vector<const char*> Adamax::array_names(int) const { return {"exp_avg", "exp_inf"}; }

void Adamax::update(int group, State& state, const Array& grad) {
  const AdamaxOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  const double lr = o.lr / (1.0 - std::pow(beta1, state.steps));
  run<k::Adamax>({{o.maximize ? -1.0 : 1.0, o.weight_decay}, lr, beta1, 1.0 - beta1, beta2, o.eps},
                 state, grad);
}

}  // namespace hero::optim
