#include <hero/core/functions/update_step.h>
#include <hero/optim/adagrad.h>
#include <hero/optim/check_option.h>

namespace hero::optim {

namespace k = core::kernels;

template class OptimizerOf<AdagradOptions>;

void AdagradOptions::check_values() const {
  check_not_negative("adagrad", "lr", lr);
  check_not_negative("adagrad", "lr_decay", lr_decay);
  check_not_negative("adagrad", "weight_decay", weight_decay);
  check_not_negative("adagrad", "initial_accumulator_value", initial_accumulator_value);
  check_not_negative("adagrad", "eps", eps);
}

std::vector<const char*> Adagrad::array_names(int) const { return {"sum"}; }

double Adagrad::first_value(int group, const char*) const {
  return options(group).initial_accumulator_value;
}

void Adagrad::update(int group, State& state, const Array& grad) {
  const AdagradOptions& o = options(group);
  const double lr = o.lr / (1.0 + (state.steps - 1.0) * o.lr_decay);
  run<k::Adagrad>({{o.maximize ? -1.0 : 1.0, o.weight_decay}, lr, o.eps}, state, grad);
}

}  // namespace hero::optim
