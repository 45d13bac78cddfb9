#include <cmath>

#include <hero/core/functions/update_step.h>
#include <hero/optim/adam.h>
#include <hero/optim/check_option.h>

namespace hero::optim {

namespace {

namespace k = core::kernels;

template <class Options>
std::vector<const char*> adam_arrays(const Options& o) {
  if (o.amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {"exp_avg", "exp_avg_sq"};
}

// The common step of Adam and AdamW, which differ only in where the weight decay is applied.
template <class Options>
k::AdamStep<double> adam_step(const Options& o, double t, double l2, double keep) {
  const auto [beta1, beta2] = o.betas;
  return {{o.maximize ? -1.0 : 1.0, l2},     {beta1, 1.0 - beta1, beta2, 1.0 - beta2}, keep,
          o.lr / (1.0 - std::pow(beta1, t)), std::sqrt(1.0 - std::pow(beta2, t)),      o.eps};
}

}  // namespace

template class OptimizerOf<AdamOptions>;

void AdamOptions::check_values() const { check_adam_options("adam", *this); }
std::vector<const char*> Adam::array_names(int group) const { return adam_arrays(options(group)); }
void Adam::update(int group, State& state, const Array& grad) {
  const AdamOptions& o = options(group);
  const auto step = adam_step(o, state.steps, o.weight_decay, 1.0);
  o.amsgrad ? run<k::AdamAmsgrad>({step}, state, grad) : run<k::Adam>({step}, state, grad);
}

template class OptimizerOf<AdamWOptions>;

void AdamWOptions::check_values() const { check_adam_options("adamw", *this); }
std::vector<const char*> AdamW::array_names(int group) const { return adam_arrays(options(group)); }
void AdamW::update(int group, State& state, const Array& grad) {
  const AdamWOptions& o = options(group);
  const auto step = adam_step(o, state.steps, 0.0, 1.0 - o.lr * o.weight_decay);
  o.amsgrad ? run<k::AdamAmsgrad>({step}, state, grad) : run<k::Adam>({step}, state, grad);
}

}  // namespace hero::optim
