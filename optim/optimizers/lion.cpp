#include <hero/core/functions/update_step.h>
#include <hero/optim/check_option.h>
#include <hero/optim/lion.h>

namespace hero::optim {

namespace k = core::kernels;

template class OptimizerOf<LionOptions>;

void LionOptions::check_values() const { check_adam_options("lion", *this); }

std::vector<const char*> Lion::array_names(int) const { return {"exp_avg"}; }

void Lion::update(int group, State& state, const Array& grad) {
  const LionOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  run<k::Lion>({o.maximize ? -1.0 : 1.0, 1.0 - o.lr * o.weight_decay, o.lr, beta1, 1.0 - beta1,
                beta2, 1.0 - beta2},
               state, grad);
}

}  // namespace hero::optim
