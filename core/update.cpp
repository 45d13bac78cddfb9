#include <cstring>
#include <utility>

#include <hero/core/update.h>

namespace hero::core {

namespace {

void check_update(const UpdateInfo& info, const Array& param, const Array& grad,
                  std::span<const Array* const> states) {
  check(is_floating(param.dtype()), info.name, ": parameter has dtype ", param.dtype(),
        "; only floating dtypes can be optimised");
  check_same_device(info.name, param, grad);
  check(grad.shape() == param.shape() && grad.dtype() == param.dtype(), info.name, ": gradient is ",
        grad.dtype(), " ", grad.shape(), ", its parameter ", param.dtype(), " ", param.shape());
  check(static_cast<int>(states.size()) == info.states, info.name, ": takes ", info.states,
        " states, not ", states.size());
  for (const Array* state : states) {
    check_same_device(info.name, param, *state);
    check(state->shape() == param.shape() && state->dtype() == state_dtype(param.dtype()) &&
              state->is_contiguous(),
          info.name, ": a state must be contiguous ", state_dtype(param.dtype()), " ",
          param.shape(), ", not ", state->dtype(), " ", state->shape());
  }
}

}  // namespace

void UpdateBatch::add(const UpdateInfo& info, std::span<const double> coefficients,
                      const Array& param, const Array& grad, std::span<const Array* const> states) {
  check_update(info, param, grad, states);
  Array dense_param = param.contiguous(), dense_grad = grad.contiguous();
  if (!param.is_contiguous()) copied_.push_back({param, dense_param});
  UpdateItem& item = kind_of(info.op, coefficients, param).items.emplace_back();
  item.param = std::move(dense_param);
  item.grad = std::move(dense_grad);
  for (size_t i = 0; i < states.size(); ++i) item.states[i] = *states[i];
}

UpdateBatch::Kind& UpdateBatch::kind_of(UpdateOp op, std::span<const double> coefficients,
                                        const Array& param) {
  for (Kind& kind : std::span(kinds_).first(used_)) {
    if (kind.op.index == op.index && kind.dtype == param.dtype() && kind.device == param.device() &&
        std::memcmp(kind.coefficients.data(), coefficients.data(), coefficients.size_bytes()) ==
            0) {
      return kind;
    }
  }
  if (used_ == kinds_.size()) kinds_.emplace_back();
  Kind& kind = kinds_[used_++];
  kind.op = op;
  kind.dtype = param.dtype();
  kind.device = param.device();
  kind.coefficients.assign(coefficients.begin(), coefficients.end());
  return kind;
}

void UpdateBatch::run_all() {
  for (const Kind& kind : std::span(kinds_).first(used_)) {
    backend(kind.device).update(kind.op, kind.items, kind.coefficients);
    for (const UpdateItem& item : kind.items) {
      item.param.storage().bump_version();
      for (const Array& state : item.states) {
        if (state.defined()) state.storage().bump_version();
      }
    }
  }
  for (const Copied& copy : copied_) {
    backend(copy.param.device()).copy(copy.dense, copy.param);
    copy.param.storage().bump_version();
  }
}

void UpdateBatch::run() {
  try {
    run_all();
  } catch (...) {
    clear();
    throw;
  }
  clear();
}

void UpdateBatch::clear() {
  for (Kind& kind : std::span(kinds_).first(used_)) kind.items.clear();
  used_ = 0;
  copied_.clear();
}

}  // namespace hero::core
