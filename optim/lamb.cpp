#include <cmath>

#include <hero/optim/check_option.h>
#include <hero/optim/exact_sum.h>
#include <hero/optim/lamb.h>
#include <hero/optim/owners.h>

namespace hero::optim {

namespace k = core::kernels;

namespace {

// |param| / |direction| over the whole parameter, of which these may be a shard.
double trust_ratio(Owners* owners, const Array& param, const Array& direction) {
  std::array<ExactSum, 2> squares;
  squares[0].add_squares(param);
  squares[1].add_squares(direction);
  if (owners) add_up(*owners, squares);
  const double numerator = squares[0].root(), denominator = squares[1].root();
  return numerator > 0.0 && denominator > 0.0 ? numerator / denominator : 1.0;
}

}  // namespace

void LAMBOptions::check_values() const { check_adam_options("lamb", *this); }

std::vector<const char*> LAMB::array_names(int) const { return {"exp_avg", "exp_avg_sq"}; }

void LAMB::update(int group, State& state, const Array& grad) {
  const LAMBOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  const Array& param = state.param.array();
  const Array direction =
      Array::empty(param.shape(), core::state_dtype(param.dtype()), param.device());
  const Array states[] = {state.arrays[0].array, state.arrays[1].array, direction};
  core::update<k::LambDirection>({o.maximize ? -1.0 : 1.0,
                                  {beta1, 1.0 - beta1, beta2, 1.0 - beta2},
                                  1.0 - std::pow(beta1, state.steps),
                                  1.0 - std::pow(beta2, state.steps),
                                  o.eps,
                                  o.weight_decay},
                                 param, grad, states);
  const double trust = trust_ratio(owners_of(state.param), param, direction);
  core::update<k::SGD>({{1.0, 0.0}, o.lr * trust}, param, direction.to(param.dtype()), {});
}

}  // namespace hero::optim
