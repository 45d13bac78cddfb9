// What a replica of buckets needs beside: parameters nobody used, and buckets in the order in which
// gradients become ready.
#include <algorithm>

#include <hero/dist/ladder/divide.h>
#include <hero/dist/ladder/replica.h>

namespace hero::dist {

std::string Replica::unused_names() const {
  std::string names;
  for (const ParameterEntry& entry : parameters_) {
    const Member& member = entry.unit->members()[entry.member];
    if (member.ready || !member.leaf.requires_grad() || member.full.grad().defined()) continue;
    if (member.aside.defined() || member.leaf.grad().defined()) continue;  // of a backward before
    names += (names.empty() ? "" : ", ") + member.name;
  }
  return names;
}

void Replica::agree_on_unused() {
  const Array used = Array::empty({static_cast<int64_t>(parameters_.size())}, kBool);
  const auto member = [&](size_t i) -> Member& {
    return parameters_[i].unit->members()[parameters_[i].member];
  };
  for (size_t i = 0; i < parameters_.size(); ++i) {
    used.data<bool>()[i] = member(i).full.grad().defined();
  }
  groups_.shard.all_reduce(used, {.op = ReduceOp::max, .unit = "used parameters"});
  const MemoryScope tag(MemoryTag::gradient);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& full = member(i).full;
    if (!used.data<bool>()[i] || full.grad().defined()) continue;
    full.set_grad(Tensor(Array::zeros(full.shape(), full.dtype(), full.device())));
  }
}

// PyTorch's DDP does this once, too: the first backward shows the real order.
void Replica::rebuild_buckets() {
  rebuilt_ = true;
  std::vector<int64_t> order;
  const auto append = [&](size_t id) {
    if (std::count(order.begin(), order.end(), static_cast<int64_t>(id)) > 0) return;
    order.push_back(static_cast<int64_t>(id));
  };
  for (const size_t id : ready_order_) append(id);
  for (size_t id = 0; id < parameters_.size(); ++id) append(id);  // those that were not used
  const Array shared = Array::from(order, {static_cast<int64_t>(order.size())});
  groups_.shard.broadcast(shared, 0, {.unit = "order of buckets"});
  order = shared.to_vector<int64_t>();
  std::vector<Member> members;
  for (const int64_t id : order) {
    const ParameterEntry& entry = parameters_[static_cast<size_t>(id)];
    members.push_back(entry.unit->members()[entry.member]);
  }
  units_.clear();
  module_states_.front()->units.clear();
  add_buckets(*this, std::move(members), options_.rebuild_first_bytes, options_.rebuild_bytes);
  index_parameters();
}

}  // namespace hero::dist
