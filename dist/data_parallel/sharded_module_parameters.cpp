// The parts of ShardedModule for parameters and gradients outside of a step: conversions, summoned
// parameters, gathering again for backward, and gradients of earlier backward passes.
#include <algorithm>
#include <cstdio>

#include <hero/autograd/graph/engine.h>
#include <hero/core/functions/map.h>
#include <hero/core/io/crc32c.h>
#include <hero/dist/data_parallel/accumulate_scope.h>
#include <hero/dist/data_parallel/forward_writes.h>
#include <hero/dist/data_parallel/sharded_module.h>

namespace hero::dist {

// [note: a module that moves or ends] The module's hooks move with it and end with it: the first
// hook of the root notes where it is, and what that hook holds says that it is no more. From then
// on nobody may touch the slots, while backward and optimizers may still use the leaves.
void ShardedModule::note_module(ModuleState& state, size_t i, nn::Module& module) {
  if (nn::Module* const before = std::exchange(state.modules[i], &module); before != &module) {
    const auto former = state_at_.find(before);
    if (former != state_at_.end() && former->second == &state) state_at_.erase(former);
    if (i == 0) state_at_[&module] = &state;
  }
  if (&state != module_states_.front().get()) return;
  if (group_) {
    group_->set(i, module);
  } else {
    module_ = &module;
  }
}

std::shared_ptr<void> ShardedModule::end_of_module() {
  return {static_cast<void*>(this), [self = weak_from_this()](void*) {
            const auto sharded = self.lock();
            if (!sharded) return;
            sharded->module_ = nullptr;
            for (const auto& unit : sharded->units_) {
              for (UnitParameter& parameter : unit->parameters()) parameter.slots.clear();
            }
          }};
}

nn::Module& ShardedModule::module() const {
  check(module_ != nullptr,
        "the module that was given to DDP, ZeRO or fully_shard() is not there any more; keep it as "
        "long as their handle is used");
  return *module_;
}

Tensor ShardedModule::leaf_of(const nn::Slot& slot) const {
  const auto found = known_slots_.find(&slot);
  if (found != known_slots_.end()) return parameters_[found->second].parameter->leaf;
  // of a module below; or frozen or ignored, and what it is
  return optimizer_leaves({slot.tensor}).front();
}

void ShardedModule::keep_parameters() {
  const auto& alone = options_.alone;
  for (const auto& unit : units_) {
    for (UnitParameter& parameter : unit->parameters()) {
      known_[parameter.leaf.impl()] = known_[parameter.full.impl()] = parameter.id;
      for (const nn::Slot* slot : parameter.slots) known_slots_[slot] = parameter.id;
      if (!shards()) {
        watch(parameter);  // from the first backward on, whether its forward is seen or not
        continue;
      }
      set_parameter_owner(parameter.leaf, weak_from_this());
      set_parameter_owner(parameter.full, weak_from_this());
      if (!parameter.leaf.requires_grad()) continue;
      parameter.leaf.register_leaf_hook(
          [self = weak_from_this(), id = parameter.id](const Tensor&) {
            const auto sharded = self.lock();  // in join() a rank without data gets means, too
            if (sharded && !sharded->joining_) sharded->check_entered(id);
          });
    }
  }
  for (const auto& [name, slot] : module().slots()) {
    const Tensor& tensor = slot->tensor;
    const bool here = slot->kind == nn::Slot::Kind::parameter && tensor.defined() &&
                      tensor.numel() > 0 && !known_slots_.contains(slot);
    if (!here || parameter_owner(tensor) || gradient_reducer(tensor) || alone.contains(name))
      continue;
    frozen_.push_back({name, tensor, version_of(tensor)});
  }
  offer_refills();
}

// [note: a forward that nobody entered] What gathers, frees and averages hangs on the hooks around
// the modules' forward. A module with an operator() or loss() of its own that does not run them is
// found by its gradients: under DDP those that no rank would average, else those of a shard that
// was computed with as if it were the whole.
void ShardedModule::check_entered(size_t id) const {
  const ParameterEntry& entry = parameters_[id];
  if (entry.state->entered) return;
  const std::string& name = entry.parameter->name;
  fail(
      "backward: ", name, " of ", module().type_name(), " gets a gradient, but the forward of ",
      entry.state->modules.front()->type_name(),
      " was never entered, so that the ranks would not agree; call the module that was given to "
      "DDP, ZeRO or fully_shard(), and compute inside run_hooked() where it has its own operator() "
      "or loss()");
}

// A parameter that came into the module later, or was frozen when DDP or ZeRO took it, would be
// stepped by each rank's own gradients.
void ShardedModule::check_all_known() const {
  if (is_nested_ || groups().ranks() == 1) return;
  for (const auto& [name, slot] : module().slots()) {
    const Tensor& tensor = slot->tensor;
    if (slot->kind != nn::Slot::Kind::parameter || !tensor.requires_grad()) continue;
    if (tensor.numel() == 0 || known_slots_.contains(slot) || parameter_owner(tensor)) continue;
    check(options_.alone.contains(name), "forward: parameter '", name, "' of ",
          module().type_name(),
          " was frozen or not there when DDP, ZeRO or fully_shard() took the module, so that its "
          "gradients would differ from rank to rank; give them the module whole and trainable, and "
          "freeze parameters later, or name it among those to ignore");
  }
}

// Ranks that hold the same values must begin with the same. Where rank 0 does not send its own, or
// only some ranks have read a file since, they would train apart: a hash of the values goes with
// the first sum of gradients, once. Values on a GPU are not fetched for it.
void ShardedModule::declare_first_values() {
  const Communicator& same = shards() ? groups().replicas : groups().shard;
  if (std::exchange(compared_values_, true) || !same.defined() || same.size() == 1) return;
  if (same.backend_kind() == BackendKind::simulated || options_.units.offload.disk) return;
  uint32_t hash = 0;
  for (const ParameterEntry& entry : parameters_) {
    const Array& values = entry.parameter->leaf.array();
    if (values.device() != kCpu) return;
    const Array here = values.contiguous();
    hash = core::crc32c({here.bytes(), static_cast<size_t>(here.nbytes())}, hash);
  }
  char text[64];
  (void)std::snprintf(text, sizeof(text), "begin with parameters of hash %08x", hash);
  same.declare(text);
}

// See [note: writes in forward].
void ShardedModule::note_versions(const ModuleState& state) {
  if (&state != module_states_.front().get()) return;
  for (Frozen& each : frozen_) each.seen = version_of(each.tensor);
}

void ShardedModule::note_writes(const ModuleState& state) {
  if (groups().ranks() == 1) return;
  for (Unit* unit : state.units) wrote_ = unit->note_writes() || wrote_;
  if (&state != module_states_.front().get()) return;
  ForwardWrites writes;
  for (Frozen& each : frozen_) writes.add(each.name, each.tensor, each.seen);
  if (writes.empty()) return;
  frozen_writes_ = writes.text("forward", strategy_name(options_.units.stage), false);
  wrote_ = true;
}

void ShardedModule::take_over_whole(size_t unit, const Array& whole, bool written) {
  units_[unit]->take_over_whole(whole, written);
  wrote_ = wrote_ || (written && groups().ranks() > 1);
}

void ShardedModule::declare_writes() {
  if (!std::exchange(wrote_, false)) return;
  const auto tell = [this](const std::string& writes) {
    if (!writes.empty()) rank_group_->declare(writes);
  };
  for (const auto& unit : units_) tell(unit->take_writes());
  tell(std::exchange(frozen_writes_, {}));
}

// [note: a second derivative] The graph of a gradient that was recorded needs parameters that were
// freed when that gradient was there, and comes past no module that would gather them: what asks
// for a saved value of a freed flat parameter gathers its unit. All ranks walk the same graph in
// the same order, so they ask in the same order. The unit stays until this pass ends.
void ShardedModule::offer_refills() {
  refills_.clear();
  for (const auto& each : module_states_) {
    ModuleState* state = each.get();
    for (const Unit* unit : state->units) {
      if (!unit->owns_storage()) continue;
      refills_.push_back(
          std::make_unique<Refill>(unit->storage(), [self = weak_from_this(), state] {
            if (const auto sharded = self.lock()) sharded->fetch_again(*state);
          }));
    }
  }
}

void ShardedModule::fetch_again(ModuleState& state) {
  if (!backward_running()) return;
  schedule_->begin_backward();
  gather(state);
  wait_unsharded(state);
}

// [note: gradients of a backward before] A leaf's gradient may be there when backward begins: the
// mean that another backward of this step left. It is kept apart and added to the new mean, as
// shards do it, and not averaged once more; so all strategies have the same bits. Gradients that
// were added up under no_sync() are no mean and stay.
void ShardedModule::save_previous_grads() {
  const bool alone = groups().ranks() == 1 && options_.units.divide_by == 0.0;
  if (alone || (unsent_ && !shards())) return;
  const bool adds = std::any_of(parameters_.begin(), parameters_.end(), [](const auto& entry) {
    return entry.parameter->leaf.grad().defined();
  });
  // A rank that has left out zero_grad() would step apart from the others.
  if (adds) rank_group_->declare("backward adds to the gradients of one before");
  if (shards()) return;
  for (const ParameterEntry& entry : parameters_) {
    UnitParameter& parameter = *entry.parameter;
    parameter.previous_grad = parameter.full.grad();
    parameter.full.set_grad({});
  }
}

// What got no gradient in this pass has the one that it had.
void ShardedModule::restore_previous_grads() {
  if (shards()) return;
  for (const ParameterEntry& entry : parameters_) {
    UnitParameter& parameter = *entry.parameter;
    if (!parameter.previous_grad.defined()) continue;
    const Tensor grad = parameter.full.grad();
    if (grad.defined()) {
      core::map_into<core::kernels::Add>(parameter.previous_grad.array(),
                                         parameter.previous_grad.array(), grad.array());
    }
    parameter.full.set_grad(std::exchange(parameter.previous_grad, {}));
  }
}

void ShardedModule::clear_gradient(const Tensor& leaf, bool set_to_none) {
  const auto found = known_.find(leaf.impl());
  if (found == known_.end() || !shards()) return;
  const ParameterEntry& entry = parameters_[found->second];
  UnitParameter& parameter = *entry.parameter;
  parameter.full.set_grad({});
  parameter.accumulated = {};
  parameter.unreduced = {};
  parameter.lost_gradient = false;
  if (is_same(leaf, parameter.leaf) || !parameter.leaf.grad().defined()) return;
  if (set_to_none) {
    parameter.leaf.set_grad({});
  } else {
    const NoGrad no_grad;
    parameter.leaf.grad().zero_();
  }
}

void ShardedModule::check_averaged(const Tensor& leaf, const char* op) const {
  if (schedule_->in_backward() && !backward_running()) schedule_->reset(true);  // that one threw
  const auto found = known_.find(leaf.impl());
  if (found != known_.end() && op[0] != 'z')
    check_no_lost_gradient(op, *parameters_[found->second].parameter);
  if (found == known_.end() || !sync() || gradients_stay_ || AccumulateScope::active()) return;
  const ParameterEntry& entry = parameters_[found->second];
  if (!has_unreduced(entry)) return;
  const std::string& name = entry.parameter->name;
  fail(op, ": '", name, "'", module_ ? " of " + module().type_name() : "",
       " still owes the ranks a gradient that was added up while averaging was off (no_sync() or "
       "set_requires_gradient_sync(false)); run a backward pass with averaging on before, or do "
       "this within no_sync() if it shall ",
       op[0] == 'z' ? "be dropped" : "not count");
}

void ShardedModule::check_no_lost_gradient(const char* op, const UnitParameter& parameter) {
  check(!parameter.lost_gradient, op, ": '", parameter.name,
        "' got a gradient while summon_full_parameters() showed it whole, which no shard has; give "
        "gradients to the shards, or call zero_grad() to drop it");
}

void ShardedModule::declare_gradients(const char* op) const {
  if (!averages() || groups().ranks() == 1) return;
  const auto count = std::count_if(
      parameters_.begin(), parameters_.end(),
      [](const ParameterEntry& entry) { return entry.parameter->leaf.grad().defined(); });
  const auto all = static_cast<std::ptrdiff_t>(parameters_.size());
  if (count == all) return;  // as is usual
  rank_group_->declare(std::string(op) + " by gradients of " + std::to_string(count) + " of " +
                       std::to_string(all) + " parameters");
}

Tensor ShardedModule::optimizer_leaf(const Tensor& tensor) const {
  const UnitParameter* parameter = parameter_of(tensor);
  return parameter != nullptr ? parameter->leaf : tensor;
}

const UnitParameter* ShardedModule::parameter_of(const Tensor& tensor) const {
  const auto found = known_.find(tensor.impl());
  return found != known_.end() ? parameters_[found->second].parameter : nullptr;
}

std::optional<std::vector<HeldPart>> ShardedModule::parts_of(const Tensor& leaf) const {
  const UnitParameter* parameter = parameter_of(leaf);
  if (parameter == nullptr || parameter->former) return {};
  return parameters_[parameter->id].unit->parts_of(*parameter);
}

std::vector<Unit*> ShardedModule::units_of(const std::vector<Tensor>& leaves) const {
  std::unordered_set<const Unit*> with_leaves;
  for (const Tensor& leaf : leaves) {
    const UnitParameter* parameter = parameter_of(leaf);
    if (parameter != nullptr) with_leaves.insert(parameters_[parameter->id].unit);
  }
  std::vector<Unit*> found;
  for (const auto& unit : units_) {
    if (with_leaves.contains(unit.get())) found.push_back(unit.get());
  }
  return found;
}

std::string ShardedModule::describe_reducer() const {
  const std::string strategy = shards() ? "ZeRO or fully_shard()" : "DDP";
  return strategy + (module_ == nullptr ? "" : " of " + module().type_name());
}

std::vector<int> ShardedModule::averaging_ranks() const {
  const std::span<const int> ranks =
      groups().all.defined() ? groups().all.world_ranks() : groups().shard.world_ranks();
  return {ranks.begin(), ranks.end()};
}

double ShardedModule::average_loss(double loss, const char* op) {
  check(averages() || groups().ranks() == 1, op, ": the gradients of ", describe_reducer(),
        " are not averaged now, as within no_sync(), so that ranks would step apart; step outside "
        "of it");
  const Array mean = Array::full({1}, loss, kFloat64);
  groups().shard.all_reduce(
      mean, {.op = ReduceOp::mean, .divide_by = options_.units.divide_by, .unit = op});
  return mean.item<double>();
}

int64_t ShardedModule::largest(int64_t number, const char* op) {
  const Array x = Array::full({1}, number, kInt64);
  const Communicator& ranks = groups().all.defined() ? groups().all : groups().shard;
  ranks.all_reduce(x, {.op = ReduceOp::max, .unit = op});
  return x.item<int64_t>();
}

std::string ShardedModule::describe(const Tensor& leaf) const {
  const UnitParameter* parameter = parameter_of(leaf);
  if (parameter == nullptr || module_ == nullptr) return "a shard";
  return parameter->name + " of " + module().type_name() + " is sharded over " +
         std::to_string(groups().shard.size()) + " ranks (here: " + describe_part(parameter->leaf) +
         ")";
}

void ShardedModule::check_convertible(const std::vector<Tensor>& leaves,
                                      std::optional<Device> device) const {
  check(!schedule_->in_forward() && !schedule_->in_backward(), "to: ", module().type_name(),
        " is sharded and inside forward or backward; convert it between two steps");
  check(!summoned_, "to: the parameters of ", module().type_name(),
        " are shown whole by summon_full_parameters(), which must end before");
  std::unordered_set<const UnitParameter*> all_given;
  for (const Tensor& leaf : leaves) all_given.insert(parameter_of(leaf));
  for (const Unit* unit : units_of(leaves)) {
    for (const UnitParameter& parameter : unit->parameters()) {
      const bool given = all_given.contains(&parameter);
      check(given, "to: ", parameter.name, " of ", module().type_name(), " is in unit '",
            unit->name(),
            "' together with what is to be converted, and a unit has one dtype and device; convert "
            "the module that was sharded, or give the part a unit of its own");
    }
    if (!device) continue;
    check(!unit->crosses_to_device() || *device == unit->device(), "to: the shards of ",
          module().type_name(), " are offloaded from ", unit->device(),
          ", where they are computed with, and cannot go to ", *device,
          "; move the module before it is sharded");
    const bool meta = unit->device().type == DeviceType::meta;
    check(meta == (device->type == DeviceType::meta), "to: the shards of ", module().type_name(),
          " cannot go to ", *device);
  }
}

void ShardedModule::convert(const std::vector<Tensor>& leaves, std::optional<DType> dtype,
                            std::optional<Device> device) {
  reset_own(false,
            false);  // it is between two steps, see check_convertible(), and so are the others
  for (Unit* unit : units_of(leaves)) {
    const Tensor& leaf = unit->parameters().front().leaf;
    unit->convert(dtype.value_or(leaf.dtype()), device.value_or(unit->device()));
  }
  offer_refills();
}

void ShardedModule::show(const std::vector<Array>& flat_parameters) {
  for (size_t i = 0; i < flat_parameters.size(); ++i) {
    units_[i]->show(flat_parameters[i]);
    for (const UnitParameter& parameter : units_[i]->parameters()) {
      set_parameter_owner(parameter.shown, weak_from_this());
      known_[parameter.shown.impl()] = parameter.id;
    }
  }
  summoned_ = true;
}

void ShardedModule::check_not_summoned(const char* what) const {
  check(!summoned_, what, ": the whole parameters of ", module().type_name(),
        " are summoned; end the scope of summon_full_parameters() first");
}

void ShardedModule::hide() {
  for (const auto& unit : units_) {
    for (const UnitParameter& parameter : unit->parameters()) known_.erase(parameter.shown.impl());
    unit->hide();
  }
  summoned_ = false;
}

}  // namespace hero::dist
