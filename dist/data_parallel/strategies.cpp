#include <cmath>
#include <unordered_set>

#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/data_parallel/strategies.h>

namespace hero::dist {
namespace {

bool on_meta(const Tensor& tensor) { return tensor.device().type == DeviceType::meta; }

bool has_boxes(const Tensor& tensor) {
  const Partition* part = partition(tensor);
  return part != nullptr && !part->boxes.empty();
}

// The random stream of a parameter whose initial values are not drawn yet. Ranks with different
// streams would draw their shards of different models.
std::string stream_of(const nn::Slot& slot) {
  if (!on_meta(slot.tensor) || !slot.init.fill) return "";
  return " of random stream " + std::to_string(slot.stream.key) + "/" +
         std::to_string(slot.stream.id);
}

// The boxes of what is left alone are no matter of this group: experts lie apart on its ranks.
std::string line_of(const std::string& name, const nn::Slot& slot, const SlotNames& alone) {
  const Tensor& tensor = slot.tensor;
  const bool parameter = slot.kind == nn::Slot::Kind::parameter;
  const Partition* part = partition(tensor);
  const bool boxes = has_boxes(tensor) && !alone.contains(name);
  return (parameter ? "parameter " : "buffer ") + name + " " + hero::name(tensor.dtype()) + " " +
         to_string(whole_shape(tensor)) + (boxes ? " in " + layout::text(part->boxes) : "") +
         (parameter && !tensor.requires_grad() ? " frozen" : "") + stream_of(slot);
}

void check_same_in(nn::Module& module, const Communicator& group, const SlotNames& alone,
                   std::string text) {
  for (const auto& [name, slot] : module.slots()) text += line_of(name, *slot, alone) + "\n";
  same_lines(
      group, "shard: ranks have different modules", text,
      "build and convert the same module on every rank, from the same seed, and shard it with "
      "the same options",
      "module");
}

}  // namespace

std::string options_text(const char* strategy, const Offload& offload, const Quantize& quantize,
                         const std::optional<DType>& output) {
  const auto codec = [](const std::optional<core::Codec>& of) { return of ? name(*of) : "none"; };
  return std::string("option strategy ") + strategy + "\noption offload.disk " +
         (offload.disk != nullptr ? "a file" : "none") + "\noption quantize.weights " +
         codec(quantize.weights) + "\noption quantize.gradients " + codec(quantize.gradients) +
         "\noption mixed_precision.output " + (output ? hero::name(*output) : "none") + "\n";
}

void check_same_module(nn::Module& module, const Groups& groups, const SlotNames& alone,
                       const std::string& options) {
  if (groups.replicas.defined()) check_same_in(module, groups.replicas, alone, options);
  check_same_in(module, groups.shard, alone, options);
}

void broadcast_state(nn::Module& module, const Groups& groups, const SlotNames& alone) {
  std::unordered_set<const detail::TensorImpl*> sent;  // a tied parameter goes once
  for (const auto& [name, slot] : module.slots()) {
    const Tensor& tensor = slot->tensor;
    if (!tensor.defined() || sent.contains(tensor.impl())) continue;
    if (parameter_owner(tensor)) continue;  // a shard of a module below, which saw to it
    if (has_boxes(tensor) && alone.contains(name)) continue;  // its own on each rank
    if (on_meta(tensor) && groups.shard.backend_kind() != BackendKind::simulated) continue;
    sent.insert(tensor.impl());
    const Array values = tensor.array().contiguous();
    if (groups.replicas.defined()) groups.replicas.broadcast(values, 0, {.unit = "first values"});
    groups.shard.broadcast(values, 0, {.unit = "first values"});
    if (!tensor.is_contiguous()) Tensor(tensor.array()).copy_(Tensor(values));
  }
}

void materialize_rest(nn::Module& module, const Groups& groups, Device device) {
  module.materialize(groups.shard.backend_kind() == BackendKind::simulated ? kMeta : device);
}

void check_divisor(const char* what, double divide_by) {
  check(divide_by >= 0.0 && std::isfinite(divide_by), what,
        ": divide_by must be positive, or 0 for the number of ranks: ", divide_by);
}

SlotNames left_alone(const char* what, nn::Module& module,
                     const std::vector<std::string>& parameters,
                     const std::vector<std::string>& paths, const std::vector<Nested>& nested) {
  SlotNames names(parameters.begin(), parameters.end());
  std::unordered_set<std::string> modules;
  for (const auto& [path, each] : module.named_modules()) modules.insert(path);
  for (const std::string& path : paths) {
    check(!path.empty() && modules.contains(path), what, ": there is no module '", path,
          "' to ignore; named_modules() lists the paths");
  }
  const ModulePaths ignored(paths);
  ModulePaths sharded;
  for (const Nested& inner : nested) {
    for (const std::string& path : inner.paths) sharded.add(path);
  }
  for (const auto& [name, slot] : module.slots()) {
    if (slot->kind != nn::Slot::Kind::parameter || !slot->tensor.defined()) continue;
    if (ignored.hold(name) || (parameter_owner(slot->tensor) && sharded.hold(name))) {
      names.insert(name);
    }
  }
  return names;
}

}  // namespace hero::dist
