#include <memory>
#include <vector>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/ops.h>
#include <hero/nn/conv.h>
#include <hero/nn/parametrize.h>

namespace hero::nn::detail {

namespace {

// Module::adopt() is protected; this class makes it accessible for the functions below.
struct Adopter : Module {
  static Module& adopt_in(Module& parent, const std::string& name, std::unique_ptr<Module> child) {
    return (parent.*&Adopter::adopt)(name, std::move(child));
  }
  static void remove_from(Module& parent, const std::string& name) {
    (parent.*&Adopter::remove_child)(name);
  }
};

// A module that only holds parameters and buffers, and is printed under a name of its own. That of
// a weight knows how it is computed, and the hooks that do so.
class Container : public Module {
 public:
  std::function<Tensor(Module&)> compute;
  std::vector<HookHandle> hooks;
  bool takes_further = false;  // modules of the user, one after the other
  explicit Container(std::string type) : type_(std::move(type)) {}
  std::string type_name() const override { return type_; }
  using Module::buffer;
  using Module::parameter;

 private:
  std::string type_;
};

Container& add_container(Module& parent, const std::string& name, const std::string& type) {
  return static_cast<Container&>(
      Adopter::adopt_in(parent, name, std::make_unique<Container>(type)));
}

Slot& slot_of(Module& module, const std::string& name) {
  for (const auto& [each, slot] : module.slots()) {
    if (each == name) return *slot;
  }
  fail(module.type_name(), ": has no tensor '", name, "'");
}

// The parameter of this name, which is about to be computed from others.
Slot& computed_slot(const char* what, Module& module, const std::string& name) {
  const std::string known = "parametrizations." + name + ".";
  for (const auto& [each, slot] : module.slots()) {
    check(!each.starts_with(known), what, ": ", module.type_name(), "'s ", name,
          " has a parametrization already");
  }
  const Tensor weight = module.get_parameter(name);
  check(weight.device().type != DeviceType::meta, what, ": ", module.type_name(), "'s ", name,
        " is on meta; materialize() the module before");
  return slot_of(module, name);
}

// The module that keeps what the weight is computed from.
Container& add_list(Module& module, const std::string& name) {
  for (const auto& [each, child] : module.named_children()) {
    if (each == "parametrizations") return add_container(*child, name, "ParametrizationList");
  }
  return add_container(add_container(module, "parametrizations", "ModuleDict"), name,
                       "ParametrizationList");
}

// Moves a parameter into the list: the same tensor, with its recipe.
Slot& move_parameter(Slot& from, Container& list, const std::string& name) {
  const bool trains = from.tensor.requires_grad();
  list.parameter(name, from.tensor);
  Slot& to = slot_of(list, name);
  to.tensor.requires_grad_(trains);
  to.init = from.init;
  to.stream = from.stream;
  from.init = {};
  from.kind = Slot::Kind::buffer_not_saved;
  from.tensor = to.tensor.detach().clone();
  return to;
}

// Computes `weight` before each call of the module, and keeps only its values after it.
void compute_before_calls(Module& module, Slot& weight, Container& list,
                          std::function<Tensor(Module&)> compute) {
  {
    const NoGrad no_grad;
    weight.tensor = compute(module);
  }
  list.compute = compute;
  list.hooks.push_back(module.register_forward_pre_hook(
      [&weight, compute = std::move(compute)](Module& called, const Tensors& /*inputs*/) {
        weight.tensor = compute(called);
      },
      {.for_parameters = true}));
  list.hooks.push_back(module.register_forward_hook(
      [&weight](Module& /*called*/, const Tensors& /*inputs*/, const Tensors& /*outputs*/) {
        weight.tensor = weight.tensor.detach();
      },
      {.always_call = true, .for_parameters = true}));
}

Module* child_of(Module& module, const std::string& name) {
  for (const auto& [each, child] : module.named_children()) {
    if (each == name) return child;
  }
  return nullptr;
}

bool is_transposed(const Module& module) {
  return dynamic_cast<const ConvTranspose1d*>(&module) != nullptr ||
         dynamic_cast<const ConvTranspose2d*>(&module) != nullptr ||
         dynamic_cast<const ConvTranspose3d*>(&module) != nullptr;
}

int64_t dim_of(const char* what, int64_t dim, const Tensor& weight) {
  check(dim >= -weight.ndim() && dim < weight.ndim(), what, ": dim ", dim,
        " is out of range for shape ", weight.shape());
  return dim < 0 ? dim + weight.ndim() : dim;
}

void iterate(const Tensor& matrix, const Tensor& u, const Tensor& v, int64_t times, double eps) {
  const NoGrad no_grad;
  for (int64_t i = 0; i < times; ++i) {
    u.copy_(normalize(mv(matrix, v), 2.0, 0, eps));
    v.copy_(normalize(mv(matrix.t(), u), 2.0, 0, eps));
  }
}

}  // namespace

void add_spectral_norm(Module& module, const SpectralNormOptions& options) {
  check(options.n_power_iterations > 0,
        "spectral_norm: n_power_iterations must be positive: ", options.n_power_iterations);
  Slot& weight = computed_slot("spectral_norm", module, options.name);
  check(weight.tensor.ndim() > 0 && weight.tensor.numel() > 0,
        "spectral_norm: ", module.type_name(), "'s ", options.name, " of shape ",
        weight.tensor.shape(), " has no singular value");
  const int64_t dim =
      dim_of("spectral_norm", options.dim.value_or(is_transposed(module) ? 1 : 0), weight.tensor);
  const int64_t iterations = options.n_power_iterations;
  const double eps = options.eps;
  Container& list = add_list(module, options.name);
  const Slot& original = move_parameter(weight, list, "original");
  Container& norm = add_container(list, "0", "_SpectralNorm");
  if (weight.tensor.ndim() == 1) {
    return compute_before_calls(module, weight, list, [&original, eps](Module&) {
      return normalize(original.tensor, 2.0, 0, eps);
    });
  }
  const auto as_matrix = [dim](const Tensor& x) { return x.movedim(dim, 0).flatten(1); };
  {
    const NoGrad no_grad;
    const Tensor matrix = as_matrix(original.tensor);
    const TensorOptions like{.dtype = matrix.dtype(), .device = matrix.device()};
    const Tensor& u = norm.buffer("_u", normalize(randn({matrix.size(0)}, like), 2.0, 0, eps));
    const Tensor& v = norm.buffer("_v", normalize(randn({matrix.size(1)}, like), 2.0, 0, eps));
    iterate(matrix, u, v, 15, eps);
  }
  const Slot &u = slot_of(norm, "_u"), &v = slot_of(norm, "_v");
  compute_before_calls(module, weight, list, [=, &original, &u, &v](Module& called) {
    const Tensor matrix = as_matrix(original.tensor);
    // What a checkpoint runs again is computed with the vectors of the first run.
    if (called.training() && !recomputing()) iterate(matrix, u.tensor, v.tensor, iterations, eps);
    return original.tensor / dot(u.tensor.clone(), mv(matrix, v.tensor.clone()));
  });
}

void add_weight_norm(Module& module, const WeightNormOptions& options) {
  Slot& weight = computed_slot("weight_norm", module, options.name);
  Dims others;
  if (options.dim) {
    const int64_t dim = dim_of("weight_norm", *options.dim, weight.tensor);
    for (int64_t i = 0; i < weight.tensor.ndim(); ++i) {
      if (i != dim) others.push_back(i);
    }
  }
  const bool per_slice = options.dim.has_value();
  const auto length = [=](const Tensor& v) {
    if (per_slice && others.empty()) return abs(v);
    return per_slice ? norm(v, 2.0, others, true) : norm(v);
  };
  Container& list = add_list(module, options.name);
  add_container(list, "0", "_WeightNorm");
  Tensor lengths;
  {
    const NoGrad no_grad;
    lengths = length(weight.tensor).clone();
  }
  const bool trains = weight.tensor.requires_grad();
  list.parameter("original0", lengths);
  const Slot& v = move_parameter(weight, list, "original1");
  const Slot& g = slot_of(list, "original0");
  g.tensor.requires_grad_(trains);
  compute_before_calls(module, weight, list, [&g, &v, length](Module&) {
    return v.tensor * (g.tensor / length(v.tensor));
  });
}

void add_parametrization(Module& module, const std::string& name,
                         std::unique_ptr<Module> function) {
  constexpr auto kName = "register_parametrization";
  Module* const all = child_of(module, "parametrizations");
  auto* list = all != nullptr ? dynamic_cast<Container*>(child_of(*all, name)) : nullptr;
  {
    const NoGrad no_grad;
    const Tensor now = slot_of(module, name).tensor, made = (*function)(now.detach());
    check(made.shape() == now.shape(), kName, ": ", module.type_name(), "'s ", name, " of shape ",
          now.shape(), " becomes ", made.shape());
  }
  if (list != nullptr && list->takes_further) {
    Adopter::adopt_in(*list, std::to_string(list->children().size()), std::move(function));
    const NoGrad no_grad;
    slot_of(module, name).tensor = list->compute(module);
    return;
  }
  Slot& weight = computed_slot(kName, module, name);
  list = &add_list(module, name);
  list->takes_further = true;
  const Slot& original = move_parameter(weight, *list, "original");
  Adopter::adopt_in(*list, "0", std::move(function));
  compute_before_calls(module, weight, *list, [list, &original](Module& /*called*/) {
    Tensor value = original.tensor;
    for (Module* each : list->children()) value = (*each)(value);
    return value;
  });
}

}  // namespace hero::nn::detail

namespace hero::nn {

void remove_parametrizations(Module& module, const std::string& name) {
  Module* const all = detail::child_of(module, "parametrizations");
  auto* const list = all ? dynamic_cast<detail::Container*>(detail::child_of(*all, name)) : nullptr;
  check(list != nullptr, "remove_parametrizations: ", module.type_name(), "'s ", name,
        " has no parametrization");
  bool trains = false;
  for (const Tensor& parameter : list->parameters()) trains = trains || parameter.requires_grad();
  Slot& weight = detail::slot_of(module, name);
  {
    const NoGrad no_grad;
    weight.tensor = list->compute(module).detach().clone();
  }
  weight.tensor.requires_grad_(trains);
  weight.kind = Slot::Kind::parameter;
  for (HookHandle& hook : list->hooks) hook.remove();
  detail::Adopter::remove_from(*all, name);
  if (all->children().empty()) detail::Adopter::remove_from(module, "parametrizations");
}

bool is_parametrized(Module& module, const std::string& name) {
  Module* const all = detail::child_of(module, "parametrizations");
  return all != nullptr && (name.empty() || detail::child_of(*all, name) != nullptr);
}

}  // namespace hero::nn
