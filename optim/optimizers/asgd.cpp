#include <algorithm>
#include <cmath>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/optim/asgd.h>
#include <hero/optim/check_option.h>

namespace hero::optim {

template class OptimizerOf<ASGDOptions>;

void ASGDOptions::check_values() const {
  check_not_negative("asgd", "lr", lr);
  check_not_negative("asgd", "lambd", lambd);
  check_not_negative("asgd", "alpha", alpha);
  check(!std::isnan(t0), "asgd: t0 is NaN");
  check_not_negative("asgd", "weight_decay", weight_decay);
}

std::vector<const char*> ASGD::array_names(int) const { return {"ax"}; }

void ASGD::update(int group, State& state, const Array& grad) {
  const NoGrad no_grad;
  const ASGDOptions& o = options(group);
  const Tensor average(state.arrays[0].array);
  const Tensor p(state.param.array());
  const double before = state.steps - 1.0;
  const double eta = o.lr / std::pow(1.0 + o.lambd * o.lr * before, o.alpha);
  const double share = 1.0 / std::max(1.0, before - o.t0);
  const Tensor wide = p.to(average.dtype());
  Tensor g = Tensor(grad).to(average.dtype());
  if (o.maximize) g = -g;
  if (o.weight_decay != 0.0) g = g + wide * o.weight_decay;
  const Tensor moved = wide * (1.0 - o.lambd * eta) - g * eta;
  average.copy_(share == 1.0 ? moved : average + (moved - average) * share);
  p.copy_(moved);
}

}  // namespace hero::optim
