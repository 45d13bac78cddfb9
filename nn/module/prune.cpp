// Masks of zeros and ones over parameters.
#include <algorithm>
#include <cmath>
#include <memory>
#include <unordered_set>

#include <hero/autograd/ops.h>
#include <hero/nn/parametrize.h>

namespace hero::nn::prune {

namespace {

// What gives and takes slots may only be called by classes of modules; this names it for all.
struct Access : Module {
  using Add = Tensor& (Module::*)(const std::string&, const Tensor&);
  using AddBuffer = Tensor& (Module::*)(const std::string&, const Tensor&, Slot::Kind);
  static void add_parameter(Module& module, const std::string& name, const Tensor& leaf) {
    (module.*static_cast<Add>(&Access::parameter))(name, leaf);
  }
  static void add_buffer(Module& module, const std::string& name, const Tensor& values) {
    (module.*static_cast<AddBuffer>(&Access::buffer))(name, values, Slot::Kind::buffer);
  }
  static void remove(Module& module, const std::string& name) {
    (module.*&Access::remove_parameter)(name + "_orig");
    (module.*&Access::remove_buffer)(name + "_mask");
  }
};

Slot* find(Module& module, const std::string& name) {
  for (const auto& [each, slot] : module.slots()) {
    if (each == name) return slot;
  }
  return nullptr;
}

// Multiplies before each call. The hooks of a mask that was removed take themselves away.
void multiply_before_calls(Module& module, const std::string& name, Slot& weight) {
  const auto before = std::make_shared<HookHandle>(), after = std::make_shared<HookHandle>();
  *before = module.register_forward_pre_hook(
      [=, &weight](Module& called, const Tensors& /*inputs*/) {
        const Slot* const original = find(called, name + "_orig");
        if (original == nullptr) {
          before->remove();
          after->remove();
        } else {
          weight.tensor = original->tensor * find(called, name + "_mask")->tensor;
        }
      },
      {.for_parameters = true});
  *after = module.register_forward_hook(
      [&weight](Module& /*called*/, const Tensors& /*inputs*/, const Tensors& /*outputs*/) {
        if (weight.kind != Slot::Kind::parameter) weight.tensor = weight.tensor.detach();
      },
      {.always_call = true, .for_parameters = true});
}

// The parameter, and the mask that it has, of ones if it is not pruned yet.
struct Pruned {
  Tensor original, mask;
  Pruned(const char* what, Module& module, const std::string& name) {
    const Slot* slot = find(module, name + "_orig");
    if (slot != nullptr) {
      original = slot->tensor.detach();
      mask = find(module, name + "_mask")->tensor;
      return;
    }
    slot = find(module, name);
    check(slot != nullptr && slot->kind == Slot::Kind::parameter && slot->tensor.defined(), what,
          ": ", module.type_name(), " has no parameter '", name, "'");
    check(slot->tensor.device().type != DeviceType::meta, what, ": ", module.type_name(), "'s ",
          name, " is on meta; materialize() the module before");
    original = slot->tensor.detach();
    mask = ones_like(original);
  }
};

void set_mask(Module& module, const std::string& name, const Tensor& mask) {
  const NoGrad no_grad;
  Slot* const found = find(module, name + "_mask");
  Slot& weight = *find(module, name);
  if (found != nullptr) {
    found->tensor.copy_(mask);
  } else {
    const Tensor leaf = weight.tensor;
    const bool trains = leaf.requires_grad();
    weight.kind = Slot::Kind::buffer_not_saved;
    Access::add_parameter(module, name + "_orig", leaf);
    Slot& original = *find(module, name + "_orig");
    original.tensor.requires_grad_(trains);
    original.init = weight.init;
    original.stream = weight.stream;
    weight.init = {};
    Access::add_buffer(module, name + "_mask", mask.clone());
    multiply_before_calls(module, name, weight);
  }
  weight.tensor = find(module, name + "_orig")->tensor.detach() * mask;
}

int64_t count_of(const char* what, const Scalar& amount, int64_t size) {
  if (is_floating(amount.dtype())) {
    const auto share = amount.to<double>();
    check(share >= 0.0 && share <= 1.0, what, ": a share of ", share, " is not between 0 and 1");
    return static_cast<int64_t>(std::nearbyint(share * static_cast<double>(size)));
  }
  const auto count = amount.to<int64_t>();
  check(count >= 0 && count <= size, what, ": ", count, " of ", size,
        " cannot be pruned; an amount is from 0 to their number, or a share");
  return count;
}

// The mask [units] without those of least importance, of those that it has.
Tensor without_least(const char* what, const Tensor& mask, const Tensor& importance,
                     const Scalar& amount) {
  const Tensor kept = ravel(nonzero(mask));
  const int64_t count = count_of(what, amount, kept.numel());
  const Tensor order = argsort(index_select(importance, 0, kept), 0);
  const Tensor dropped = index_select(kept, 0, slice(order, 0, 0, count));
  return scatter(mask, 0, dropped,
                 zeros({count}, {.dtype = mask.dtype(), .device = mask.device()}));
}

template <class Importance>
void prune_elements(const char* what, Module& module, const std::string& name, const Scalar& amount,
                    const Importance& importance) {
  const NoGrad no_grad;
  const Pruned at(what, module, name);
  const Tensor mask = without_least(what, ravel(at.mask), importance(ravel(at.original)), amount);
  set_mask(module, name, reshape(mask, at.mask.shape()));
}

// Slices count whose elements are not all pruned.
template <class Importance>
void prune_slices(const char* what, Module& module, const std::string& name, const Scalar& amount,
                  int64_t dim, const Importance& importance) {
  const NoGrad no_grad;
  const Pruned at(what, module, name);
  const int axis = normalize_dim(what, dim, at.mask.ndim());
  const auto rows = [&](const Tensor& x) {
    const Tensor first = movedim(x, axis, 0);
    return reshape(first, {first.size(0), -1});
  };
  const Tensor some = amax(rows(at.mask), {1});
  const Tensor mask = without_least(what, some, importance(rows(at.original * at.mask)), amount);
  Shape along = Shape::filled(at.mask.ndim(), 1);
  along[axis] = mask.size(0);
  set_mask(module, name, at.mask * reshape(mask, along));
}

Tensor random_for(const Tensor& x) {
  return rand({x.size(0)}, {.dtype = kFloat64, .device = x.device()});
}

}  // namespace

void identity(Module& module, const std::string& name) {
  set_mask(module, name, Pruned("identity", module, name).mask);
}

void random_unstructured(Module& module, const std::string& name, Scalar amount) {
  prune_elements("random_unstructured", module, name, amount, random_for);
}

void l1_unstructured(Module& module, const std::string& name, Scalar amount) {
  prune_elements("l1_unstructured", module, name, amount, [](const Tensor& x) { return abs(x); });
}

void random_structured(Module& module, const std::string& name, Scalar amount, int64_t dim) {
  prune_slices("random_structured", module, name, amount, dim, random_for);
}

void ln_structured(Module& module, const std::string& name, Scalar amount, double n, int64_t dim) {
  prune_slices("ln_structured", module, name, amount, dim,
               [n](const Tensor& rows) { return norm(rows, n, Dims{1}); });
}

void custom_from_mask(Module& module, const std::string& name, const Tensor& mask) {
  const Pruned at("custom_from_mask", module, name);
  check(mask.defined() && mask.shape() == at.mask.shape(), "custom_from_mask: a mask of shape ",
        mask.defined() ? mask.shape() : Shape(), " for ", module.type_name(), "'s ", name,
        " of shape ", at.mask.shape());
  set_mask(module, name, at.mask * (mask != 0).to(at.mask.dtype()));
}

void global_unstructured(const std::vector<std::pair<Module*, std::string>>& parameters,
                         Scalar amount) {
  const NoGrad no_grad;
  std::vector<Tensor> masks, sizes;
  std::vector<Shape> shapes;
  std::unordered_set<const hero::detail::TensorImpl*> known;
  for (const auto& [module, name] : parameters) {
    check(module != nullptr, "global_unstructured: the module of '", name, "' is null");
    const Pruned at("global_unstructured", *module, name);
    const Slot* const pruned = find(*module, name + "_orig");
    const Tensor leaf = (pruned != nullptr ? pruned : find(*module, name))->tensor;
    check(known.insert(leaf.impl()).second, "global_unstructured: parameter ", masks.size(), ", ",
          module->type_name(), "'s ", name,
          ", is given twice, or tied to one before it: its elements would count twice; name it "
          "once");
    masks.push_back(ravel(at.mask));
    sizes.push_back(ravel(abs(at.original)));
    shapes.push_back(at.mask.shape());
  }
  check(!masks.empty(), "global_unstructured: there are no parameters");
  const Tensor mask = without_least("global_unstructured", cat(masks), cat(sizes), amount);
  int64_t from = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [module, name] = parameters[i];
    const int64_t count = shapes[i].numel();
    set_mask(*module, name, reshape(slice(mask, 0, from, from + count), shapes[i]));
    from += count;
  }
}

void remove(Module& module, const std::string& name) {
  const Slot* const original = find(module, name + "_orig");
  check(original != nullptr, "remove: ", module.type_name(), "'s ", name, " is not pruned");
  const NoGrad no_grad;
  const Tensor leaf = original->tensor;
  leaf.copy_(leaf.detach() * find(module, name + "_mask")->tensor);
  Slot& weight = *find(module, name);
  weight.tensor = leaf;
  weight.init = original->init;
  weight.stream = original->stream;
  weight.kind = Slot::Kind::parameter;
  Access::remove(module, name);
}

bool is_pruned(Module& module) {
  const auto slots = module.slots();
  return std::any_of(slots.begin(), slots.end(), [&](const auto& slot) {
    const std::string& name = slot.first;
    return name.ends_with("_orig") && find(module, name.substr(0, name.size() - 5) + "_mask");
  });
}

}  // namespace hero::nn::prune
