// fully_shard(), as in FSDP2.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <hero/dist/data_parallel/strategies.h>
#include <hero/dist/fsdp.h>

namespace hero::dist {
namespace {

void check_floating(const char* option, const std::optional<DType>& dtype) {
  check(!dtype || is_floating(*dtype), "fully_shard: mixed_precision.", option,
        " must be a floating dtype: ", dtype ? hero::name(*dtype) : "");
}

// Where the bytes of gradients go; a collective with hosts.
QuantizedRoute check_quantize(const nn::Module& module, const Quantize& quantize,
                              const Groups& groups) {
  if (!quantize.any()) return {};
  for (const auto& [name, parameter] : module.named_parameters()) {
    check(parameter.dtype() != kFloat64, "fully_shard: quantize: parameter '", name,
          "' is float64, and codecs carry float32 and halves; convert the module");
  }
  check(!quantize.secondary || quantize.ranks_of_host > 1,
        "fully_shard: quantize.secondary keeps a part within each host; say ranks_of_host");
  const bool routed = quantize.gradients || quantize.secondary;
  return routed ? quantized_route(groups.shard, quantize.ranks_of_host) : QuantizedRoute{};
}

// What lies below this module and was sharded before it, with all of its modules.
std::vector<Nested> sharded_below(nn::Module& module) {
  std::vector<Nested> found;
  std::unordered_set<const ShardedModule*> known;
  std::unordered_map<const nn::Module*, std::string> path_of;  // the first, if there are several
  for (const auto& [path, each] : module.named_modules()) {
    if (!path.empty()) path_of.emplace(each, path);
  }
  for (const auto& [name, slot] : module.slots()) {
    const auto part = std::dynamic_pointer_cast<ShardedModule>(parameter_owner(slot->tensor));
    if (!part) continue;
    // which may have no parameters itself, and is found by those below it
    const auto sharded = part->schedule().modules().front()->shared_from_this();
    if (!known.insert(sharded.get()).second) continue;
    std::vector<std::string> paths;
    for (const nn::Module* each : sharded->modules()) {
      const auto at = path_of.find(each);
      if (at != path_of.end()) paths.push_back(at->second);
    }
    if (paths.size() == sharded->modules().size()) found.push_back({std::move(paths), sharded});
  }
  return found;
}

Groups groups_of(const Mesh& mesh, const FSDPOptions& options) {
  const auto& axes = mesh.axes();
  check(axes.size() <= 2, "fully_shard: a mesh of ", axes.size(),
        " axes; pass one axis, or two: the first replicates, the second shards");
  if (axes.size() == 1) return {mesh[axes[0].name], {}};
  const Groups groups = {mesh[axes[1].name], mesh[axes[0].name], mesh.world()};
  check(
      options.order != Order::ranks || groups.replicas.size() == 1,
      "fully_shard: a hybrid adds up within each group of shards first, which is not the order of "
      "ranks; use Order::tree, or one axis");
  return groups;
}

std::vector<nn::Module*> group_of(const UnitModules& list, const FSDPOptions& options) {
  std::vector<nn::Module*> modules;
  for (nn::Module& module : list) modules.push_back(&module);
  check(!modules.empty(), "fully_shard: there is no module in the list");
  if (modules.size() == 1) return modules;
  check(!options.unit,
        "fully_shard: the modules of a list are one unit, so `unit` cannot name "
        "others; shard parts of them before");
  for (size_t i = 0; i < modules.size(); ++i) {
    for (size_t j = 0; j < modules.size(); ++j) {
      const auto below = modules[i]->modules();
      check(i == j || std::find(below.begin(), below.end(), modules[j]) == below.end(),
            "fully_shard: module ", j, " of the list, ", modules[j]->type_name(), ", is module ", i,
            " or a part of it; name it once");
    }
  }
  return modules;
}

}  // namespace

std::shared_ptr<ShardedModule> shard_modules(const std::vector<nn::Module*>& modules,
                                             const Groups& groups, const FSDPOptions& options,
                                             Tied tied) {
  auto group = modules.size() > 1 ? std::make_unique<ModuleGroup>(modules) : nullptr;
  nn::Module& module = group ? *group : *modules.front();
  check_divisor("fully_shard", options.divide_by);
  check(options.prefetch >= 0, "fully_shard: prefetch is how many units are gathered ahead, 0 or ",
        "more: ", options.prefetch);
  check_floating("parameters", options.mixed_precision.parameters);
  check_floating("reduce", options.mixed_precision.reduce);
  check_floating("output", options.mixed_precision.output);
  const QuantizedRoute route = check_quantize(module, options.quantize, groups);
  auto nested = sharded_below(module);
  const SlotNames alone = left_alone("fully_shard", module, options.ignored_parameters,
                                     options.ignored_modules, nested);
  check_same_module(module, groups, alone,
                    options_text("fully_shard", options.offload, options.quantize,
                                 options.mixed_precision.output));
  if (options.sync_module_states) broadcast_state(module, groups, alone);
  const MixedPrecision& dtypes = options.mixed_precision;
  auto sharded = std::make_shared<ShardedModule>(
      std::move(group), modules, groups,
      ShardedModuleOptions{.units = {.stage = Stage::parameters,
                                     .gathered = dtypes.parameters,
                                     .reduce = dtypes.reduce,
                                     .order = options.order,
                                     .divide_by = options.divide_by,
                                     .device = options.device,
                                     .offload = options.offload,
                                     .quantize = options.quantize,
                                     .route = route},
                           .unused = Unused::same,
                           .reshard_after_forward = options.reshard_after_forward,
                           .prefetch = options.prefetch,
                           .broadcast_buffers = options.broadcast_buffers,
                           .output_dtype = dtypes.output,
                           .alone = alone,
                           .alone_modules = ModulePaths(options.ignored_modules)});
  add_units(*sharded, unit_parameters(module, alone, true), options.unit, tied);
  for (Nested& below : nested) sharded->nest(std::move(below));
  sharded->install();
  materialize_rest(module, groups, options.device);
  return sharded;
}

DataParallel fully_shard(nn::Module& module, const Communicator& comm, const FSDPOptions& options) {
  return make_data_parallel(shard_modules({&module}, {comm, {}}, options, Tied::error));
}

DataParallel fully_shard(nn::Module& module, const Mesh& mesh, const FSDPOptions& options) {
  return make_data_parallel(
      shard_modules({&module}, groups_of(mesh, options), options, Tied::error));
}

DataParallel fully_shard(const UnitModules& modules, const Communicator& comm,
                         const FSDPOptions& options) {
  return make_data_parallel(
      shard_modules(group_of(modules, options), {comm, {}}, options, Tied::error));
}

DataParallel fully_shard(const UnitModules& modules, const Mesh& mesh, const FSDPOptions& options) {
  return make_data_parallel(
      shard_modules(group_of(modules, options), groups_of(mesh, options), options, Tied::error));
}

}  // namespace hero::dist
