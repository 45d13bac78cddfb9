#include <cmath>
#include <cstdio>
#include <utility>

#include <hero/autograd/sharding/gradient_reducer.h>
#include <hero/core/functions/each_group.h>
#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/optim/clip.h>
#include <hero/optim/rank_groups.h>

namespace hero::optim {

namespace {

namespace k = core::kernels;
using core::ExactSum;

// Gradients with elements, of the parameters of this group.
std::vector<Array> gradients_of(const std::vector<Tensor>& params, const RankGroup* group) {
  std::vector<Array> list;
  list.reserve(params.size());
  for (const Tensor& param : params) {
    if (group_of(param) != group) continue;
    const Tensor grad = param.grad();
    if (grad.defined() && grad.numel() > 0) list.push_back(grad.array());
  }
  return list;
}

// That of the first gradient with elements, since what other stages have is empty here and lies
// where nothing is offloaded; else of the first gradient, or parameter.
Device device_of(const std::vector<Tensor>& params) {
  for (const bool empty_too : {false, true}) {
    for (const Tensor& param : params) {
      const Tensor grad = param.grad();
      if (grad.defined() && (empty_too || grad.numel() > 0)) return grad.device();
    }
  }
  return params.empty() ? kCpu : params[0].device();
}

void add_powers(ExactSum& sum, const std::vector<Array>& gradients, double p) {
  if (p == 2.0) return sum.add_squares(gradients);
  if (p == 1.0) return sum.add_magnitudes(gradients);
  for (const Array& g : gradients) {
    sum.add_magnitudes(core::map<k::Pow>(core::map<k::Abs>(g.to(kFloat64)), Scalar(p)));
  }
}

ExactSum power_sum(const std::vector<Tensor>& params, double p, Device device) {
  ExactSum total;
  for (RankGroup* group : groups_of(params)) {
    if (!group) {
      add_powers(total, gradients_of(params, nullptr), p);
      continue;
    }
    if (group->is_copy()) continue;
    ExactSum sum;
    add_powers(sum, gradients_of(params, group), p);
    const Array words = sum.words_on(device);
    group->add_up(words);
    total.add_words(words);
  }
  for (RankGroup* others : groups_elsewhere(params)) {
    const Array words = total.words_on(device);
    others->add_up(words);
    total = ExactSum();
    total.add_words(words);
  }
  return total;
}

// float64 of shape [] on `device`; NaN wins.
Array largest_of(const std::vector<Array>& gradients, Device device) {
  if (gradients.empty()) return Array::zeros({}, kFloat64, device);
  const Array each =
      Array::empty({static_cast<int64_t>(gradients.size())}, kFloat64, gradients[0].device());
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Array found = core::reduce(core::ReduceKind::max, core::map<k::Abs>(gradients[i]));
    const Array slot = each.select(0, static_cast<int64_t>(i));
    core::backend(each.device()).run(core::call::Copy{found.to(each.device()), slot});
  }
  return core::reduce(core::ReduceKind::max, each).to(device);
}

Array largest_magnitude(const std::vector<Tensor>& params, Device device) {
  const Array total = Array::zeros({}, kFloat64, device);
  for (RankGroup* group : groups_of(params)) {
    const Array found = largest_of(gradients_of(params, group), device);
    if (group) group->largest(found);
    core::map_into<k::Maximum>(total, total, found);
  }
  for (RankGroup* others : groups_elsewhere(params)) others->largest(total);
  return total;
}

// What ranks must do alike. Hosts may differ in the last bits of a limit that follows a curve; an
// infinite one changes nothing, so that a rank may ask for the norm in this way.
void declare_limit(const char* what, const std::vector<Tensor>& params, double limit) {
  if (std::isinf(limit)) return;
  declare(params, [&] {
    char text[64];
    (void)std::snprintf(text, sizeof(text), "%s to %.9g", what, limit);
    return std::string(text);
  });
}

// The ranks of a group ask for a norm together, and so for the same one.
void declare_norm(const std::vector<Tensor>& params, double p) {
  char text[64];
  (void)std::snprintf(text, sizeof(text), "the norm of gradients with p %.9g", p);
  for (RankGroup* group : groups_of(params)) {
    if (group != nullptr) group->declare(text);
  }
}

// Gradients that are this rank's own, of modules that nothing averages, would give each rank
// another norm, and the averaged ones would be limited apart. A norm on a GPU is not fetched for
// it.
void declare_norm_used(const std::vector<Tensor>& params, const Array& norm, double limit) {
  if (norm.device().type != DeviceType::cpu || std::isinf(limit)) return;
  declare(params, [&] {
    char text[96];
    (void)std::snprintf(text, sizeof(text), "limit gradients of norm %.7g", norm.item<double>());
    return std::string(text);
  });
}

}  // namespace

Tensor grad_norm(const std::vector<Tensor>& parameters, double p) {
  check(p > 0.0, "clip_grad_norm: norm must be positive: ", p);
  const NoGrad no_grad;
  const std::vector<Tensor> params = optimizer_leaves(parameters);
  declare_norm(params, p);
  const Device device = device_of(params);
  if (std::isinf(p)) return Tensor(largest_magnitude(params, device));
  const ExactSum sum = power_sum(params, p, device);
  if (p == 2.0) return Tensor(sum.root_on(device));
  const Array value = sum.value_on(device);
  return Tensor(p == 1.0 ? value : core::map<k::Pow>(value, Scalar(1.0 / p)));
}

void clip_grads_with_norm(const std::vector<Tensor>& parameters, double max_norm,
                          const Tensor& total_norm) {
  check(total_norm.defined() && total_norm.numel() == 1,
        "clip_grads_with_norm: the norm must be a tensor of one element");
  const std::vector<Tensor> params = optimizer_leaves(parameters);
  const Array norm = total_norm.array().to(kFloat64).reshape({});
  declare_norm_used(params, norm, max_norm);
  std::vector<Array> gradients;
  for (const Tensor& param : params) {
    if (param.grad().defined()) gradients.push_back(param.grad().array());
  }
  const auto limit = [&](Device device, std::span<const Array> there) {
    core::backend(device).run(core::call::ClipNorm{there, norm.to(device), max_norm});
    if (device.type == DeviceType::cpu) return;
    for (const Array& g : there) g.storage().bump_version();  // nobody knows whether they changed
  };
  core::each_group(std::move(gradients), &Array::device, limit);
}

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm,
                      const ClipOptions& options) {
  check(max_norm >= 0.0, "clip_grad_norm: max_norm must be 0 or more: ", max_norm);
  const std::vector<Tensor> params = optimizer_leaves(parameters);
  declare_limit("clip_grad_norm", params, max_norm);
  const Tensor total = grad_norm(params, options.norm);
  if (options.error_if_nonfinite && total.device().type != DeviceType::meta) {
    check(std::isfinite(total.item()), "clip_grad_norm: the norm of the gradients is ",
          total.item(), "; look for the first loss that is not finite");
  }
  clip_grads_with_norm(params, max_norm, total);
  return total;
}

void clip_grad_value(const std::vector<Tensor>& parameters, double limit) {
  check(limit >= 0.0, "clip_grad_value: limit must be 0 or more: ", limit);
  const std::vector<Tensor> params = optimizer_leaves(parameters);
  declare_limit("clip_grad_value", params, limit);
  for (const Tensor& param : params) {
    const Tensor grad = param.grad();
    if (!grad.defined()) continue;
    core::map_into<k::Clamp>(grad.array(), grad.array(), Scalar(-limit), Scalar(limit));
  }
}

}  // namespace hero::optim
