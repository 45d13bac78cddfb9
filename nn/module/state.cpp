// Functions for all parameters and buffers of a module: modes, conversions, state dicts.
#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include <hero/autograd/sharding/partition.h>
#include <hero/autograd/sharding/replaced_values.h>
#include <hero/autograd/sharding/unreduced_gradients.h>
#include <hero/core/device/backend.h>
#include <hero/core/io/file.h>
#include <hero/core/threads/thread_state.h>
#include <hero/nn/module.h>
#include <hero/nn/module/load_names.h>

namespace hero::nn {

namespace {
thread_local int evaluating = 0;  // EvalScopes that live on this thread
[[maybe_unused]] const core::ThreadSlot<int> kEvaluatingSlot([] { return evaluating; },
                                                             [](int n) { evaluating = n; });
}  // namespace

EvalScope::EvalScope() { ++evaluating; }
EvalScope::~EvalScope() { --evaluating; }

// Other threads may be calling the modules meanwhile: each reads the mode before or after.
void Module::train(bool on) {
  for (Module* module : modules()) {
    std::atomic_ref<bool>(module->training_).store(on, std::memory_order_relaxed);
  }
}
bool Module::training() const {
  return evaluating == 0 && std::atomic_ref<bool>(training_).load(std::memory_order_relaxed);
}

void Module::requires_grad_(bool value) {
  for (const Tensor& p : parameters()) p.requires_grad_(value);
}

void Module::zero_grad(bool set_to_none) {
  const std::vector<Tensor> all = parameters();
  clear_unreduced_gradients(all, set_to_none);
  for (const Tensor& p : all) {
    if (!p.grad().defined()) continue;
    if (set_to_none) {
      p.set_grad({});
    } else {
      core::backend(p.device()).run(core::call::Fill{p.grad().array(), 0.0});
    }
  }
}

void Module::apply(const std::function<void(Module&)>& fn) {
  check_not_moved();
  if (replacement_) return replacement_->apply(fn);
  for (const auto& child : children_) child->apply(fn);
  fn(*this);
}

namespace {

// Each tensor once, with the first slot that holds it: tied parameters have several.
std::vector<Slot*> distinct(const Named<Slot*>& slots) {
  std::vector<Slot*> list;
  std::unordered_set<const hero::detail::TensorImpl*> known;
  for (const auto& [name, slot] : slots) {
    if (known.insert(slot->tensor.impl()).second) list.push_back(slot);
  }
  return list;
}

bool on_meta(const Tensor& tensor) { return tensor.device().type == DeviceType::meta; }

// Those of `slots` that somebody keeps in parts, with their owner.
class Kept {
 public:
  explicit Kept(const std::vector<Slot*>& slots) {
    std::unordered_map<const ParameterOwner*, size_t> places;
    for (const Slot* slot : slots) {
      const std::shared_ptr<ParameterOwner> kept = parameter_owner(slot->tensor);
      if (!kept) continue;
      const auto [place, fresh] = places.emplace(kept.get(), all_.size());
      if (fresh) all_.emplace_back(kept, Tensors());
      all_[place->second].second.push_back(slot->tensor);
    }
  }
  // Asks first, so that either everything is converted or nothing.
  void check_convertible(std::optional<Device> device) const {
    for (const auto& [owner, leaves] : all_) owner->check_convertible(leaves, device);
  }
  void convert(std::optional<DType> dtype, std::optional<Device> device) const {
    for (const auto& [owner, leaves] : all_) owner->convert(leaves, dtype, device);
  }

 private:
  std::vector<std::pair<std::shared_ptr<ParameterOwner>, Tensors>> all_;
};

// The whole of a shard has the values of its recipe; each rank draws its part of them.
void fill_slot(const Slot& slot, const Array& values) {
  const Partition* part = partition(slot.tensor);
  if (part == nullptr) return fill_part(slot.init, values, values.shape(), 0, slot.stream);
  const int64_t first = values.numel() > 0 ? part->first : 0;
  fill_part(slot.init, values, part->whole, part->boxes, first, slot.stream);
}

void check_no_shards(const char* what, const Named<Slot*>& slots) {
  for (const auto& [name, slot] : slots) {
    check(partition(slot->tensor) == nullptr, what, ": ", name, " is a shard, ",
          describe_part(slot->tensor),
          "; dist::save_full() and dist::load_full() write and read whole modules, "
          "dist::Checkpointer shards, and full_state_dict() gathers");
  }
}

}  // namespace

namespace {

void check_own(const char* op, const Named<Slot*>& slots, ValueUse use) {
  for (const auto& [name, slot] : slots) check_own_values(op, name, slot->tensor, use);
}

}  // namespace

void Module::to(DType dtype) {
  check(is_floating(dtype), "to: ", type_name(), " cannot become ", dtype,
        "; parameters need a floating dtype");
  const MemoryScope tag(MemoryTag::parameter);
  const std::vector<Slot*> all = distinct(slots());
  const Kept kept(all);
  kept.check_convertible({});
  kept.convert(dtype, {});
  for (Slot* slot : all) {
    const bool other = is_floating(slot->tensor.dtype()) && slot->tensor.dtype() != dtype;
    if (!other || parameter_owner(slot->tensor)) continue;
    const Array& values = slot->tensor.array();
    const LedgerScope ledger(on_meta(slot->tensor) ? values.storage().ledger() : current_ledger());
    slot->tensor.set_data(values.to(dtype));
  }
}

void Module::to(Device device) {
  const MemoryScope tag(MemoryTag::parameter);
  const std::vector<Slot*> all = distinct(slots());
  for (const Slot* slot : all) {
    check(!on_meta(slot->tensor) || device.type == DeviceType::meta, "to: parameters of ",
          type_name(), " lie on meta and have no values; use materialize()");
  }
  const Kept kept(all);
  kept.check_convertible(device);
  kept.convert({}, device);
  const LedgerScope ledger(device.type == DeviceType::meta ? planned_ledger() : current_ledger());
  for (Slot* slot : all) {
    if (!parameter_owner(slot->tensor)) slot->tensor.set_data(slot->tensor.array().to(device));
  }
}

void Module::reset_parameters() {
  for (Slot* slot : distinct(slots())) {
    if (!slot->init.fill) continue;
    slot->stream = default_generator().next();
    const Array& values = slot->tensor.array();
    fill_slot(*slot, values);
    if (!on_meta(slot->tensor)) values.storage().bump_version();
  }
}

void Module::materialize(Device device) {
  const bool planned = device.type == DeviceType::meta;
  const MemoryScope tag(MemoryTag::parameter);
  for (const auto& [name, slot] : slots()) {
    check(planned || !on_meta(slot->tensor) || slot->init.fill, "materialize: ", name,
          " has no recipe; give it values on a device before");
  }
  for (Slot* slot : distinct(slots())) {
    if (!on_meta(slot->tensor)) continue;
    if (planned) {
      slot->tensor.array().storage().charge_to(current_ledger());
      continue;
    }
    const Array values = Array::empty(slot->tensor.shape(), slot->tensor.dtype(), device);
    fill_slot(*slot, values);
    slot->tensor.set_data(values);
  }
}

StateDict Module::state_dict() const {
  StateDict dict;
  const Named<Slot*> all = const_cast<Module*>(this)->slots();
  check_no_shards("state_dict", all);
  check_own("state_dict", all, ValueUse::save);
  for (const auto& [name, slot] : all) {
    if (slot->kind != Slot::Kind::buffer_not_saved) dict.push_back({name, slot->tensor.array()});
  }
  return dict;
}

namespace {

// Pairs names and arrays; fills in the result and what has the wrong shape.
struct Match {
  std::vector<std::pair<std::string, Slot*>> slots_found;
  std::vector<const Array*> arrays;  // of each
  LoadResult result;
  detail::MisShaped mis_shaped;

  Match(const StateDict& dict, const Named<Slot*>& slots) {
    std::vector<std::string> of_state, of_module;
    for (const auto& entry : dict) of_state.push_back(entry.name);
    for (const auto& [name, slot] : slots) of_module.push_back(name);
    result.stripped = detail::wrapper_of(of_state, of_module);
    std::unordered_map<std::string_view, size_t> places;  // the first of each name
    for (size_t i = 0; i < dict.size(); ++i) places.emplace(dict[i].name, i);
    std::vector<bool> used(dict.size(), false);
    std::vector<std::pair<std::string, const Slot*>> absent;
    for (const auto& [name, slot] : slots) {
      if (slot->kind == Slot::Kind::buffer_not_saved) continue;
      const auto place = places.find(result.stripped + name);
      if (place == places.end()) {
        absent.emplace_back(name, slot);
        continue;
      }
      used[place->second] = true;
      pair(name, slot, dict[place->second].array);
    }
    std::unordered_set<const hero::detail::TensorImpl*> found;
    for (const auto& [name, slot] : slots_found) found.insert(slot->tensor.impl());
    for (const auto& [name, slot] : absent) {
      const bool tied = found.contains(slot->tensor.impl());
      if (!tied) result.missing.push_back(name);
    }
    for (size_t i = 0; i < dict.size(); ++i) {
      if (!used[i]) result.unexpected.push_back(dict[i].name);
    }
  }

  void pair(const std::string& name, Slot* slot, const Array& array) {
    if (array.shape() == slot->tensor.shape()) {
      slots_found.emplace_back(name, slot);
      arrays.push_back(&array);
    } else {
      mis_shaped.add(name, array.shape(), slot->tensor.shape());
    }
  }

  // A tensor has one value, under whichever of its names a state has it.
  void check_tied(const std::string& target) const {
    std::unordered_map<const hero::detail::TensorImpl*, size_t> firsts;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const auto& [name, slot] = slots_found[i];
      const auto [first, fresh] = firsts.emplace(slot->tensor.impl(), i);
      if (fresh) continue;
      if (!detail::same_values(*arrays[first->second], *arrays[i], slot->tensor.dtype())) {
        detail::fail_tied("load_state_dict", target, slots_found[first->second].first, name);
      }
    }
  }
};

}  // namespace

LoadResult Module::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  const Named<Slot*> all = slots();
  check_no_shards("load_state_dict", all);
  check_own("load_state_dict", all, ValueUse::load);
  const Match match(dict, all);
  detail::check_fits(type_name(), match.result, match.mis_shaped, options);
  match.check_tied(type_name());
  const NoGrad no_grad;
  const MemoryScope tag(MemoryTag::parameter);
  for (size_t i = 0; i < match.arrays.size(); ++i) {
    const Tensor& tensor = match.slots_found[i].second->tensor;
    const Array& array = *match.arrays[i];
    if (on_meta(tensor) && array.device().type != DeviceType::meta) {
      tensor.set_data(Array::empty(array.shape(), tensor.dtype(), kCpu));
    }
    tensor.copy_(Tensor(array));
  }
  return match.result;
}

void Module::save(const std::string& path) const {
  const StateDict dict = state_dict();
  core::save_safetensors(path, dict);
}

LoadResult Module::load(const std::string& path, const LoadOptions& options) {
  check(
      !is_folder(path), "load: ", path, " is a folder; name a file in it (such as ", path,
      "/model.safetensors), or read all of its files, a checkpoint's too, with dist::load_full(\"",
      path, "\", dist::Communicator(), model)");
  const core::SafetensorsReader file(path);
  StateDict dict;
  for (const auto& entry : file.entries()) dict.push_back({entry.name, file.load(entry.name)});
  // a name with a wrapper's prefix counts as the module's, so that none is passed over in silence
  std::unordered_set<std::string> own;
  if (!file.unreadable().empty()) {
    for (const auto& [name, slot] : slots()) own.insert(name);
  }
  const auto is_own = [&](std::string given) {
    for (size_t dot = 0; !own.contains(given); given.erase(0, dot + 1)) {
      dot = given.find('.');
      if (dot == std::string::npos) return false;
    }
    return true;
  };
  for (const auto& [name, dtype] : file.unreadable()) {
    check(!options.strict && !is_own(name), "load: ", path, ": tensor '", name, "' has dtype '",
          dtype, "', which Hero does not have; ",
          is_own(name) ? "convert it first" : "remove it, or load with strict = false");
  }
  LoadResult result = load_state_dict(dict, options);
  for (const auto& [name, dtype] : file.unreadable()) result.unexpected.push_back(name);
  return result;
}

}  // namespace hero::nn
