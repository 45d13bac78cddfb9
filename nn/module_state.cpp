// What is done to all parameters and buffers of a module: modes, conversions, state dicts.
#include <algorithm>
#include <atomic>

#include <hero/core/backend.h>
#include <hero/nn/module.h>

namespace hero::nn {

namespace {
thread_local int evaluating = 0;  // EvalScopes that live on this thread
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
  for (const Tensor& p : parameters()) {
    if (!p.grad().defined()) continue;
    if (set_to_none) {
      p.set_grad({});
    } else {
      core::backend(p.device()).fill(p.grad().array(), 0.0);
    }
  }
}

void Module::apply(const std::function<void(Module&)>& fn) {
  for (const auto& child : children_) child->apply(fn);
  fn(*this);
}

namespace {

// Each tensor once, with the first slot that holds it: tied parameters have several.
std::vector<Slot*> distinct(const Named<Slot*>& slots) {
  std::vector<Slot*> list;
  for (const auto& [name, slot] : slots) {
    const bool known = std::any_of(list.begin(), list.end(), [&, s = slot](const Slot* other) {
      return is_same(other->tensor, s->tensor);
    });
    if (!known) list.push_back(slot);
  }
  return list;
}

bool on_meta(const Tensor& tensor) { return tensor.device().type == DeviceType::meta; }

}  // namespace

void Module::to(DType dtype) {
  check(is_floating(dtype), "to: ", type_name(), " cannot become ", dtype,
        "; parameters need a floating dtype");
  const MemoryScope tag(MemoryTag::parameter);
  for (Slot* slot : distinct(slots())) {
    if (is_floating(slot->tensor.dtype()) && slot->tensor.dtype() != dtype) {
      slot->tensor.set_data(slot->tensor.array().to(dtype));
    }
  }
}

void Module::to(Device device) {
  const MemoryScope tag(MemoryTag::parameter);
  for (Slot* slot : distinct(slots())) {
    check(!on_meta(slot->tensor) || device.type == DeviceType::meta, "to: parameters of ",
          type_name(), " lie on meta and have no values; use materialize()");
    slot->tensor.set_data(slot->tensor.array().to(device));
  }
}

void Module::reset_parameters() {
  for (Slot* slot : distinct(slots())) {
    if (!slot->init.fill) continue;
    slot->stream = default_generator().next();
    const Array& values = slot->tensor.array();
    fill_part(slot->init, values, values.shape(), 0, slot->stream);
    if (!on_meta(slot->tensor)) values.storage().bump_version();
  }
}

void Module::materialize(Device device) {
  check(device.type != DeviceType::meta, "materialize: needs a device with bytes, not meta");
  const MemoryScope tag(MemoryTag::parameter);
  for (const auto& [name, slot] : slots()) {
    check(!on_meta(slot->tensor) || slot->init.fill, "materialize: ", name,
          " has no recipe; give it values on a device before");
  }
  for (Slot* slot : distinct(slots())) {
    if (!on_meta(slot->tensor)) continue;
    const Array values = Array::empty(slot->tensor.shape(), slot->tensor.dtype(), device);
    fill_part(slot->init, values, values.shape(), 0, slot->stream);
    slot->tensor.set_data(values);
  }
}

StateDict Module::state_dict() const {
  StateDict dict;
  for (const auto& [name, slot] : const_cast<Module*>(this)->slots()) {
    if (slot->kind != Slot::Kind::buffer_not_saved) dict.push_back({name, slot->tensor.array()});
  }
  return dict;
}

namespace {

constexpr const char* kWrappers[] = {"module.", "_orig_mod."};

// The wrapper's prefix that all names have, or "".
std::string wrapper_of(const StateDict& dict, const Named<Slot*>& slots) {
  for (const std::string prefix : kWrappers) {
    const auto starts = [&](const std::string& name) { return name.rfind(prefix, 0) == 0; };
    const bool wrapped = !dict.empty() && std::all_of(dict.begin(), dict.end(), [&](const auto& e) {
      return starts(e.name);
    });
    const bool own = std::any_of(slots.begin(), slots.end(),
                                 [&](const auto& slot) { return starts(slot.first); });
    if (wrapped && !own) return prefix;
  }
  return "";
}

std::string listed(const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string line = std::string("; ") + title + " ";
  for (size_t i = 0; i < names.size(); ++i) line += (i == 0 ? "" : ", ") + names[i];
  return line;
}

// Pairs names and arrays; fills in the result and what has the wrong shape.
struct Match {
  std::vector<std::pair<Slot*, const Array*>> pairs;
  LoadResult result;
  std::vector<std::string> mis_shaped;

  Match(const StateDict& dict, const Named<Slot*>& slots) {
    result.stripped = wrapper_of(dict, slots);
    std::vector<bool> used(dict.size(), false);
    std::vector<std::pair<std::string, const Slot*>> absent;
    for (const auto& [name, slot] : slots) {
      if (slot->kind == Slot::Kind::buffer_not_saved) continue;
      const auto entry = std::find_if(dict.begin(), dict.end(), [&, n = name](const auto& e) {
        return e.name == result.stripped + n;
      });
      if (entry == dict.end()) {
        absent.emplace_back(name, slot);
        continue;
      }
      used[static_cast<size_t>(entry - dict.begin())] = true;
      pair(name, slot, entry->array);
    }
    for (const auto& [name, slot] : absent) {
      const bool tied = std::any_of(pairs.begin(), pairs.end(), [s = slot](const auto& other) {
        return is_same(other.first->tensor, s->tensor);
      });
      if (!tied) result.missing.push_back(name);
    }
    for (size_t i = 0; i < dict.size(); ++i) {
      if (!used[i]) result.unexpected.push_back(dict[i].name);
    }
  }

  void pair(const std::string& name, Slot* slot, const Array& array) {
    if (array.shape() == slot->tensor.shape()) {
      pairs.emplace_back(slot, &array);
    } else {
      mis_shaped.push_back(name + " " + to_string(array.shape()) + " instead of " +
                           to_string(slot->tensor.shape()));
    }
  }
};

}  // namespace

LoadResult Module::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  const Match match(dict, slots());
  const LoadResult& result = match.result;
  const bool names_fail = options.strict && !(result.missing.empty() && result.unexpected.empty());
  check(!names_fail && match.mis_shaped.empty(), "load_state_dict: the state does not fit ",
        type_name(),
        listed("missing:", options.strict ? result.missing : std::vector<std::string>()),
        listed("unexpected:", options.strict ? result.unexpected : std::vector<std::string>()),
        listed("mis-shaped:", match.mis_shaped));
  const NoGrad no_grad;
  const MemoryScope tag(MemoryTag::parameter);
  for (const auto& [slot, array] : match.pairs) {
    if (on_meta(slot->tensor) && array->device().type != DeviceType::meta) {
      slot->tensor.set_data(Array::empty(array->shape(), slot->tensor.dtype(), kCpu));
    }
    slot->tensor.copy_(Tensor(*array));
  }
  return result;
}

void Module::save(const std::string& path) const {
  const StateDict dict = state_dict();
  core::save_safetensors(path, dict);
}

LoadResult Module::load(const std::string& path, const LoadOptions& options) {
  return load_state_dict(core::load_safetensors(path).arrays, options);
}

}  // namespace hero::nn
