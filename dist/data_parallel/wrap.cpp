#include <algorithm>
#include <map>

#include <hero/dist/data_parallel/wrap.h>

namespace hero::dist {
namespace {

// Whether another stage of a pipeline holds the parameter.
bool lies_elsewhere(const Tensor& leaf) {
  const Partition* part = partition(leaf);
  return part != nullptr && part->owners && part->owners->elsewhere() != nullptr &&
         leaf.numel() == 0 && part->whole.numel() > 0 && parameter_owner(leaf) == nullptr;
}

bool wanted(const nn::Slot& slot, const std::string& name, const std::vector<std::string>& ignored,
            bool frozen_too) {
  if (slot.kind != nn::Slot::Kind::parameter || !slot.tensor.defined()) return false;
  if (std::find(ignored.begin(), ignored.end(), name) != ignored.end()) return false;
  if (lies_elsewhere(slot.tensor)) return false;
  return frozen_too || slot.tensor.requires_grad();
}

// A leaf that holds all elements of its boxes may be cut further, one that holds an interval of a
// parameter may not.
bool is_shard(const Tensor& leaf) {
  const Partition* part = partition(leaf);
  if (part == nullptr) return false;
  const bool all = part->first == 0 && leaf.numel() == layout::numel(part->whole, part->boxes);
  return part->boxes.empty() || !all || parameter_owner(leaf) != nullptr;
}

// What a spectral norm or weight norm has made: it holds parameters of the layer above, and is
// never called itself.
constexpr std::string_view kComputed = "parametrizations";

bool only_holds(const std::string& path) {
  return path.starts_with(kComputed) ||
         path.find("." + std::string(kComputed)) != std::string::npos;
}

// The first of these names that stands for this tensor; "" if none does.
template <class Slots>
std::string name_among(const std::vector<std::string>& names, const Slots& slots,
                       const Tensor& tensor) {
  for (const auto& [name, slot] : slots) {
    if (!slot->tensor.defined() || !is_same(slot->tensor, tensor)) continue;
    if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  }
  return "";
}

// [note: few that are trained] Of a unit's flat parameter each rank owns one interval. Adapters
// beside a large frozen weight would lie on the few ranks in whose intervals they fall, which would
// sum and step all of them: the frozen ones get a unit of their own then, so that both are spread
// evenly.
std::vector<UnitParameter> frozen_apart(std::vector<UnitParameter>& parameters) {
  int64_t trained = 0, all = 0;
  for (const UnitParameter& parameter : parameters) {
    all += parameter.leaf.numel();
    if (parameter.leaf.requires_grad()) trained += parameter.leaf.numel();
  }
  if (trained == 0 || 2 * trained > all) return {};
  std::vector<UnitParameter> frozen, rest;
  for (UnitParameter& parameter : parameters) {
    (parameter.leaf.requires_grad() ? rest : frozen).push_back(std::move(parameter));
  }
  parameters = std::move(rest);
  return frozen;
}

std::string shown(const std::string& path) { return path.empty() ? std::string(kRoot) : path; }

}  // namespace

bool is_below(const std::string& name, const std::string& path) {
  return path.empty() || (name.size() > path.size() && name[path.size()] == '.' &&
                          name.compare(0, path.size(), path) == 0);
}

UnitPolicy each_of(std::vector<std::string> paths) {
  return [paths = std::move(paths)](const Candidate& c) {
    if (c.path.empty()) {  // the sharded module itself, from which paths lead
      const auto modules = c.module.named_modules();
      for (const std::string& path : paths) {
        const bool found = std::any_of(modules.begin(), modules.end(),
                                       [&](const auto& module) { return module.first == path; });
        check(found, "each_of: there is no module '", path, "' in ", c.module.type_name(),
              "; named_modules() lists the paths");
      }
    }
    return std::find(paths.begin(), paths.end(), c.path) != paths.end();
  };
}

UnitPolicy at_least(int64_t numel) {
  return [numel](const Candidate& c) { return c.numel >= numel; };
}

UnitPolicy each_with_parameters() {
  return [](const Candidate& c) {
    for (const auto& [name, slot] : c.module.slots()) {
      if (slot->kind != nn::Slot::Kind::parameter) continue;
      if (name.find('.') == std::string::npos || only_holds(name)) return true;
    }
    return false;
  };
}

UnitPolicy each_child() {
  return [](const Candidate& c) { return c.path.find('.') == std::string::npos; };
}

std::vector<UnitParameter> unit_parameters(nn::Module& module,
                                           const std::vector<std::string>& ignored,
                                           bool frozen_too) {
  const auto slots = module.slots();
  for (const std::string& name : ignored) {
    check(std::any_of(slots.begin(), slots.end(), [&](const auto& s) { return s.first == name; }),
          "shard: there is no parameter '", name,
          "' to ignore; named_parameters() lists the names");
  }
  std::vector<UnitParameter> parameters;
  for (const auto& [name, slot] : slots) {
    if (!wanted(*slot, name, ignored, frozen_too)) continue;
    const std::string tied = name_among(ignored, slots, slot->tensor);
    check(tied.empty() || !parameter_owner(slot->tensor), "shard: '", name, "' and '", tied,
          "' are one parameter, which is a shard of the module that was sharded before; shard a "
          "module that contains both, or untie them");
    check(!is_shard(slot->tensor), "shard: parameter '", name,
          "' is a shard already; a module can be sharded once");
    const auto known_to = gradient_reducer(slot->tensor);
    check(!known_to, "shard: parameter '", name, "' is averaged by ",
          known_to ? known_to->describe_reducer() : "",
          " already; give a module to DDP, ZeRO or fully_shard() once, or name the part that has "
          "been given in ignored_modules");
    const auto known =
        std::find_if(parameters.begin(), parameters.end(),
                     [s = slot](const UnitParameter& m) { return is_same(m.leaf, s->tensor); });
    if (known != parameters.end()) {
      known->names.push_back(name);
      known->slots.push_back(slot);
    } else {
      UnitParameter parameter;
      parameter.name = name;
      parameter.names = {name};
      parameter.slots = {slot};
      parameter.leaf = slot->tensor;
      parameter.id = parameters.size();
      parameters.push_back(std::move(parameter));
    }
  }
  return parameters;
}

void add_buckets(ShardedModule& sharded, std::vector<UnitParameter> parameters, int64_t first_bytes,
                 int64_t bytes) {
  std::vector<UnitParameter> bucket;
  int64_t held = 0, limit = first_bytes;
  const auto close = [&] {
    if (bucket.empty()) return;
    sharded.add_unit(sharded.module(), "bucket " + std::to_string(sharded.units().size()),
                     std::move(bucket));
    bucket.clear();
    held = 0;
    limit = bytes;
  };
  for (UnitParameter& parameter : parameters) {
    if (!bucket.empty() && bucket.front().leaf.dtype() != parameter.leaf.dtype()) close();
    held += parameter.leaf.array().nbytes();
    bucket.push_back(std::move(parameter));
    if (held >= limit) close();
  }
  close();
}

void add_units(ShardedModule& sharded, std::vector<UnitParameter> parameters,
               const UnitPolicy& policy, Tied tied) {
  nn::Module& root = sharded.module();
  const auto modules = root.named_modules();
  std::map<std::string, size_t> owner;  // parameter's name to the module whose unit it is in
  for (size_t m = modules.size(); m-- > 1;) {
    const auto& [path, module] = modules[m];
    if (only_holds(path)) continue;
    int64_t numel = 0;
    std::vector<std::string> free;
    for (const UnitParameter& parameter : parameters) {
      const size_t before = free.size();
      for (const std::string& name : parameter.names) {
        if (is_below(name, path) && owner.count(name) == 0) free.push_back(name);
      }
      if (free.size() > before) numel += parameter.leaf.numel();
    }
    if (!policy || !policy({*module, path, numel})) continue;
    for (const std::string& name : free) owner[name] = m;
  }
  // The rest is the root's, whatever the policy says: it is asked so that it sees the whole module.
  if (policy) static_cast<void>(policy({root, "", 0}));
  std::vector<std::vector<UnitParameter>> units(modules.size());
  for (UnitParameter& parameter : parameters) {
    const size_t first = owner.count(parameter.names[0]) > 0 ? owner[parameter.names[0]] : 0;
    size_t unit = first;
    for (const std::string& name : parameter.names) {
      const size_t other = owner.count(name) > 0 ? owner[name] : 0;
      if (other == first) continue;
      check(tied == Tied::to_root, "fully_shard: '", parameter.names[0], "' of unit '",
            shown(modules[first].first), "' and '", name, "' of unit '",
            shown(modules[other].first),
            "' are one parameter; put both into one unit, or untie them");
      unit = 0;
    }
    units[unit].push_back(std::move(parameter));
  }
  for (size_t m = 0; m < modules.size(); ++m) {
    if (units[m].empty()) continue;
    const std::string name = shown(modules[m].first);
    std::vector<UnitParameter> frozen = frozen_apart(units[m]);
    if (!frozen.empty()) {
      sharded.add_unit(*modules[m].second, name + std::string(kFrozen), std::move(frozen));
    }
    sharded.add_unit(*modules[m].second, name, std::move(units[m]));
  }
}

}  // namespace hero::dist
