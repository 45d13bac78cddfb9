#include <hero/autograd/partition.h>
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

void follow(const std::vector<Tensor>& params, const std::vector<Tensor>& masters) {
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& param = params[i];
    if (is_same(param, masters[i])) continue;
    const Partition *const now = partition(param), *const then = partition(masters[i]);
    const bool same_place =
        now == nullptr || then == nullptr
            ? now == then
            : now->first == then->first && now->whole == then->whole && now->boxes == then->boxes;
    if (same_place && param.shape() == masters[i].shape() && param.device() == masters[i].device())
      continue;
    const MemoryScope scope(MemoryTag::optimizer);
    set_part(masters[i], param.array().to(kFloat32),
             now != nullptr ? std::make_shared<Partition>(*now) : nullptr);
  }
}

void round_to_param(const Tensor& master, const Tensor& param) {
  if (is_same(master, param)) return;
  core::bring(param.array());
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
    if (!is_half(params[i].dtype())) continue;
    const Array* array = lookup.array(master_key(i), params[i].shape(), kFloat32);
    if (array) masters[i] = *array;
  }
  lookup.finish();
  return rest;
}

}  // namespace hero::optim::detail
