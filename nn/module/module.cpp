#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <sstream>
#include <typeinfo>
#include <unordered_set>

#include <cxxabi.h>

#include <hero/core/io/name_list.h>
#include <hero/nn/module.h>

namespace hero::nn {

namespace {

// Set by Building for the next Module constructor on this thread.
struct Pending {
  uint64_t seed;
  std::string path;
};
thread_local std::unique_ptr<Pending> pending;

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

}  // namespace

// [note: first values] A root module draws one stream of the thread's generator; each parameter's
// stream follows from it and the parameter's full name. The slot keeps stream and recipe, so that
// what was built on meta can be filled later, in parts, with the same numbers.
Module::Module() {
  if (!pending) return;
  origin_ = {pending->seed, std::move(pending->path), true};
  path_ = origin_.path.substr(0, origin_.path.size() - 1);
  pending.reset();
}

Module::Building::Building(Module& parent, const std::string& name) {
  parent.check_name("module", name);
  static_cast<void>(parent.stream_of(""));  // seeds the root
  pending =
      std::make_unique<Pending>(Pending{parent.origin_.seed, parent.origin_.path + name + "."});
}
Module::Building::~Building() { pending.reset(); }

RandomStream Module::stream_of(const std::string& name) {
  if (!origin_.seeded) {
    fill_bits(std::span<uint64_t>(&origin_.seed, 1), default_generator().next(), 0);
    origin_.seeded = true;
  }
  return named_stream(origin_.seed, origin_.path + name);
}

Tensor Module::forward(const Tensor& /*x*/) {
  fail(type_name(), ": has no forward of one tensor; override forward or call it as it documents");
}

void Module::check_name(const char* what, const std::string& name) const {
  check_not_moved();
  if (name.empty() || name.find('.') != std::string::npos) {
    fail(type_name(), ": ", what, " name '", name, "' must be neither empty nor hold a dot");
  }
  if (members_.contains(name)) fail(type_name(), ": '", name, "' is there already");
}

Module& Module::adopt(const std::string& name, std::unique_ptr<Module> child) {
  check_name("module", name);
  if (child == nullptr) fail(type_name(), ": module '", name, "' is null");
  child->name_ = name;
  child->set_path(joined(path_, name));
  children_.push_back(std::move(child));
  members_[name] = {.child = children_.back().get()};
  return *children_.back();
}

void Module::set_path(const std::string& path) {
  path_ = path;
  for (const auto& child : children_) child->set_path(joined(path, child->name_));
  if (replacement_) replacement_->set_path(path);
}

Module& Module::replace(const std::string& path, std::unique_ptr<Module> module) {
  check(module != nullptr, "replace: the module for '", path, "' is null");
  const size_t dot = path.rfind('.');
  Module& parent = get_submodule(dot == std::string::npos ? "" : path.substr(0, dot));
  const std::string name = path.substr(dot == std::string::npos ? 0 : dot + 1);
  Module* const child = parent.member(name).child;
  if (child == nullptr) {
    fail("replace: ", parent.type_name(), " has no module '", name, "'",
         path == name ? "" : ", in " + path.substr(0, dot));
  }
  const Module& old = child->current();
  check(!old.hooks_ || !old.has_hooks(), "replace: ", path, " has hooks, which the new ",
        module->type_name(),
        " would not; replace it before they are registered (and before DDP, "
        "ZeRO, fully_shard() or tensor_parallel()), or remove them");
  module->name_ = name;
  module->set_path(child->path_);
  child->replacement_ = std::move(module);
  child->called_alone_ = true;
  return *child->replacement_;
}

Tensor& Module::add_slot(Slot slot) {
  check_name(slot.kind == Slot::Kind::parameter ? "parameter" : "buffer", slot.name);
  slots_.push_back(std::make_unique<Slot>(std::move(slot)));
  Slot& added = *slots_.back();
  members_[added.name] = {.slot = &added};
  return added.tensor;
}

namespace {

// What is made on meta is a plan: a rank never holds it, but what it is filled or cut into.
LedgerScope planned_on_meta() {
  return LedgerScope(DeviceScope::current() == kMeta ? planned_ledger() : current_ledger());
}

Tensor first_tensor(const Slot& slot, const Shape& shape, DType dtype) {
  const MemoryScope tag(MemoryTag::parameter);
  const LedgerScope ledger = planned_on_meta();
  const Array values = Array::empty(shape, dtype, DeviceScope::current());
  fill_part(slot.init, values, shape, 0, slot.stream);
  return Tensor(values, slot.kind == Slot::Kind::parameter);
}

}  // namespace

Tensor& Module::parameter(const std::string& name, const Shape& shape, const Init& init,
                          DType dtype) {
  if (!is_floating(dtype)) {
    fail(type_name(), ": parameter '", name, "' needs a floating dtype, not ", dtype);
  }
  Slot slot{name, {}, init, stream_of(name), Slot::Kind::parameter};
  slot.tensor = first_tensor(slot, shape, dtype);
  return add_slot(std::move(slot));
}

Tensor& Module::parameter(const std::string& name, const Tensor& leaf) {
  if (!leaf.defined() || !leaf.is_leaf()) {
    fail(type_name(), ": parameter '", name, "' is not a leaf; give it detached values");
  }
  leaf.requires_grad_();
  return add_slot({name, leaf, {}, {}, Slot::Kind::parameter});
}

Tensor& Module::no_parameter(const std::string& name) {
  return add_slot({name, {}, {}, {}, Slot::Kind::parameter});
}

void Module::remove_slot(const std::string& name, bool parameter) {
  Slot* const removed = member(name).slot;
  check(removed != nullptr && (removed->kind == Slot::Kind::parameter) == parameter, type_name(),
        ": has no ", parameter ? "parameter" : "buffer", " '", name, "' of its own");
  members_.erase(name);
  std::erase_if(slots_, [&](const auto& slot) { return slot.get() == removed; });
}
void Module::remove_parameter(const std::string& name) { remove_slot(name, true); }
void Module::remove_buffer(const std::string& name) { remove_slot(name, false); }

void Module::remove_child(const std::string& name) {
  Module* const removed = member(name).child;
  check(removed != nullptr, type_name(), ": has no module '", name, "' of its own");
  members_.erase(name);
  std::erase_if(children_, [&](const auto& child) { return child.get() == removed; });
}

Tensor& Module::buffer(const std::string& name, const Shape& shape, const Init& init, DType dtype,
                       Slot::Kind kind) {
  Slot slot{name, {}, init, stream_of(name), kind};
  slot.tensor = first_tensor(slot, shape, dtype);
  return add_slot(std::move(slot));
}

Tensor& Module::buffer(const std::string& name, const Tensor& values, Slot::Kind kind) {
  const LedgerScope ledger = planned_on_meta();
  return add_slot({name, values.to(DeviceScope::current()), {}, {}, kind});
}

template <class Visit>
void Module::visit(const std::string& prefix, Visit&& visit_module) {
  check_not_moved();
  if (replacement_) return replacement_->visit(prefix, visit_module);
  visit_module(prefix, *this);
  for (const auto& child : children_) child->visit(joined(prefix, child->name_), visit_module);
  for (const auto& [name, module] : referred_) module->visit(joined(prefix, name), visit_module);
}

void Module::refer_to(const std::string& name, Module& module) {
  check_not_moved();
  const auto known = std::find_if(referred_.begin(), referred_.end(),
                                  [&](const auto& other) { return other.first == name; });
  if (known != referred_.end()) {
    known->second = &module;
  } else {
    referred_.emplace_back(name, &module);
  }
}

Named<Slot*> Module::slots() {
  Named<Slot*> all;
  visit("", [&](const std::string& prefix, Module& module) {
    for (const auto& slot : module.slots_) {
      if (!slot->tensor.defined()) continue;
      const std::string name = joined(prefix, slot->name);
      check(slot->tensor.is_leaf(), "module: ", name, " of ", type_name(),
            " was replaced by a computed tensor; write values with copy_ while NoGrad lives");
      check(
          slot->kind != Slot::Kind::parameter || slot->tensor.impl()->is_requires_grad_set,
          "module: ", name, " of ", type_name(),
          " was replaced by a tensor that does not require grad, and would not be trained; assign "
          "tensor.requires_grad_(), or tensor.requires_grad_(false) if that is meant");
      all.emplace_back(name, slot.get());
    }
  });
  return all;
}

namespace {

Named<Tensor> tensors_of(const Named<Slot*>& slots, bool parameters) {
  Named<Tensor> list;
  std::unordered_set<const hero::detail::TensorImpl*> known;
  for (const auto& [name, slot] : slots) {
    if ((slot->kind == Slot::Kind::parameter) != parameters) continue;
    if (known.insert(slot->tensor.impl()).second) list.emplace_back(name, slot->tensor);
  }
  return list;
}

template <class T>
std::vector<T> without_names(const Named<T>& list) {
  std::vector<T> values;
  values.reserve(list.size());
  for (const auto& [name, value] : list) values.push_back(value);
  return values;
}

}  // namespace

Named<Tensor> Module::named_parameters() const {
  return tensors_of(const_cast<Module*>(this)->slots(), true);
}
Tensors Module::parameters() const { return without_names(named_parameters()); }
Named<Tensor> Module::named_buffers() const {
  return tensors_of(const_cast<Module*>(this)->slots(), false);
}
Tensors Module::buffers() const { return without_names(named_buffers()); }

Named<Module*> Module::named_children() const {
  check_not_moved();
  Named<Module*> list;
  for (const auto& child : children_) list.emplace_back(child->name_, &child->current());
  return list;
}
std::vector<Module*> Module::children() const { return without_names(named_children()); }

Named<Module*> Module::named_modules() {
  Named<Module*> list;
  visit("", [&](const std::string& path, Module& module) { list.emplace_back(path, &module); });
  return list;
}
std::vector<Module*> Module::modules() { return without_names(named_modules()); }

int64_t Module::parameter_count(bool trainable_only) const {
  int64_t count = 0;
  for (const Tensor& p : parameters()) {
    if (!trainable_only || p.requires_grad()) count += p.numel();
  }
  return count;
}

// The module at a path, without a list of all; null where a step of the path is no child.
Module* Module::find_module(std::string_view path) {
  Module* at = &current();
  at->check_not_moved();
  for (size_t begin = 0, end = 0; !path.empty() && begin <= path.size(); begin = end + 1) {
    end = std::min(path.find('.', begin), path.size());
    Module* const child = at->member(std::string(path.substr(begin, end - begin))).child;
    if (child == nullptr) return nullptr;
    at = &child->current();
  }
  return at;
}

Module& Module::get_submodule(const std::string& path) {
  if (Module* const found = find_module(path)) return *found;
  core::NameList known;
  for (const auto& [name, module] : named_modules()) {
    if (name == path) return *module;
    if (!name.empty()) known.add(name);
  }
  fail("get_submodule: ", type_name(), " has no module '", path, "'; there are: ", known.text());
}

Slot* Module::find_slot(const std::string& path, bool parameter) {
  const size_t dot = path.rfind('.');
  const std::string_view parent = std::string_view(path).substr(0, dot == path.npos ? 0 : dot);
  if (const Module* const module = find_module(parent)) {
    Slot* const slot = module->member(path.substr(dot == path.npos ? 0 : dot + 1)).slot;
    const bool is_wanted = slot != nullptr && slot->tensor.defined() && slot->tensor.is_leaf() &&
                           (slot->kind == Slot::Kind::parameter) == parameter;
    if (is_wanted) return slot;
  }
  core::NameList known;
  for (const auto& [name, slot] : slots()) {
    if ((slot->kind == Slot::Kind::parameter) != parameter) continue;
    if (name == path) return slot;
    known.add(name);
  }
  fail(parameter ? "get_parameter: " : "get_buffer: ", type_name(), " has no '", path,
       "'; there are: ", known.text());
}
Tensor Module::get_parameter(const std::string& path) { return find_slot(path, true)->tensor; }
Tensor Module::get_buffer(const std::string& path) { return find_slot(path, false)->tensor; }

std::string Module::type_name() const {
  int status = 0;
  char* text = abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status);
  std::string full = status == 0 ? text : typeid(*this).name();
  std::free(text);
  full = full.substr(0, full.find('<'));
  const size_t colon = full.rfind(':');
  return colon == std::string::npos ? full : full.substr(colon + 1);
}

// Prints the tree; a friend, as names of children are enough for nobody else.
class ModuleWriter {
 public:
  static bool is_parametrized(const Module& module) {
    return module.members_.contains("parametrizations");
  }
  static std::string text(const Module& given, int depth) {
    const Module& module = given.current();
    module.check_not_moved();
    const std::string indent(static_cast<size_t>(2 * depth + 2), ' ');
    const std::string options = module.extra_repr();
    std::string out = (is_parametrized(module) ? "Parametrized" : "") + module.type_name() + "(";
    if (module.children_.empty() && options.find('\n') == std::string::npos) {
      return out + options + ")";
    }
    // Options beside children, or of several lines, have lines of their own.
    std::istringstream lines(options);
    for (std::string line; std::getline(lines, line);) out += "\n" + indent + line;
    // In a list, neighbours with the same text are one line.
    const bool folds = module.type_name() == "ModuleList";
    const size_t count = module.children_.size();
    for (size_t first = 0, end; first < count; first = end) {
      const std::string child = text(*module.children_[first], depth + 1);
      end = first + 1;
      while (folds && end < count && text(*module.children_[end], depth + 1) == child) ++end;
      out += "\n" + indent + "(" + module.children_[first]->name_;
      if (end - first > 1) out += "-" + module.children_[end - 1]->name_;
      out += "): " + (end - first > 1 ? std::to_string(end - first) + " x " + child : child);
    }
    return out + "\n" + std::string(static_cast<size_t>(2 * depth), ' ') + ")";
  }
};

std::string to_string(const Module& module) { return ModuleWriter::text(module, 0); }
std::ostream& operator<<(std::ostream& out, const Module& module) {
  return out << to_string(module);
}

}  // namespace hero::nn
