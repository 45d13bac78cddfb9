#include <cmath>

#include <hero/core/reductions.h>
#include <hero/optim/check_option.h>
#include <hero/optim/lamb.h>

namespace hero::optim {

namespace k = core::kernels;

namespace {

// The order of summation is the reduction's, fixed; halves are widened, their squares overflow.
double sum_square(const Array& x) {
  return core::reduce(core::ReduceOp::sum_square, x.to(core::state_dtype(x.dtype()))).item();
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
  // On meta there are no values, and no step that would need them.
  std::array<double, 2> squares = {1.0, 1.0};
  if (param.device().type != DeviceType::meta) squares = {sum_square(param), sum_square(direction)};
  if (combine_) combine_(squares);
  const bool usable = squares[0] > 0.0 && squares[1] > 0.0;
  const double trust = usable ? std::sqrt(squares[0]) / std::sqrt(squares[1]) : 1.0;
  core::update<k::SGD>({{1.0, 0.0}, o.lr * trust}, param, direction.to(param.dtype()), {});
}

}  // namespace hero::optim
