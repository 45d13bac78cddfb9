#include <algorithm>

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

}  // namespace

std::vector<std::string> add_lora(Module& model, const LoRAOptions& options) {
  check(!options.targets.empty(),
        "add_lora: no targets; name linear layers, such as {\"q_proj\", \"v_proj\"}");
  std::vector<Linear*> layers;
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
      if (std::find(layers.begin(), layers.end(), linear) != layers.end()) continue;
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
  const StateDict adapters = lora_state_dict(model.state_dict());
  check(!adapters.empty(), "save_lora: ", model.type_name(), " has no adapters");
  core::save_safetensors(path, adapters);
}

void load_lora(Module& model, const std::string& path) {
  const StateDict given = core::load_safetensors(path).arrays;
  core::NameList missing, unexpected;
  const auto has = [](const StateDict& state, const std::string& name) {
    return std::any_of(state.begin(), state.end(), [&](const auto& e) { return e.name == name; });
  };
  const StateDict own = lora_state_dict(model.state_dict());
  for (const auto& entry : own) {
    if (!has(given, entry.name)) missing.add(entry.name);
  }
  for (const auto& entry : given) {
    if (!has(own, entry.name)) unexpected.add(entry.name);
  }
  check(missing.empty() && unexpected.empty(), "load_lora: ", path,
        " does not fit the adapters of ", model.type_name(),
        missing.empty() ? "" : "; missing: " + missing.text(),
        unexpected.empty() ? "" : "; unexpected: " + unexpected.text());
  model.load_state_dict(given, {.strict = false});
}

void merge_lora(Module& model) {
  for (Linear* layer : adapted("merge_lora", model)) layer->merge_adapter();
}
void unmerge_lora(Module& model) {
  for (Linear* layer : adapted("unmerge_lora", model)) layer->unmerge_adapter();
}
void remove_lora(Module& model) {
  for (Linear* layer : adapted("remove_lora", model)) layer->remove_adapter();
}

}  // namespace hero::nn
