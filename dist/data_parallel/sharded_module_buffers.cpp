// Broadcasting rank 0's buffers, such as the running means of a batch norm, which each rank
// computes from its own batches.
#include <algorithm>
#include <unordered_set>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/data_parallel/wrap.h>

namespace hero::dist {

// [note: when buffers are sent] When the backward of a pass in training ends, since all ranks are
// there, and evaluation right behind it is the same on all ranks, or on one that evaluates alone.
// Without a backward, when the forward ends that nobody records, or before the next one. Whether
// one rank has written to them does not matter: all are sent, as the others cannot know.

namespace {

// Of "fc.parametrizations.weight.original" that is "fc.weight".
void add_computed(const std::string& name, std::unordered_set<std::string>& computed) {
  const std::string list = "parametrizations.";
  for (size_t at = name.find(list); at != std::string::npos; at = name.find(list, at + 1)) {
    const size_t begin = at + list.size(), end = name.find('.', begin);
    if ((at > 0 && name[at - 1] != '.') || end == std::string::npos) continue;
    computed.insert(name.substr(0, at) + name.substr(begin, end - begin));
  }
}

}  // namespace

// Those of a module below that is shared by other ranks are its own matter; what is
// computed from parameters is no buffer, though it lies in such a slot.
std::vector<nn::Slot*> ShardedModule::own_buffers() const {
  const auto slots = module().slots();
  std::unordered_set<std::string> computed;
  for (const auto& [name, slot] : slots) add_computed(name, computed);
  ModulePaths apart = options_.alone_modules;
  for (const Nested& below : nested_) {
    for (const std::string& path : below.paths) {
      if (!below.module->shares_groups_) apart.add(path);
    }
  }
  std::vector<nn::Slot*> own;
  std::unordered_set<const detail::TensorImpl*> known;
  for (const auto& [name, slot] : slots) {
    if (slot->kind == nn::Slot::Kind::parameter || !slot->tensor.defined()) continue;
    if (apart.hold(name) || computed.contains(name)) continue;
    if (known.insert(slot->tensor.impl()).second) own.push_back(slot);
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
