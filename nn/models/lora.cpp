#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/core/io/name_list.h>
#include <hero/core/safetensors.h>
#include <hero/nn/lora.h>

namespace hero::nn {

namespace {

bool is_target(const std::string& path, const std::string& target) {
  return path == target || path.ends_with("." + target);
}

bool is_adapter(const std::string& name) {
  return is_target(name, "lora_A") || is_target(name, "lora_B");
}

std::vector<Linear*> adapted(const char* op, Module& model) {
  std::vector<Linear*> layers;
  for (Module* module : model.modules()) {
    auto* linear = dynamic_cast<Linear*>(module);
    if (linear != nullptr && linear->has_adapter()) layers.push_back(linear);
  }
  check(!layers.empty(), op, ": ", model.type_name(), " has no adapters; add_lora() adds them");
  return layers;
}

// The adapters' entries of the state, also if adapters are merged into the weights.
StateDict adapters_of(const char* op, const Module& model) {
  StateDict adapters;
  for (const auto& [name, slot] : const_cast<Module&>(model).slots()) {
    if (!is_adapter(name)) continue;
    check(partition(slot->tensor) == nullptr, op, ": ", name, " is a shard, ",
          describe_part(slot->tensor),
          "; DataParallel::full_state_dict() gathers, and lora_state_dict() takes the adapters");
    adapters.push_back({name, slot->tensor.array()});
  }
  return adapters;
}

// Where the elements of an array lie in its storage: the first byte, and the one after the last.
std::pair<int64_t, int64_t> bytes_of(const Array& x) {
  int64_t first = x.offset(), last = x.offset();
  for (int d = 0; d < x.ndim(); ++d) {
    const int64_t reach = (x.shape()[d] - 1) * x.strides()[d];
    (reach < 0 ? first : last) += reach;
  }
  return {first * item_size(x.dtype()), (last + 1) * item_size(x.dtype())};
}

// True if a write to one changes the other: they are one tensor, or lie in the same memory.
bool share_memory(const Tensor& a, const Tensor& b) {
  if (is_same(a, b)) return true;
  const Array &x = a.array(), &y = b.array();
  if (x.storage_ref() != y.storage_ref() || x.numel() == 0 || y.numel() == 0) return false;
  const auto [x_begin, x_end] = bytes_of(x);
  const auto [y_begin, y_end] = bytes_of(y);
  return x_begin < y_end && y_begin < x_end;
}

}  // namespace

// Adds adapters to the weights of a model's layers, and subtracts them again.
class AdapterMerger {
 public:
  AdapterMerger(const char* op, Module& model)
      : op_(op), slots_(model.slots()), layers_(adapted(op, model)) {
    for (const auto& [name, slot] : slots_) {
      names_.emplace(&slot->tensor, name);
      in_storage_[&slot->tensor.array().storage()].emplace_back(name, slot);
    }
  }

  // Either all layers are merged or none is.
  void merge() const {
    for (const Linear* layer : layers_) {
      if (!layer->adapter_->merged) check_writable(*layer);
    }
    for (Linear* layer : layers_) {
      Linear::Adapter& adapter = *layer->adapter_;
      if (adapter.merged) continue;
      const Tensor a = adapter.a->detach().clone(), b = adapter.b->detach().clone();
      add_to_weight(*layer, a, b, adapter.scale);
      adapter.merged.emplace(Linear::Merged{
          optimizer_leaves({layer->weight}).front(), a, b,
          ReplacedValuesScope(
              {layer->weight},
              {.what = "has an adapter merged into it, which its state would not tell; "
                       "unmerge_lora() takes it out, and merge_lora() followed by "
                       "remove_lora() leaves plain weights",
               .can_step = true})});
    }
  }

  void unmerge() const {
    for (const Linear* layer : layers_) {
      const auto& merged = layer->adapter_->merged;
      if (!merged) continue;
      check(is_same(merged->weight, optimizer_leaves({layer->weight}).front()), op_, ": ",
            name_of(*layer),
            " is another tensor than the one into which its adapter was merged, so that it cannot "
            "be taken out of it; remove_lora() removes it");
      check_writable(*layer);
    }
    for (Linear* layer : layers_) {
      Linear::Adapter& adapter = *layer->adapter_;
      if (!adapter.merged) continue;
      add_to_weight(*layer, adapter.merged->a, adapter.merged->b, -adapter.scale);
      adapter.merged.reset();
    }
  }

 private:
  std::string name_of(const Linear& layer) const {
    const auto found = names_.find(&layer.weight);
    return found != names_.end() ? std::string(found->second) : "weight";
  }
  void check_writable(const Linear& layer) const {
    check(partition(layer.weight) == nullptr && partition(*layer.adapter_->a) == nullptr, op_, ": ",
          name_of(layer), " is a shard, ", describe_part(layer.weight),
          "; merge adapters in a model that is whole, or within summon_full_parameters()");
    for (const auto& [name, slot] : in_storage_.at(&layer.weight.array().storage())) {
      if (&slot->tensor == &layer.weight || !share_memory(slot->tensor, layer.weight)) continue;
      fail(
          op_, ": ", name_of(layer), " is ", name,
          ", too (tied), which would change with it; leave the adapter unmerged, or give the layer "
          "a weight of its own before: layer.weight = "
          "layer.weight.detach().clone().requires_grad_()");
    }
  }
  static void add_to_weight(const Linear& layer, const Tensor& a, const Tensor& b, double scale) {
    const NoGrad no_grad;
    const auto like_weight = [&](const Tensor& x) {
      return x.to(layer.weight.dtype()).to(layer.weight.device());
    };
    layer.weight.add_(matmul(like_weight(b), like_weight(a)) * scale);
  }

  const char* op_;
  Named<Slot*> slots_;
  std::vector<Linear*> layers_;
  std::unordered_map<const Tensor*, std::string_view> names_;
  std::unordered_map<const core::Storage*, std::vector<std::pair<std::string_view, Slot*>>>
      in_storage_;
};

std::vector<std::string> add_lora(Module& model, const LoRAOptions& options) {
  check(!options.targets.empty(),
        "add_lora: no targets; name linear layers, such as {\"q_proj\", \"v_proj\"}");
  std::vector<Linear*> layers;
  std::unordered_set<const Linear*> chosen;
  std::vector<std::string> paths;
  const Named<Module*> modules = model.named_modules();
  for (const std::string& target : options.targets) {
    bool any = false;
    for (const auto& [path, module] : modules) {
      if (!is_target(path, target)) continue;
      any = true;
      auto* linear = dynamic_cast<Linear*>(module);
      check(linear != nullptr, "add_lora: '", path, "' is a ", module->type_name(),
            "; adapters are for Linear");
      check(!linear->has_adapter(), "add_lora: '", path, "' has an adapter already");
      if (!chosen.insert(linear).second) continue;
      layers.push_back(linear);
      paths.push_back(path);
    }
    check(any, "add_lora: ", model.type_name(), " has no module called '", target, "'");
  }
  model.requires_grad_(false);
  for (Linear* layer : layers) {
    layer->add_adapter({.rank = options.rank, .alpha = options.alpha, .dropout = options.dropout});
  }
  return paths;
}

std::vector<Tensor> lora_parameters(const Module& model) {
  std::vector<Tensor> list;
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (is_adapter(name)) list.push_back(parameter);
  }
  return list;
}

StateDict lora_state_dict(const StateDict& state) {
  StateDict adapters;
  for (const auto& entry : state) {
    if (is_adapter(entry.name)) adapters.push_back(entry);
  }
  return adapters;
}

void save_lora(const Module& model, const std::string& path) {
  const StateDict adapters = adapters_of("save_lora", model);
  check(!adapters.empty(), "save_lora: ", model.type_name(), " has no adapters");
  core::save_safetensors(path, adapters);
}

void load_lora(Module& model, const std::string& path) {
  const StateDict given = core::load_safetensors(path).arrays;
  core::NameList missing, unexpected;
  const auto names_of = [](const StateDict& state) {
    std::unordered_set<std::string_view> names;
    for (const auto& entry : state) names.insert(entry.name);
    return names;
  };
  const StateDict own = adapters_of("load_lora", model);
  const std::unordered_set<std::string_view> own_names = names_of(own), names = names_of(given);
  for (const auto& entry : own) {
    if (!names.contains(entry.name)) missing.add(entry.name);
  }
  for (const auto& entry : given) {
    if (!own_names.contains(entry.name)) unexpected.add(entry.name);
  }
  check(missing.empty() && unexpected.empty(), "load_lora: ", path,
        " does not fit the adapters of ", model.type_name(),
        missing.empty() ? "" : "; missing: " + missing.text(),
        unexpected.empty() ? "" : "; unexpected: " + unexpected.text());
  model.load_state_dict(given, {.strict = false});
}

void merge_lora(Module& model) { AdapterMerger("merge_lora", model).merge(); }
void unmerge_lora(Module& model) { AdapterMerger("unmerge_lora", model).unmerge(); }
void remove_lora(Module& model) {
  for (Linear* layer : adapted("remove_lora", model)) layer->remove_adapter();
}

}  // namespace hero::nn
