#include <cmath>

#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/data_parallel/strategies.h>

namespace hero::dist {
namespace {

bool on_meta(const Tensor& tensor) { return tensor.device().type == DeviceType::meta; }

using SlotNames = std::vector<std::string>;
using Nested = ShardedModule::Nested;

bool is_one_of(const SlotNames& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

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
  const bool boxes = has_boxes(tensor) && !is_one_of(alone, name);
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
  std::vector<const detail::TensorImpl*> sent;  // a tied parameter goes once
  for (const auto& [name, slot] : module.slots()) {
    const Tensor& tensor = slot->tensor;
    if (!tensor.defined() || std::count(sent.begin(), sent.end(), tensor.impl()) > 0) continue;
    if (parameter_owner(tensor)) continue;  // a shard of a module below, which saw to it
    if (has_boxes(tensor) && is_one_of(alone, name)) continue;  // its own on each rank
    if (on_meta(tensor) && groups.shard.backend_kind() != BackendKind::simulated) continue;
    sent.push_back(tensor.impl());
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

SlotNames left_alone(const char* what, nn::Module& module, const SlotNames& parameters,
                     const SlotNames& paths, const std::vector<Nested>& nested) {
  SlotNames names = parameters;
  const auto modules = module.named_modules();
  for (const std::string& path : paths) {
    check(std::any_of(modules.begin(), modules.end(),
                      [&](const auto& named) { return named.first == path && !path.empty(); }),
          what, ": there is no module '", path, "' to ignore; named_modules() lists the paths");
  }
  for (const auto& [name, slot] : module.slots()) {
    if (slot->kind != nn::Slot::Kind::parameter || !slot->tensor.defined()) continue;
    const auto below = [&, &full = name](const std::string& path) { return is_below(full, path); };
    const auto kept = parameter_owner(slot->tensor);
    if (std::any_of(paths.begin(), paths.end(), below) ||
        std::any_of(nested.begin(), nested.end(), [&](const Nested& inner) {
          return kept && std::any_of(inner.paths.begin(), inner.paths.end(), below);
        })) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace hero::dist
