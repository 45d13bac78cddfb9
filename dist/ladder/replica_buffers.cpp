// Buffers, such as the running means of a batch norm, of which each rank computes its own: rank 0's
// are those of all.
#include <algorithm>

#include <hero/autograd/grad_mode.h>
#include <hero/core/backend.h>
#include <hero/dist/ladder/divide.h>
#include <hero/dist/ladder/replica.h>

namespace hero::dist {

// [note: when buffers are sent] When the backward of a pass in training ends, since all ranks are
// there, and evaluation right behind it is the same on all ranks, or on one that evaluates alone.
// Without a backward, when the forward ends that nobody records, or before the next one. What has
// not been written since it was sent stays where it is: masks and tables cost nothing.

// Those of a module below that is shared by other ranks are its own replica's matter.
std::vector<std::pair<std::string, Tensor>> Replica::own_buffers() const {
  std::vector<std::pair<std::string, Tensor>> own;
  for (const auto& [name, buffer] : module().named_buffers()) {
    const auto is_in = [&, &full = name](const std::string& path) { return is_below(full, path); };
    const auto& alone = options_.alone_modules;
    const bool apart = std::any_of(alone.begin(), alone.end(), is_in) ||
                       std::any_of(nested_.begin(), nested_.end(), [&](const Nested& below) {
                         return !below.replica->shares_groups_ &&
                                std::any_of(below.paths.begin(), below.paths.end(), is_in);
                       });
    if (!apart && buffer.defined()) own.emplace_back(name, buffer);
  }
  return own;
}

void Replica::broadcast_all_buffers() {
  if (!options_.broadcast_buffers || shares_groups_ || groups_.ranks() == 1) return;
  std::vector<Tensor> all;
  for (const auto& [name, buffer] : own_buffers()) all.push_back(buffer);
  send_buffers(all);
}

// `and_first`: also those of which nothing is known yet.
void Replica::broadcast_changed_buffers(bool and_first) {
  if (!options_.broadcast_buffers || shares_groups_ || groups_.ranks() == 1) return;
  const auto own = own_buffers();
  std::vector<Tensor> changed;
  for (const auto& [name, buffer] : own) {
    const core::Storage& storage = buffer.array().storage();
    const auto known = same_buffers_.find(name);
    const bool first = known == same_buffers_.end();
    if (first ? and_first && options_.broadcast_first
              : known->second != std::pair(&storage, storage.version())) {
      changed.push_back(buffer);
    }
  }
  send_buffers(changed);
  for (const auto& [name, buffer] : own) {
    const core::Storage& storage = buffer.array().storage();
    if (same_buffers_.count(name) == 0 && !and_first && options_.broadcast_first) continue;
    same_buffers_[name] = {&storage, storage.version()};
  }
}

// One message for each dtype and device.
void Replica::send_buffers(const std::vector<Tensor>& buffers) {
  const NoGrad no_grad;
  const Communicator& ranks = groups_.all.defined() ? groups_.all : groups_.shard;
  std::vector<bool> sent(buffers.size());
  for (size_t first = 0; first < buffers.size(); ++first) {
    if (sent[first]) continue;
    std::vector<Array> members;
    int64_t count = 0;
    for (size_t i = first; i < buffers.size(); ++i) {
      const Array& values = buffers[i].array();
      if (values.dtype() != buffers[first].dtype() || values.device() != buffers[first].device()) {
        continue;
      }
      sent[i] = true;
      members.push_back(values);
      count += values.numel();
    }
    const MemoryScope tag(MemoryTag::communication);
    const Array all = Array::empty({count}, members[0].dtype(), members[0].device());
    const auto each = [&](const auto& fn) {
      int64_t begin = 0;
      for (const Array& member : members) {
        fn(member, all.slice(0, begin, begin + member.numel()));
        begin += member.numel();
      }
    };
    each([](const Array& member, const Array& place) {
      if (member.numel() > 0) Tensor(place).copy_(Tensor(member.contiguous().reshape({-1})));
    });
    ranks.broadcast(all, buffer_root_, {.unit = "buffers"});
    if (ranks.rank() == buffer_root_) continue;
    each([](const Array& member, const Array& place) {
      if (member.numel() > 0) Tensor(member).copy_(Tensor(place.reshape(member.shape())));
    });
  }
}

}  // namespace hero::dist
