// The strategies, one behind the other: what each says of the stage, the units and what is
// freed when. See replica.cpp for what follows from it.
#include <algorithm>
#include <cmath>

#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/data_parallel/divide.h>
#include <hero/dist/ddp.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/zero.h>

namespace hero::dist {

DataParallel make_data_parallel(std::shared_ptr<Replica> replica);

namespace {

bool on_meta(const Tensor& tensor) { return tensor.device().type == DeviceType::meta; }

using Names = std::vector<std::string>;
using Nested = Replica::Nested;

bool is_one_of(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_boxes(const Tensor& tensor) {
  const Partition* part = partition(tensor);
  return part != nullptr && !part->boxes.empty();
}

// Where first values come from that nobody has drawn yet. Ranks with other streams would each draw
// their parts of another model.
std::string stream_of(const nn::Slot& slot) {
  if (!on_meta(slot.tensor) || !slot.init.fill) return "";
  return " of random stream " + std::to_string(slot.stream.key) + "/" +
         std::to_string(slot.stream.id);
}

// The boxes of what is left alone are no matter of this group: experts lie apart on its ranks.
std::string line_of(const std::string& name, const nn::Slot& slot, const Names& alone) {
  const Tensor& tensor = slot.tensor;
  const bool parameter = slot.kind == nn::Slot::Kind::parameter;
  const Partition* part = partition(tensor);
  const bool boxes = has_boxes(tensor) && !is_one_of(alone, name);
  return (parameter ? "parameter " : "buffer ") + name + " " + hero::name(tensor.dtype()) + " " +
         to_string(whole_shape(tensor)) + (boxes ? " in " + layout::text(part->boxes) : "") +
         (parameter && !tensor.requires_grad() ? " frozen" : "") + stream_of(slot);
}

// Options by which ranks that differ would make the same calls, and take the bytes of each other
// for what they are not: two codecs, say, whose rows are equally long.
std::string options_text(const char* strategy, const Offload& offload,
                         const Quantize& quantize = {}, const std::optional<DType>& output = {}) {
  const auto codec = [](const std::optional<core::Codec>& of) { return of ? name(*of) : "none"; };
  return std::string("option strategy ") + strategy + "\noption offload.disk " +
         (offload.disk != nullptr ? "a file" : "none") + "\noption quantize.weights " +
         codec(quantize.weights) + "\noption quantize.gradients " + codec(quantize.gradients) +
         "\noption mixed_precision.output " + (output ? hero::name(*output) : "none") + "\n";
}

// Ranks must have made the same module: where they did not, some sum of a later step would fail, or
// be one of things that do not belong together. `text`: their options.
void check_same_module(nn::Module& module, const Communicator& group, const Names& alone,
                       std::string text) {
  for (const auto& [name, slot] : module.slots()) text += line_of(name, *slot, alone) + "\n";
  same_lines(
      group, "shard: ranks have different modules", text,
      "build and convert the same module on every rank, from the same seed, and shard it with "
      "the same options",
      "module");
}

void check_same_module(nn::Module& module, const Groups& groups, const Names& alone,
                       const std::string& options) {
  if (groups.replicas.defined()) check_same_module(module, groups.replicas, alone, options);
  check_same_module(module, groups.shard, alone, options);
}

// Rank 0's values: first to those that hold the same shard as it, then within each group of shards.
void broadcast_state(nn::Module& module, const Groups& groups, const Names& alone) {
  std::vector<const detail::TensorImpl*> sent;  // a tied parameter goes once
  for (const auto& [name, slot] : module.slots()) {
    const Tensor& tensor = slot->tensor;
    if (!tensor.defined() || std::count(sent.begin(), sent.end(), tensor.impl()) > 0) continue;
    if (keeper(tensor)) continue;  // a shard of a module below, which saw to it
    if (has_boxes(tensor) && is_one_of(alone, name)) continue;  // its own on each rank
    if (on_meta(tensor) && groups.shard.backend_kind() != BackendKind::simulated) continue;
    sent.push_back(tensor.impl());
    const Array values = tensor.array().contiguous();
    if (groups.replicas.defined()) groups.replicas.broadcast(values, 0, {.unit = "first values"});
    groups.shard.broadcast(values, 0, {.unit = "first values"});
    if (!tensor.is_contiguous()) Tensor(tensor.array()).copy_(Tensor(values));
  }
}

// What was made on meta and is cut into no unit (buffers, and parameters that are frozen or
// ignored) is this rank's as it stands: planned on simulated ranks, or with its first values.
void materialize_rest(nn::Module& module, const Groups& groups, Device device = kCpu) {
  module.materialize(groups.shard.backend_kind() == BackendKind::simulated ? kMeta : device);
}

std::vector<Member> reversed(std::vector<Member> members) {
  std::reverse(members.begin(), members.end());
  return members;
}

void check_divisor(const char* what, double divide_by) {
  check(divide_by >= 0.0 && std::isfinite(divide_by), what,
        ": divide_by must be positive, or 0 for the number of ranks: ", divide_by);
}

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

Unused unused_policy(bool find) { return find ? Unused::agree : Unused::error; }

// The names of parameters that stay as they are: those that are named, those of modules that are,
// and those that a module below has sharded already.
Names left_alone(const char* what, nn::Module& module, const Names& parameters, const Names& paths,
                 const std::vector<Nested>& nested) {
  Names names = parameters;
  const auto modules = module.named_modules();
  for (const std::string& path : paths) {
    check(std::any_of(modules.begin(), modules.end(),
                      [&](const auto& named) { return named.first == path && !path.empty(); }),
          what, ": there is no module '", path, "' to ignore; named_modules() lists the paths");
  }
  for (const auto& [name, slot] : module.slots()) {
    if (slot->kind != nn::Slot::Kind::parameter || !slot->tensor.defined()) continue;
    const auto below = [&, &full = name](const std::string& path) { return is_below(full, path); };
    const auto kept = keeper(slot->tensor);
    if (std::any_of(paths.begin(), paths.end(), below) ||
        std::any_of(nested.begin(), nested.end(), [&](const Nested& inner) {
          return kept && std::any_of(inner.paths.begin(), inner.paths.end(), below);
        })) {
      names.push_back(name);
    }
  }
  return names;
}

// DDP: nothing is sharded; buckets of gradients are averaged.
std::shared_ptr<Replica> replicate(nn::Module& module, const Communicator& comm,
                                   const DDPOptions& options) {
  check(options.bucket_bytes > 0 && options.first_bucket_bytes > 0,
        "ddp: bucket sizes must be positive: ", options.first_bucket_bytes, ", ",
        options.bucket_bytes);
  check_divisor("ddp", options.divide_by);
  const Groups groups = {comm, {}};
  const Names alone = left_alone("ddp", module, {}, options.ignored_modules, {});
  check_same_module(module, groups, alone, options_text("ddp", {}));
  materialize_rest(module, groups);  // all of it
  if (options.broadcast_parameters) broadcast_state(module, groups, alone);
  auto replica = std::make_shared<Replica>(
      module, groups,
      ReplicaOptions{
          .units = {.stage = Stage::none, .order = options.order, .divide_by = options.divide_by},
          .unused = unused_policy(options.find_unused_parameters),
          .broadcast_buffers = options.broadcast_buffers,
          .rebuild_bytes = options.bucket_bytes,
          .rebuild_first_bytes = options.first_bucket_bytes,
          .alone = alone,
          .alone_modules = options.ignored_modules});
  add_buckets(*replica, reversed(members_of(module, alone, false)), options.first_bucket_bytes,
              options.bucket_bytes);
  replica->install();
  return replica;
}

// What lies below this module and was sharded before it, with all of its modules.
std::vector<Nested> sharded_below(nn::Module& module) {
  std::vector<Nested> found;
  const auto modules = module.named_modules();
  for (const auto& [name, slot] : module.slots()) {
    const auto part = std::dynamic_pointer_cast<Replica>(keeper(slot->tensor));
    if (!part) continue;
    // which may have no parameters itself, and is found by those below it
    const auto replica = part->schedule().replicas().front()->shared_from_this();
    if (std::any_of(found.begin(), found.end(),
                    [&](const Nested& known) { return known.replica == replica; })) {
      continue;
    }
    std::vector<std::string> paths;
    for (const nn::Module* each : replica->modules()) {
      const auto at = std::find_if(modules.begin(), modules.end(), [&](const auto& named) {
        return named.second == each && !named.first.empty();
      });
      if (at != modules.end()) paths.push_back(at->first);
    }
    if (paths.size() == replica->modules().size()) found.push_back({std::move(paths), replica});
  }
  return found;
}

std::shared_ptr<Replica> shard(const std::vector<nn::Module*>& modules, const Groups& groups,
                               const FSDPOptions& options, Tied tied) {
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
  const Names alone = left_alone("fully_shard", module, options.ignored_parameters,
                                 options.ignored_modules, nested);
  check_same_module(module, groups, alone,
                    options_text("fully_shard", options.offload, options.quantize,
                                 options.mixed_precision.output));
  if (options.sync_module_states) broadcast_state(module, groups, alone);
  const MixedPrecision& dtypes = options.mixed_precision;
  auto replica = std::make_shared<Replica>(
      std::move(group), modules, groups,
      ReplicaOptions{.units = {.stage = Stage::parameters,
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
                     .alone_modules = options.ignored_modules});
  add_units(*replica, members_of(module, alone, true), options.unit, tied);
  for (Nested& below : nested) replica->nest(std::move(below));
  replica->install();
  materialize_rest(module, groups, options.device);
  return replica;
}

// ZeRO-1: each rank steps its part of every bucket; ZeRO-2: and keeps only that part's gradients;
// ZeRO-3: and that part's parameters.
std::shared_ptr<Replica> make_zero(nn::Module& module, const Communicator& comm,
                                   const ZeROOptions& options) {
  check(options.stage >= 1 && options.stage <= 3, "zero: stage must be 1, 2 or 3: ", options.stage);
  check_divisor("zero", options.divide_by);
  check(options.stage == 3 || !options.offload.parameters, "zero: stage ", options.stage,
        " keeps whole parameters on the device; offload the optimizer, or use stage 3");
  check(options.stage == 3 || !options.quantize.any(), "zero: quantize needs stage 3; stage ",
        options.stage, " gathers and reduces in the parameters' dtype");
  check(options.stage == 3 || !options.unit, "zero: unit needs stage 3; stage ", options.stage,
        " averages in buckets of bucket_bytes, whatever the modules are");
  check(options.bucket_bytes > 0, "zero: bucket_bytes must be positive: ", options.bucket_bytes);
  const Groups groups = {comm, {}};
  if (options.stage == 3) {
    return shard({&module}, groups,
                 {.unit = options.unit ? options.unit : each_with_parameters(),
                  .reshard_after_forward = options.reshard_after_forward,
                  .prefetch = options.prefetch,
                  .ignored_modules = options.ignored_modules,
                  .sync_module_states = options.broadcast_parameters,
                  .broadcast_buffers = options.broadcast_buffers,
                  .order = options.order,
                  .divide_by = options.divide_by,
                  .offload = options.offload,
                  .quantize = options.quantize},
                 Tied::to_root);
  }
  const Names alone = left_alone("zero", module, {}, options.ignored_modules, {});
  check_same_module(module, groups, alone,
                    options_text(options.stage == 1 ? "zero 1" : "zero 2", options.offload));
  if (options.broadcast_parameters) broadcast_state(module, groups, alone);
  auto replica = std::make_shared<Replica>(
      module, groups,
      ReplicaOptions{.units = {.stage = options.stage == 1 ? Stage::optimizer : Stage::gradients,
                               .order = options.order,
                               .divide_by = options.divide_by,
                               .offload = options.offload},
                     .unused = unused_policy(options.find_unused_parameters),
                     .reshard_after_forward = false,
                     .broadcast_buffers = options.broadcast_buffers,
                     .alone = alone,
                     .alone_modules = options.ignored_modules});
  add_buckets(*replica, reversed(members_of(module, alone, false)), options.bucket_bytes,
              options.bucket_bytes);
  replica->install();
  materialize_rest(module, groups);
  return replica;
}

}  // namespace

DDP::DDP(nn::Module& module, const Communicator& comm, const DDPOptions& options)
    : DataParallel(replicate(module, comm, options)) {}

ZeRO::ZeRO(nn::Module& module, const Communicator& comm, const ZeROOptions& options)
    : DataParallel(make_zero(module, comm, options)) {}

namespace {

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

DataParallel fully_shard(nn::Module& module, const Communicator& comm, const FSDPOptions& options) {
  return make_data_parallel(shard({&module}, {comm, {}}, options, Tied::error));
}

DataParallel fully_shard(nn::Module& module, const Mesh& mesh, const FSDPOptions& options) {
  return make_data_parallel(shard({&module}, groups_of(mesh, options), options, Tied::error));
}

DataParallel fully_shard(const UnitModules& modules, const Communicator& comm,
                         const FSDPOptions& options) {
  return make_data_parallel(shard(group_of(modules, options), {comm, {}}, options, Tied::error));
}

DataParallel fully_shard(const UnitModules& modules, const Mesh& mesh, const FSDPOptions& options) {
  return make_data_parallel(
      shard(group_of(modules, options), groups_of(mesh, options), options, Tied::error));
}

}  // namespace hero::dist
