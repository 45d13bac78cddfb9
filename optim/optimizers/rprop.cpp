#include <cmath>
#include <string>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/optim/check_option.h>
#include <hero/optim/rprop.h>

namespace hero::optim {

template class OptimizerOf<RpropOptions>;

void RpropOptions::check_values() const {
  check_not_negative("rprop", "lr", lr);
  check(etas[0] > 0.0 && etas[0] < 1.0, "rprop: eta_minus must be in (0, 1): ", etas[0]);
  check(etas[1] > 1.0 && std::isfinite(etas[1]), "rprop: eta_plus must be above 1: ", etas[1]);
  check_not_negative("rprop", "step_size_min", step_sizes[0]);
  check_not_negative("rprop", "step_size_max", step_sizes[1]);
}

std::vector<const char*> Rprop::array_names(int) const { return {"prev", "step_size"}; }

double Rprop::first_value(int group, const char* name) const {
  return name == std::string("step_size") ? options(group).lr : 0.0;
}

void Rprop::update(int group, State& state, const Array& grad) {
  const NoGrad no_grad;
  const RpropOptions& o = options(group);
  const Tensor before(state.arrays[0].array), size(state.arrays[1].array);
  const Tensor turned = Tensor(grad).to(before.dtype());
  const Tensor g = o.maximize ? -turned : turned;
  // The product of the signs, since that of two small gradients may be 0.
  const Tensor agreement = sign(g) * sign(before);
  const Tensor factor =
      where(agreement > 0, o.etas[1], where(agreement < 0, o.etas[0], ones_like(size)));
  size.copy_(clamp(size * factor, o.step_sizes[0], o.step_sizes[1]));
  const Tensor seen = where(agreement < 0, 0.0, g);
  const Tensor p(state.param.array());
  p.copy_(p.to(before.dtype()) - sign(seen) * size);
  before.copy_(seen);
}

}  // namespace hero::optim
