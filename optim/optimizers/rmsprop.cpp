#include <hero/core/functions/update_step.h>
#include <hero/optim/check_option.h>
#include <hero/optim/rmsprop.h>

namespace hero::optim {

namespace k = core::kernels;

template class OptimizerOf<RMSpropOptions>;

void RMSpropOptions::check_values() const {
  check_not_negative("rmsprop", "lr", lr);
  check_not_negative("rmsprop", "alpha", alpha);
  check_not_negative("rmsprop", "eps", eps);
  check_not_negative("rmsprop", "weight_decay", weight_decay);
  check_not_negative("rmsprop", "momentum", momentum);
}

std::vector<const char*> RMSprop::array_names(int group) const {
  const RMSpropOptions& o = options(group);
  std::vector<const char*> names = {"square_avg"};
  if (o.centered) names.push_back("grad_avg");
  if (o.momentum > 0.0) names.push_back("momentum_buffer");
  return names;
}

void RMSprop::update(int group, State& state, const Array& grad) {
  const RMSpropOptions& o = options(group);
  const k::RMSpropStep<double> step{
      {o.maximize ? -1.0 : 1.0, o.weight_decay}, o.lr, o.alpha, 1.0 - o.alpha, o.eps, o.momentum};
  if (o.centered && o.momentum > 0.0) {
    run<k::RMSpropCenteredMomentum>({step}, state, grad);
  } else if (o.centered) {
    run<k::RMSpropCentered>({step}, state, grad);
  } else if (o.momentum > 0.0) {
    run<k::RMSpropMomentum>({step}, state, grad);
  } else {
    run<k::RMSprop>({step}, state, grad);
  }
}

}  // namespace hero::optim
