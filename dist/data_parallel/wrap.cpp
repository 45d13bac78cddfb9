#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include <hero/dist/data_parallel/wrap.h>

namespace hero::dist {
namespace {

// Whether another stage of a pipeline holds the parameter.
bool lies_elsewhere(const Tensor& leaf) {
  const Partition* part = partition(leaf);
  return part != nullptr && part->group && part->group->elsewhere() != nullptr &&
         leaf.numel() == 0 && part->whole.numel() > 0 && parameter_owner(leaf) == nullptr;
}

bool wanted(const nn::Slot& slot, const std::string& name, const SlotNames& ignored,
            bool frozen_too) {
  if (slot.kind != nn::Slot::Kind::parameter || !slot.tensor.defined()) return false;
  if (ignored.contains(name)) return false;
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
  std::unordered_set<std::string> wanted(paths.begin(), paths.end());
  return [paths = std::move(paths), wanted = std::move(wanted)](const Candidate& c) {
    if (c.path.empty()) {  // the sharded module itself, from which paths lead
      std::unordered_set<std::string> modules;
      for (const auto& [path, module] : c.module.named_modules()) modules.insert(path);
      for (const std::string& path : paths) {
        check(modules.contains(path), "each_of: there is no module '", path, "' in ",
              c.module.type_name(), "; named_modules() lists the paths");
      }
    }
    return wanted.contains(c.path);
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

std::vector<UnitParameter> unit_parameters(nn::Module& module, const SlotNames& ignored,
                                           bool frozen_too) {
  const auto slots = module.slots();
  SlotNames unknown = ignored;
  // The tensors of those to ignore, with the first of their names.
  std::unordered_map<const detail::TensorImpl*, const std::string*> ignored_tensors;
  for (const auto& [name, slot] : slots) {
    if (!ignored.contains(name)) continue;
    unknown.erase(name);
    if (slot->tensor.defined()) ignored_tensors.emplace(slot->tensor.impl(), &name);
  }
  check(unknown.empty(), "shard: there is no parameter '", unknown.empty() ? "" : *unknown.begin(),
        "' to ignore; named_parameters() lists the names");
  std::vector<UnitParameter> parameters;
  std::unordered_map<const detail::TensorImpl*, size_t> places;
  for (const auto& [name, slot] : slots) {
    if (!wanted(*slot, name, ignored, frozen_too)) continue;
    const auto tied = ignored_tensors.find(slot->tensor.impl());
    const bool is_tied = tied != ignored_tensors.end();
    check(!is_tied || !parameter_owner(slot->tensor), "shard: '", name, "' and '",
          is_tied ? *tied->second : "",
          "' are one parameter, which is a shard of the module that was sharded before; shard a "
          "module that contains both, or untie them");
    check(!is_shard(slot->tensor), "shard: parameter '", name,
          "' is a shard already; a module can be sharded once");
    const auto known_to = gradient_reducer(slot->tensor);
    check(!known_to, "shard: parameter '", name, "' is averaged by ",
          known_to ? known_to->describe_reducer() : "",
          " already; give a module to DDP, ZeRO or fully_shard() once, or name the part that has "
          "been given in ignored_modules");
    const auto [place, fresh] = places.emplace(slot->tensor.impl(), parameters.size());
    if (!fresh) {
      UnitParameter& known = parameters[place->second];
      known.names.push_back(name);
      known.slots.push_back(slot);
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
  // Names in order, so that those below a path lie side by side, and the numbers of parameters.
  std::map<std::string, size_t> free;
  std::map<std::string, size_t> owner;  // parameter's name to the module whose unit it is in
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (const std::string& name : parameters[i].names) free.emplace(name, i);
  }
  for (size_t m = modules.size(); m-- > 1 && policy;) {
    const auto& [path, module] = modules[m];
    if (only_holds(path)) continue;
    const auto begin = free.lower_bound(path + "."), end = free.lower_bound(path + "/");
    int64_t numel = 0;
    std::unordered_set<size_t> counted;  // a tied one has several names
    for (auto at = begin; at != end; ++at) {
      if (counted.insert(at->second).second) numel += parameters[at->second].leaf.numel();
    }
    if (!policy({*module, path, numel})) continue;
    for (auto at = begin; at != end; ++at) owner[at->first] = m;
    free.erase(begin, end);
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
