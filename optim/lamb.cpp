#include <cmath>

#include <hero/optim/check_option.h>
#include <hero/optim/lamb.h>
#include <hero/optim/wide_sum.h>

namespace hero::optim {

namespace k = core::kernels;

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
  const auto square = core::ReduceOp::sum_square;
  std::array<double, 2> squares = {wide_reduce(square, param), wide_reduce(square, direction)};
  if (combine_) combine_(squares);
  const bool usable = squares[0] > 0.0 && squares[1] > 0.0;
  const double trust = usable ? std::sqrt(squares[0]) / std::sqrt(squares[1]) : 1.0;
  core::update<k::SGD>({{1.0, 0.0}, o.lr * trust}, param, direction.to(param.dtype()), {});
}

}  // namespace hero::optim
