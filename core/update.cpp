#include <hero/core/update.h>

namespace hero::core::detail {

namespace {

void check_update(const UpdateInfo& info, const Array& param, const Array& grad,
                  std::span<const Array> states) {
  check(is_floating(param.dtype()), info.name, ": parameter has dtype ", param.dtype(),
        "; only floating dtypes can be optimised");
  check_same_device(info.name, param, grad);
  check(grad.shape() == param.shape() && grad.dtype() == param.dtype(), info.name, ": gradient is ",
        grad.dtype(), " ", grad.shape(), ", its parameter ", param.dtype(), " ", param.shape());
  check(static_cast<int>(states.size()) == info.states, info.name, ": takes ", info.states,
        " states, not ", states.size());
  for (const Array& state : states) {
    check_same_device(info.name, param, state);
    check(state.shape() == param.shape() && state.dtype() == state_dtype(param.dtype()) &&
              state.is_contiguous(),
          info.name, ": a state must be contiguous ", state_dtype(param.dtype()), " ",
          param.shape(), ", not ", state.dtype(), " ", state.shape());
  }
}

}  // namespace

void update(const UpdateInfo& info, const Array& param, const Array& grad,
            std::span<const Array> states, std::span<const double> coefficients) {
  check_update(info, param, grad, states);
  Backend& device = backend(param.device());
  const Array dense = param.contiguous();  // itself but for a transposed or strided parameter
  device.update(info.op, dense, grad.contiguous(), states, coefficients);
  if (!param.is_contiguous()) device.copy(dense, param);
  param.storage().bump_version();
  for (const Array& state : states) state.storage().bump_version();
}

}  // namespace hero::core::detail
