// The parts of ShardedModule for buckets (DDP, ZeRO-1 and ZeRO-2): unused parameters, and buckets
// in the order in which gradients become ready.
#include <algorithm>
#include <unordered_set>

#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/data_parallel/wrap.h>

namespace hero::dist {

std::string ShardedModule::unused_names() const {
  std::string names;
  for (const ParameterEntry& entry : parameters_) {
    const UnitParameter& parameter = *entry.parameter;
    if (parameter.ready || !parameter.leaf.requires_grad() || parameter.has_own_gradient())
      continue;
    if (parameter.previous_grad.defined() || parameter.leaf.grad().defined())
      continue;  // of a backward before
    names += (names.empty() ? "" : ", ") + parameter.name;
  }
  return names;
}

void ShardedModule::agree_on_unused() {
  const Array used = Array::empty({static_cast<int64_t>(parameters_.size())}, kBool);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    used.data<bool>()[i] = parameters_[i].parameter->has_own_gradient();
  }
  groups().shard.all_reduce(used, {.op = ReduceOp::max, .unit = "used parameters"});
  const MemoryScope tag(MemoryTag::gradient);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& full = parameters_[i].parameter->full;
    if (!used.data<bool>()[i] || parameters_[i].parameter->has_own_gradient()) continue;
    full.set_grad(Tensor(Array::zeros(full.shape(), full.dtype(), full.device())));
  }
}

// What was not complete in this pass: some of its parameters were not used.
void ShardedModule::finish_units() {
  const bool buckets = options_.units.stage != Stage::parameters;
  for (size_t i = buckets ? next_bucket_ : 0; i < units_.size(); ++i) {
    Unit& unit = *units_[i];
    if (!parameters_[unit.parameters().front().id].state->policy.sync) continue;
    if (buckets || unit.has_gradients(when_all_reduced(unit))) reduce(unit);
  }
  next_bucket_ = units_.size();
}

// PyTorch's DDP does this once, too: the first backward shows the real order.
void ShardedModule::rebuild_buckets() {
  rebuilt_ = true;
  std::vector<int64_t> order;
  std::unordered_set<size_t> known;
  const auto append = [&](size_t id) {
    if (known.insert(id).second) order.push_back(static_cast<int64_t>(id));
  };
  for (const size_t id : ready_order_) append(id);
  for (size_t id = 0; id < parameters_.size(); ++id) append(id);  // those that were not used
  const Array shared = Array::from(order, {static_cast<int64_t>(order.size())});
  groups().shard.broadcast(shared, 0, {.unit = "order of buckets"});
  make_buckets(shared.to_vector<int64_t>());
}

// A hook's steps, and what they carry on, are of the same buckets in each step and each run.
void ShardedModule::set_hook(CommHook hook) {
  same_lines(groups().shard, "ddp: ranks registered different communication hooks",
             hook.name + "\n", "register the same hook on every rank", "communication hook");
  check(!hook.name.empty() && hook.run, "ddp: a communication hook needs a name and a function");
  check(!schedule_->in_backward() && !schedule_->in_forward(),
        "ddp: register_comm_hook() within forward or backward");
  hook_ = std::make_shared<const CommHook>(std::move(hook));
  std::vector<int64_t> order;
  for (size_t id = parameters_.size(); id-- > 0;) order.push_back(static_cast<int64_t>(id));
  if (rebuilt_) make_buckets(order);
  rebuilt_ = true;  // as they are
  for (size_t i = 0; i < units_.size(); ++i) {
    units_[i]->use_hook(hook_, static_cast<int>(i), i + 1 == units_.size());
  }
}

void ShardedModule::make_buckets(const std::vector<int64_t>& order) {
  std::vector<UnitParameter> parameters;
  for (const int64_t id : order) {
    const ParameterEntry& entry = parameters_[static_cast<size_t>(id)];
    parameters.push_back(*entry.parameter);
  }
  units_.clear();
  module_states_.front()->units.clear();
  add_buckets(*this, std::move(parameters), options_.rebuild_first_bytes, options_.rebuild_bytes);
  index_parameters();
}

}  // namespace hero::dist
