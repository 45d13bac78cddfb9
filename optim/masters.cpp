#include <hero/autograd/sharding/partition.h>
#include <hero/core/functions/map.h>
#include <hero/core/memory/fetcher.h>
#include <hero/optim/masters.h>
#include <hero/optim/state_lookup.h>

namespace hero::optim {

namespace {

std::string master_key(size_t param) { return "master." + std::to_string(param); }

Tensor master_of(const Tensor& param) {
  if (!param.defined() || !is_half(param.dtype()) || !param.is_leaf()) return param;
  const MemoryScope scope(MemoryTag::optimizer);
  const Tensor master(param.array().to(kFloat32), true);
  // A shard's master is a shard too, so that norms are taken over the whole parameter.
  if (const Partition* part = partition(param)) {
    set_part(master, master.array(), std::make_shared<Partition>(*part));
  }
  return master;
}

// A parameter that is of half precision no more may keep its master.
bool is_master_of(const Tensor& master, const Tensor& param) {
  if (is_same(param, master)) return !is_half(param.dtype());
  return master.dtype() == core::state_dtype(param.dtype()) && master.device() == param.device() &&
         is_same_place(master, param);
}

// True if the master has the values of all elements that the parameter holds now.
bool master_can_follow(const Tensor& master, const Tensor& param) {
  if (is_same(param, master)) return true;
  const bool has_values =
      master.device().type != DeviceType::meta || param.device().type == DeviceType::meta;
  return has_values && covers(shard_layout_of(master), shard_layout_of(param));
}

void check_master_can_follow(const char* optimizer, size_t at, const Tensor& master,
                             const Tensor& param) {
  check(master_can_follow(master, param), optimizer, ": parameter ", at, " has become ",
        describe(shard_layout_of(param)), " on ", param.device(), ", but its float32 master is of ",
        describe(shard_layout_of(master)), " on ", master.device(),
        "; call refresh() to take over the parameters' values, make the optimizer after that, or "
        "load its state from a checkpoint");
}

// The master of a parameter that may have been converted, moved or cut since it was made: `master`
// itself, whose values are converted, moved and cut as the parameter was, or if `begun` is false
// are those of the parameter; a new one if the parameter was its own and is of half precision now.
Tensor followed(const Tensor& master, const Tensor& param, bool begun) {
  if (is_master_of(master, param)) return master;
  if (is_same(param, master)) return master_of(param);
  const DType dtype = core::state_dtype(param.dtype());
  const MemoryScope scope(MemoryTag::optimizer);
  // what take_gradients() moved; that of a parameter that was cut is gone, like the parameter's own
  const Tensor grad = is_same_place(master, param) ? master.grad() : Tensor();
  const bool is_own = !begun && !is_half(param.dtype());
  if (!is_own) {
    const Array values =
        begun ? recut(master.array(), shard_layout_of(master), shard_layout_of(param))
              : param.array();
    const Partition* const part = partition(param);
    set_part(master, values.to(dtype).to(param.device()),
             part != nullptr ? std::make_shared<Partition>(*part) : nullptr);
  }
  const Tensor& now = is_own ? param : master;
  if (grad.defined()) now.set_grad(Tensor(grad.array().to(dtype).to(param.device())));
  return now;
}

void round_to_param(const Tensor& master, const Tensor& param) {
  if (is_same(master, param)) return;
  core::fetch_next(param.array());
  core::backend(param.device()).run(core::call::Copy{master.array(), param.array()});
  param.array().storage().bump_version();
}

Array wide_gradient(const Tensor& param, double factor) {
  const Tensor grad = param.grad();
  if (!grad.defined()) return {};
  const MemoryScope scope(MemoryTag::gradient);
  const Array wide = grad.array().to(is_half(grad.dtype()) ? kFloat32 : grad.dtype());
  if (factor == 1.0) return wide;
  if (!is_half(grad.dtype())) return core::map<core::kernels::Mul>(wide, Scalar(factor));
  core::map_into<core::kernels::Mul>(wide, wide, Scalar(factor));
  return wide;
}

// The array of a 16-bit parameter that one pass can set while it reads the gradient; undefined if
// it is not contiguous, not in memory, or the gradient has another dtype.
Array low_copy(const Tensor& param) {
  const Array& values = param.array();
  const Tensor grad = param.grad();
  const bool fits = is_half(values.dtype()) && values.is_contiguous() && !core::is_away(values) &&
                    grad.defined() && grad.dtype() == values.dtype();
  return fits ? values : Array();
}

int64_t wide_gradient_bytes(const Tensor& param, double factor) {
  const Tensor grad = param.grad();
  const bool made = grad.defined() && (is_half(grad.dtype()) || factor != 1.0);
  return made ? grad.numel() * item_size(is_half(grad.dtype()) ? kFloat32 : grad.dtype()) : 0;
}

}  // namespace

std::vector<Tensor> Optimizer::Masters::made_of(const std::vector<Tensor>& params) {
  std::vector<Tensor> masters;
  masters.reserve(params.size());
  for (const Tensor& param : params) masters.push_back(master_of(param));
  return masters;
}

void Optimizer::Masters::add(const std::vector<Tensor>& params) {
  params_.insert(params_.end(), params.begin(), params.end());
}

bool Optimizer::Masters::is_behind(const std::vector<State>& states) const {
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!is_master_of(states[i].param, params_[i])) return true;
  }
  return false;
}

void Optimizer::Masters::follow(const char* optimizer, std::vector<State>& states) const {
  for (size_t i = 0; begun_ && i < params_.size(); ++i) {
    check_master_can_follow(optimizer, i, states[i].param, params_[i]);
  }
  for (size_t i = 0; i < params_.size(); ++i) {
    states[i].param = followed(states[i].param, params_[i], begun_);
  }
}

const Tensor& Optimizer::Masters::with_gradient(const State& state, int at) const {
  return state.param.grad().defined() ? state.param : param(at);
}

Array Optimizer::Masters::gradient_of(const State& state, int param) const {
  const Tensor& from = with_gradient(state, param);
  return state.low.defined() ? from.grad().array() : wide_gradient(from, factor_);
}

int64_t Optimizer::Masters::gradient_bytes(const State& state, int param) const {
  return wide_gradient_bytes(with_gradient(state, param), factor_);
}

Array Optimizer::Masters::low_of(const State& state, int at) const {
  if (factor_ != 1.0 || is_same(state.param, param(at))) return {};
  return low_copy(with_gradient(state, at));
}

void Optimizer::Masters::updated(State& state, int at) const {
  if (state.low.defined()) {
    state.low = {};
  } else {
    round_to_param(state.param, param(at));
  }
}

void Optimizer::Masters::step_done(std::vector<State>& states) {
  begun_ = true;
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!is_same(states[i].param, params_[i])) states[i].param.set_grad({});
  }
}

void Optimizer::Masters::take_gradients(const std::vector<State>& states) const {
  for (size_t i = 0; i < params_.size(); ++i) {
    const Tensor &param = params_[i], &master = states[i].param;
    const Tensor grad = param.grad();
    if (is_same(param, master) || !grad.defined()) continue;
    const Array wide = wide_gradient(param, 1.0);
    const Tensor former = master.grad();
    if (former.defined()) {
      core::map_into<core::kernels::Add>(former.array(), former.array(), wide);
    } else {
      master.set_grad(Tensor(wide));
    }
    param.set_grad({});
  }
}

void Optimizer::Masters::add_to(StateDict& dict, const std::vector<State>& states) const {
  for (size_t i = 0; i < params_.size(); ++i) {
    if (is_same(params_[i], states[i].param)) continue;
    dict.push_back({master_key(i), states[i].param.array().clone()});
  }
}

StateDict Optimizer::Masters::take_from(const char* optimizer, const StateDict& dict,
                                        std::vector<Array>& masters) const {
  StateDict rest, found;
  for (const core::NamedArray& entry : dict) {
    (entry.name.starts_with("master.") ? found : rest).push_back(entry);
  }
  StateLookup lookup(optimizer, found);
  masters.assign(params_.size(), Array());
  for (size_t i = 0; i < params_.size(); ++i) {
    const DType dtype = core::state_dtype(params_[i].dtype());
    if (!is_half(params_[i].dtype()) && !lookup.contains(master_key(i))) continue;
    const Array* array = lookup.array(master_key(i), params_[i].shape(), dtype);
    if (array) masters[i] = *array;
  }
  lookup.finish();
  return rest;
}

void Optimizer::Masters::begin_load(const char* optimizer, std::vector<State>& states) {
  for (size_t i = 0; i < params_.size(); ++i) {
    // a state that was saved has what these masters lack
    if (!master_can_follow(states[i].param, params_[i])) begun_ = false;
  }
  follow(optimizer, states);
}

void Optimizer::Masters::load(std::vector<State>& states, const std::vector<Array>& masters) {
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!masters[i].defined()) {
      states[i].param = params_[i];  // it is its own, as when it was saved
      continue;
    }
    const NoGrad no_grad;
    states[i].param.copy_(Tensor(masters[i]));
    round_to_param(states[i].param, params_[i]);
  }
  begun_ = true;
}

// What any optimizer has of masters beside its step.

void Optimizer::use_master_weights() {
  if (masters_) return;
  const char* const reason = no_master_weights();
  check(reason == nullptr, name_, ": use_master_weights: ", reason ? reason : "");
  follow();
  const std::vector<Tensor> params = parameters();
  with_all_states([&] {
    const std::vector<Tensor> masters = Masters::made_of(params);
    masters_ = std::make_unique<Masters>(params);
    for (size_t i = 0; i < states_.size(); ++i) states_[i].param = masters[i];
  });
}

void Optimizer::refresh() {
  if (!masters_) return;
  masters_->forget();
  follow();
  with_all_states([&] {
    const NoGrad no_grad;
    const std::vector<Tensor>& params = masters_->params();
    for (size_t i = 0; i < params.size(); ++i) {
      if (!is_same(states_[i].param, params[i])) states_[i].param.copy_(params[i]);
    }
  });
}

void Optimizer::take_gradients() {
  if (!masters_) return;
  follow();
  masters_->take_gradients(states_);
}

}  // namespace hero::optim
