#include <hero/core/functions/update_step.h>
#include <hero/optim/adadelta.h>
#include <hero/optim/check_option.h>

namespace hero::optim {

namespace k = core::kernels;

template class OptimizerOf<AdadeltaOptions>;

void AdadeltaOptions::check_values() const {
  check_not_negative("adadelta", "lr", lr);
  check(rho >= 0.0 && rho <= 1.0, "adadelta: rho must be in [0, 1]: ", rho);
  check_not_negative("adadelta", "eps", eps);
  check_not_negative("adadelta", "weight_decay", weight_decay);
}

std::vector<const char*> Adadelta::array_names(int) const { return {"square_avg", "acc_delta"}; }

void Adadelta::update(int group, State& state, const Array& grad) {
  const AdadeltaOptions& o = options(group);
  run<k::Adadelta>({{o.maximize ? -1.0 : 1.0, o.weight_decay}, o.lr, o.rho, 1.0 - o.rho, o.eps},
                   state, grad);
}

}  // namespace hero::optim
