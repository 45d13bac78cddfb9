#include <cstring>
#include <functional>
#include <string_view>

#include <hero/core/functions/update.h>

namespace hero::core {

namespace {

void check_update(const UpdateInfo& info, const Array& param, const Array& grad,
                  std::span<const Array* const> states, const Array* norms, const Array* low) {
  check(is_floating(param.dtype()), info.name, ": parameter has dtype ", param.dtype(),
        "; only floating dtypes can be optimised");
  check_same_device(info.name, param, grad);
  const DType grad_dtype = low ? low->dtype() : param.dtype();
  check(grad.shape() == param.shape() && grad.dtype() == grad_dtype, info.name, ": gradient is ",
        grad.dtype(), " ", grad.shape(), ", its parameter ", grad_dtype, " ", param.shape());
  if (low) {
    check_same_device(info.name, param, *low);
    check(!info.takes_norms && param.dtype() == kFloat32 && is_half(low->dtype()) &&
              low->shape() == param.shape() && low->is_contiguous(),
          info.name, ": a copy in 16 bits must be contiguous, of a float32 parameter ",
          param.shape(), " whose step takes no norms: it is ", low->dtype(), " ", low->shape(),
          ", of ", param.dtype());
  }
  check(static_cast<int>(states.size()) == info.states, info.name, ": takes ", info.states,
        " states, not ", states.size());
  for (const Array* state : states) {
    check_same_device(info.name, param, *state);
    check(state->shape() == param.shape() && state->dtype() == state_dtype(param.dtype()) &&
              state->is_contiguous(),
          info.name, ": a state must be contiguous ", state_dtype(param.dtype()), " ",
          param.shape(), ", not ", state->dtype(), " ", state->shape());
  }
  check(info.takes_norms == (norms != nullptr), info.name, ": norms are ",
        info.takes_norms ? "missing" : "given but not taken");
  if (!norms) return;
  check_same_device(info.name, param, *norms);
  check(norms->dtype() == kFloat64 && norms->numel() == 2 && norms->is_contiguous(), info.name,
        ": norms must be contiguous float64 [2], not ", norms->dtype(), " ", norms->shape());
}

// Null where there are no bytes.
std::byte* bytes_of(const Array& x) {
  return x.device().type == DeviceType::meta ? nullptr : x.bytes();
}

}  // namespace

void UpdateBatch::add(const UpdateInfo& info, std::span<const double> coefficients,
                      const Array& param, const Array& grad, std::span<const Array* const> states,
                      const Array* norms, const Array* low) {
  check_update(info, param, grad, states, norms, low);
  UpdateItem& item = kind_of(info.op, coefficients, param).items.emplace_back();
  item.param = dense_bytes(param, true);
  item.grad = dense_bytes(grad, false);
  for (size_t i = 0; i < states.size(); ++i) {
    item.states[i] = bytes_of(*states[i]);
    states[i]->storage().bump_version();
  }
  if (norms) item.norms = reinterpret_cast<const double*>(bytes_of(*norms));
  if (low) {
    item.low = bytes_of(*low);
    item.low_dtype = low->dtype();
    low->storage().bump_version();
  }
  param.storage().bump_version();
  item.n = param.numel();  // last, so that an item on which something threw has nothing to do
}

std::byte* UpdateBatch::dense_bytes(const Array& x, bool back) {
  if (x.is_contiguous()) return bytes_of(x);
  return bytes_of(copied_.emplace_back(Copied{x, x.contiguous(), back}).dense);
}

bool UpdateBatch::is_kind(const Kind& kind, UpdateOp op, std::span<const double> coefficients,
                          const Array& param) {
  return kind.op.index == op.index && kind.dtype == param.dtype() &&
         kind.device == param.device() &&
         std::memcmp(kind.coefficients.data(), coefficients.data(), coefficients.size_bytes()) == 0;
}

// Mostly the last one; there may be as many as parameters, each with a rate of its own.
UpdateBatch::Kind& UpdateBatch::kind_of(UpdateOp op, std::span<const double> coefficients,
                                        const Array& param) {
  if (used_ > 0 && is_kind(kinds_[used_ - 1], op, coefficients, param)) return kinds_[used_ - 1];
  const std::string_view bytes(reinterpret_cast<const char*>(coefficients.data()),
                               coefficients.size_bytes());
  const size_t hash = std::hash<std::string_view>()(bytes);
  for (auto [at, end] = places_.equal_range(hash); at != end; ++at) {
    if (is_kind(kinds_[at->second], op, coefficients, param)) return kinds_[at->second];
  }
  if (used_ == kinds_.size()) kinds_.emplace_back();
  places_.emplace(hash, used_);
  Kind& kind = kinds_[used_++];
  kind.op = op;
  kind.dtype = param.dtype();
  kind.device = param.device();
  kind.coefficients.assign(coefficients.begin(), coefficients.end());
  return kind;
}

void UpdateBatch::run_all() {
  for (const Kind& kind : std::span(kinds_).first(used_)) {
    backend(kind.device).run(call::Update{kind.op, kind.dtype, kind.items, kind.coefficients});
  }
  for (const Copied& copy : copied_) {
    if (copy.back) backend(copy.from.device()).run(call::Copy{copy.dense, copy.from});
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
  places_.clear();
  copied_.clear();
}

}  // namespace hero::core
