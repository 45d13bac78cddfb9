#include <hero/autograd/leaves/partition.h>
#include <hero/core/functions/map.h>
#include <hero/core/memory/fetcher.h>
#include <hero/optim/all_finite.h>
#include <hero/optim/master_weights.h>
#include <hero/optim/state_lookup.h>

namespace hero::optim::detail {

namespace {

std::string master_key(size_t param) { return "master." + std::to_string(param); }

}  // namespace

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

std::vector<Tensor> masters_of(const std::vector<Tensor>& params) {
  std::vector<Tensor> masters;
  for (const Tensor& param : params) masters.push_back(master_of(param));
  return masters;
}

void check_parameters(const char* optimizer, const std::vector<Tensor>& params,
                      const std::vector<Tensor>& before) {
  std::vector<Tensor> all = before;
  for (const Tensor& param : params) {
    check_parameter(optimizer, all.size(), param, all);
    all.push_back(param);
  }
}

bool is_master_of(const Tensor& master, const Tensor& param) {
  if (is_same(param, master)) return !is_half(param.dtype());
  return master.dtype() == core::state_dtype(param.dtype()) && master.device() == param.device() &&
         is_same_place(master, param);
}

bool can_follow(const Tensor& master, const Tensor& param) {
  if (is_same(param, master)) return true;
  const bool has_values =
      master.device().type != DeviceType::meta || param.device().type == DeviceType::meta;
  return has_values && covers(shard_layout_of(master), shard_layout_of(param));
}

void check_can_follow(const char* optimizer, size_t at, const Tensor& master, const Tensor& param) {
  check(can_follow(master, param), optimizer, ": parameter ", at, " has become ",
        describe(shard_layout_of(param)), " on ", param.device(), ", but its float32 master is of ",
        describe(shard_layout_of(master)), " on ", master.device(),
        "; call refresh() to take over the parameters' values, make the optimizer after that, or "
        "load its state from a checkpoint");
}

Tensor follow(const Tensor& master, const Tensor& param, bool begun) {
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
  core::backend(param.device()).copy(master.array(), param.array());
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

void move_gradients(const std::vector<Tensor>& params, const std::vector<Tensor>& masters) {
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor grad = params[i].grad();
    if (is_same(params[i], masters[i]) || !grad.defined()) continue;
    const Array wide = wide_gradient(params[i], 1.0);
    const Tensor former = masters[i].grad();
    if (former.defined()) {
      core::map_into<core::kernels::Add>(former.array(), former.array(), wide);
    } else {
      masters[i].set_grad(Tensor(wide));
    }
    params[i].set_grad({});
  }
}

bool gradients_are_finite(const std::vector<Tensor>& params) {
  std::vector<Array> gradients;
  for (const Tensor& param : params) {
    if (param.grad().defined()) gradients.push_back(param.grad().array());
  }
  return all_finite(gradients);
}

void add_masters(StateDict& dict, const std::vector<Tensor>& params,
                 const std::vector<Tensor>& masters) {
  for (size_t i = 0; i < params.size(); ++i) {
    if (is_same(params[i], masters[i])) continue;
    dict.push_back({master_key(i), masters[i].array().clone()});
  }
}

StateDict take_masters(const char* optimizer, const StateDict& dict,
                       const std::vector<Tensor>& params, std::vector<Array>& masters) {
  StateDict rest, found;
  for (const core::NamedArray& entry : dict) {
    (entry.name.starts_with("master.") ? found : rest).push_back(entry);
  }
  StateLookup lookup(optimizer, found);
  masters.assign(params.size(), Array());
  for (size_t i = 0; i < params.size(); ++i) {
    const DType dtype = core::state_dtype(params[i].dtype());
    if (!is_half(params[i].dtype()) && !lookup.contains(master_key(i))) continue;
    const Array* array = lookup.array(master_key(i), params[i].shape(), dtype);
    if (array) masters[i] = *array;
  }
  lookup.finish();
  return rest;
}

}  // namespace hero::optim::detail
