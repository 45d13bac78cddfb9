// Broadcasting rank 0's buffers, such as the running means of a batch norm, which each rank
// computes from its own batches.
#include <algorithm>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/data_parallel/wrap.h>

namespace hero::dist {

// [note: when buffers are sent] When the backward of a pass in training ends, since all ranks are
// there, and evaluation right behind it is the same on all ranks, or on one that evaluates alone.
// Without a backward, when the forward ends that nobody records, or before the next one. Whether
// one rank has written to them does not matter: all are sent, as the others cannot know.

// Those of a module below that is shared by other ranks are its own matter; what is
// computed from parameters is no buffer, though it lies in such a slot.
std::vector<nn::Slot*> ShardedModule::own_buffers() const {
  const auto slots = module().slots();
  const bool computes = std::any_of(slots.begin(), slots.end(), [](const auto& slot) {
    return slot.first.find("parametrizations.") != std::string::npos;
  });
  const auto is_computed = [&](const std::string& name) {
    if (!computes) return false;
    const size_t end = name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1;
    const std::string list = name.substr(0, end) + "parametrizations." + name.substr(end) + ".";
    return std::any_of(slots.begin(), slots.end(),
                       [&](const auto& slot) { return slot.first.starts_with(list); });
  };
  std::vector<nn::Slot*> own;
  for (const auto& [name, slot] : slots) {
    if (slot->kind == nn::Slot::Kind::parameter || !slot->tensor.defined()) continue;
    const auto is_in = [&, &full = name](const std::string& path) { return is_below(full, path); };
    const auto& alone = options_.alone_modules;
    const bool apart = std::any_of(alone.begin(), alone.end(), is_in) ||
                       std::any_of(nested_.begin(), nested_.end(), [&](const Nested& below) {
                         return !below.module->shares_groups_ &&
                                std::any_of(below.paths.begin(), below.paths.end(), is_in);
                       });
    const bool known = std::any_of(own.begin(), own.end(), [&, of = slot](const nn::Slot* other) {
      return is_same(other->tensor, of->tensor);
    });
    if (!apart && !known && !is_computed(name)) own.push_back(slot);
  }
  return own;
}

void ShardedModule::broadcast_pending_buffers() {
  if (std::exchange(buffers_pending_, false)) broadcast_buffers();
}

// One message for each dtype and device. What arrives gets memory of its own, since a graph whose
// backward is still to come may have saved what was there.
void ShardedModule::broadcast_buffers() {
  if (!options_.broadcast_buffers || shares_groups_ || groups().ranks() == 1) return;
  const NoGrad no_grad;
  const Communicator& ranks = groups().all.defined() ? groups().all : groups().shard;
  std::vector<nn::Slot*> left = own_buffers();
  while (!left.empty()) {
    const DType dtype = left.front()->tensor.dtype();
    const Device device = left.front()->tensor.device();
    std::vector<nn::Slot*> parameters;
    int64_t count = 0;
    std::erase_if(left, [&](nn::Slot* slot) {
      if (slot->tensor.dtype() != dtype || slot->tensor.device() != device) return false;
      parameters.push_back(slot);
      count += slot->tensor.numel();
      return true;
    });
    const Array all = Array::empty({count}, dtype, device);
    const auto each = [&](const auto& fn) {
      int64_t begin = 0;
      for (nn::Slot* parameter : parameters) {
        const int64_t end = begin + parameter->tensor.numel();
        if (begin < end) fn(*parameter, all.slice(0, begin, end));
        begin = end;
      }
    };
    each([](const nn::Slot& slot, const Array& place) {
      Tensor(place).copy_(Tensor(slot.tensor.array().contiguous().reshape({place.numel()})));
    });
    ranks.broadcast(all, buffer_root_, {.unit = "buffers"});
    if (ranks.rank() == buffer_root_) continue;
    each([](nn::Slot& slot, const Array& place) {
      const Array values = place.reshape(slot.tensor.shape()).clone();
      if (slot.tensor.is_leaf()) {
        slot.tensor.set_data(values);
      } else {
        slot.tensor = Tensor(values);
      }
    });
  }
}

}  // namespace hero::dist
