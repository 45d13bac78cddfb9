#include <algorithm>
#include <functional>
#include <utility>

#include <hero/autograd/graph/engine.h>
#include <hero/dist/data_parallel/accumulate_scope.h>
#include <hero/dist/data_parallel/batch_parts.h>
#include <hero/dist/data_parallel/sharded_module.h>

namespace hero::dist {
namespace {

nn::Tensors converted(const nn::Tensors& list, std::optional<DType> dtype) {
  if (!dtype) return {};
  nn::Tensors out = list;
  for (Tensor& tensor : out) {
    if (tensor.defined() && is_floating(tensor.dtype())) tensor = tensor.to(*dtype);
  }
  return out;
}

}  // namespace

bool ShardedModule::averages() const {
  return sync() && !gradients_stay_ && (shards() || !AccumulateScope::active());
}

const char* name(Event::Kind kind) {
  constexpr const char* names[] = {"gather", "use", "free", "reduce", "reduced"};
  return names[static_cast<int>(kind)];
}

ShardedModule::ShardedModule(nn::Module& module, Groups groups, const ShardedModuleOptions& options)
    : ShardedModule(nullptr, {&module}, std::move(groups), options) {}

ShardedModule::ShardedModule(std::unique_ptr<ModuleGroup> group,
                             const std::vector<nn::Module*>& modules, Groups groups,
                             const ShardedModuleOptions& options)
    : group_(std::move(group)),
      module_(group_ ? group_.get() : modules.front()),
      options_(options),
      rank_group_(CommunicatorGroup::of(groups.shard, groups.replicas)),
      schedule_(std::make_shared<UnitSchedule>(*this)) {
  options_.units.groups = std::move(groups);
  options_.units.disk_order = schedule_->disk_order();
  module_states_.push_back(std::make_unique<ModuleState>(ModuleState{this, modules}));
  module_states_.front()->policy.reshard_after_forward = options.reshard_after_forward;
  state_at_ = {{module_, module_states_.front().get()},
               {modules.front(), module_states_.front().get()}};
}

void ShardedModule::add_unit(nn::Module& module, std::string name,
                             std::vector<UnitParameter> parameters) {
  ModuleState*& known = state_at_[&module];
  if (known == nullptr) {
    module_states_.push_back(
        std::make_unique<ModuleState>(ModuleState{this, std::vector<nn::Module*>{&module}}));
    known = module_states_.back().get();
  }
  ModuleState& state = *known;
  units_.push_back(
      std::make_unique<Unit>(std::move(name), std::move(parameters), options_.units, rank_group_));
  state.units.push_back(units_.back().get());
  state.policy.reshard_after_forward = options_.reshard_after_forward;
}

void ShardedModule::install() {
  index_parameters();
  if (!nested_.empty()) schedule_->order_disk();
  keep_parameters();
  for (const auto& state : module_states_) {
    state->passed.resize(state->modules.size());
    for (size_t i = 0; i < state->modules.size(); ++i) register_hooks(*state, i);
  }
}

// The module's hooks keep this alive, not the other way round.
void ShardedModule::register_hooks(ModuleState& hooked, size_t i) {
  const auto self = shared_from_this();
  ModuleState* const state = &hooked;
  nn::Module& module = *state->modules[i];
  const bool root = state == module_states_.front().get();
  module.register_forward_pre_hook(
      [self, state, i, end = root ? end_of_module() : nullptr](nn::Module& of,
                                                               const nn::Tensors& in) {
        self->note_module(*state, i, of);
        return self->before_forward(*state, i, in);
      },
      {.for_parameters = true, .prepend = true});  // others compute with whole parameters
  module.register_forward_hook(
      [self, state, i](nn::Module&, const nn::Tensors&, const nn::Tensors& out) {
        return self->after_forward(*state, i, out);
      },
      {.always_call = true, .for_parameters = true});
  set_batch_part_within(module, groups());
  // Also where there is nothing to gather: what a checkpoint within the module computes again in
  // backward needs whole parameters, and they are shown from here on.
  if (!shards()) return;
  module.register_full_backward_pre_hook(
      [self, state](nn::Module&, const nn::Tensors&) { self->before_backward(*state); },
      {.for_parameters = true});
  if (!(root || frees(*state))) return;
  module.register_full_backward_hook(
      [self, state](nn::Module&, const nn::Tensors& in, const nn::Tensors&) {
        if (!in.empty()) self->after_backward(*state);
      },
      {.for_parameters = true});
}

bool ShardedModule::frees(const ModuleState& state) {
  return std::any_of(state.units.begin(), state.units.end(),
                     [](const Unit* unit) { return unit->owns_storage(); });
}

// From forward to backward; what has no memory to free stays too.
bool ShardedModule::stays_gathered(const ModuleState& state) const {
  return schedule_->is_outermost(state) || !state.policy.reshard_after_forward || !frees(state);
}

void ShardedModule::index_parameters() {
  parameters_.clear();
  for (const auto& state : module_states_) {
    for (Unit* unit : state->units) {
      for (UnitParameter& parameter : unit->parameters()) {
        parameters_.resize(std::max(parameters_.size(), parameter.id + 1));
        parameters_[parameter.id] = {unit, &parameter, state.get()};
      }
    }
  }
}

void ShardedModule::emit(Event::Kind kind, const Unit& unit) const {
  if (events_) events_({kind, unit.name()});
}

void ShardedModule::gather(ModuleState& state) {
  for (Unit* unit : state.units) {
    if (!unit->sharded()) continue;
    declare_writes();
    unit->unshard();
    if (unit->moves()) emit(Event::Kind::gather, *unit);
  }
}

void ShardedModule::wait_unsharded(ModuleState& state) {
  for (Unit* unit : state.units) {
    unit->wait_unsharded();
    if (unit->owns_storage()) emit(Event::Kind::use, *unit);
    for (UnitParameter& parameter : unit->parameters()) watch(parameter);
  }
}

void ShardedModule::watch(UnitParameter& parameter) {
  if (parameter.watched || !parameter.leaf.requires_grad()) return;
  parameter.watched = true;
  // The graph may outlive the module.
  const auto ready = [self = weak_from_this(), id = parameter.id](const Tensor&) {
    if (const auto sharded = self.lock()) sharded->gradient_ready(id);
  };
  parameter.full.register_leaf_hook(AveragingHook{weak_from_this(), ready});
  if (shards()) {
    parameter.full.register_hook([self = weak_from_this(),
                                  id = parameter.id](const Tensor& gradient) {
      const auto sharded = self.lock();
      return sharded ? apply_leaf_hooks(*sharded->parameters_[id].parameter, gradient) : Tensor();
    });
    return;
  }
  // Before the gradient is added to what the leaf has.
  parameter.full.register_hook([self = weak_from_this()](const Tensor&) {
    if (const auto sharded = self.lock()) sharded->schedule_->begin_backward();
    return Tensor();
  });
}

void ShardedModule::free(ModuleState& state) {
  if (keeps_gathered_) return;
  state.held = false;
  for (Unit* unit : state.units) {
    if (unit->sharded()) continue;
    unit->reshard();
    if (unit->owns_storage()) emit(Event::Kind::free, *unit);
  }
}

void ShardedModule::reset_own(bool threw, bool keep_held) {
  if (threw) {
    for (const auto& unit : units_) unit->drop_gradients();
  }
  restore_previous_grads();
  touched_ = false;
  next_bucket_ = 0;
  for (const auto& state : module_states_) {
    if (!keep_held || !state->held || stale(*state)) free(*state);
    state->begun = state->ended = 0;
    state->passed.assign(state->passed.size(), false);
  }
  for (const auto& unit : units_) unit->wait_offload();
  for (const auto& unit : units_) unit->begin_pass();
}

void ShardedModule::rest() {
  if (!shards() || summoned_) return;
  for (const auto& unit : units_) unit->rest();
}

bool ShardedModule::recomputing() const { return schedule_->in_backward() && backward_running(); }

void ShardedModule::start_forward() {
  for (const ShardedModule* sharded : all()) {
    sharded->check_not_summoned("forward");
    for (const auto& unit : sharded->units_) {
      unit->check_slots("forward");
      for (const UnitParameter& parameter : unit->parameters())
        check_no_lost_gradient("forward", parameter);
    }
  }
  schedule_->begin_forward();
  if (joining_) tell_before_forward();
  for (ShardedModule* sharded : all()) {  // ranks without data run no forward that could agree
    const bool asks = !joining_ && sharded->groups().ranks() > 1 && !sharded->shares_groups_;
    if (asks) GradientReducerScope::enter(sharded->shared_from_this());
  }
  // A rank that has no data knows no order, and one may evaluate alone.
  if (options_.rebuild_bytes > 0 && !ready_order_.empty() && !rebuilt_ && !joining_ &&
      grad_enabled()) {
    rebuild_buckets();
  }
}

// Of several modules that are one unit a pass begins with the first whose forward begins, and the
// unit is freed behind the last.
nn::Tensors ShardedModule::before_forward(ModuleState& state, size_t module,
                                          const nn::Tensors& inputs) {
  // A checkpoint runs forward again inside backward: what it needs stays until its own backward.
  const bool again = recomputing();
  const bool outermost = schedule_->is_outermost(state);
  if (!again && state.passed[module]) state.passed.assign(state.passed.size(), false);
  const bool first = std::none_of(state.passed.begin(), state.passed.end(), std::identity());
  if (!again && outermost && first) start_forward();
  if (!again && schedule_->in_backward()) schedule_->reset(true);  // that one threw
  state.entered = state.entered || grad_enabled();
  if (!again && stale(state)) free(state);
  gather(state);
  wait_unsharded(state);
  note_versions(state);
  const bool begins = !again && first && &state == module_states_.front().get();
  const bool training = modules().front()->training();
  if (begins && grad_enabled()) check_all_known();
  // a checkpoint around all of the module computes with the buffers that it had
  if (begins && !backward_running()) {
    if (joining_ && training) broadcast_buffers();
    if (!joining_) broadcast_pending_buffers();
    buffers_pending_ = training;
  }
  if (!again) schedule_->prefetch_forward(state);
  return converted(inputs, options_.units.gathered);
}

nn::Tensors ShardedModule::after_forward(ModuleState& state, size_t module,
                                         const nn::Tensors& outputs) {
  note_writes(state);
  if (recomputing()) return {};
  state.passed[module] = true;
  const bool last = std::all_of(state.passed.begin(), state.passed.end(), std::identity());
  const bool outermost = schedule_->is_outermost(state);
  const bool fails = outputs.empty();
  const auto leave = [&](ModuleState& of) {
    if (fails || !grad_enabled() || !of.owner->stays_gathered(of)) of.owner->free(of);
  };
  if (fails || last || (outermost && !grad_enabled())) leave(state);
  if (fails || last) state.passed.assign(state.passed.size(), false);
  if (outermost) {
    schedule_->end_forward();
    for (ShardedModule* sharded : schedule_->modules()) {
      for (const auto& other : sharded->module_states_) leave(*other);  // prefetched and not used
      for (const auto& unit : sharded->units_) unit->wait_offload();
    }
    if (fails) schedule_->reset(true);
  }
  if (!fails && shards() && grad_enabled() && !schedule_->in_forward()) {
    schedule_->watch_graph(outputs);
  }
  if (!fails && outermost && !grad_enabled() && !joining_) {
    for (ShardedModule* sharded : schedule_->modules()) sharded->broadcast_pending_buffers();
  }
  return fails || &state != module_states_.front().get()
             ? nn::Tensors{}
             : converted(outputs, options_.output_dtype);
}

void ShardedModule::before_backward(ModuleState& state) {
  schedule_->begin_backward();
  ++state.begun;
  if (stale(state)) free(state);
  gather(state);
  wait_unsharded(state);
  schedule_->prefetch_backward(state);
}

void ShardedModule::after_backward(ModuleState& state) {
  ++state.ended;
  free_if_done(state);
}

// [note: when gathered parameters are freed in backward] When all gradients of the module's
// parameters are complete in this pass, so that the backward of each of its forwards that belongs
// to the pass has begun, and each has come through to the module's inputs: a frozen layer may need
// its weights after the last gradient. Where the inputs want no gradient nobody can tell; then at
// the end of the pass, which is near. Forwards whose backward belongs to another pass do not
// matter.
void ShardedModule::free_if_done(ModuleState& state) {
  if (options_.units.stage != Stage::parameters || state.begun == 0) return;
  if (state.ended < state.begun || !state.policy.reshard_after_backward) return;
  const auto waits = [](Unit* unit) { return !unit->is_complete(); };
  // In the first part of a pass no gradient of a parameter comes: see autograd/graph/deferred.h.
  if (!backward_has_rest() && std::any_of(state.units.begin(), state.units.end(), waits)) return;
  free(state);
}

void ShardedModule::gradient_ready(size_t id) {
  if (!backward_running()) return;
  const ParameterEntry& entry = parameters_[id];
  check_entered(id);
  schedule_->begin_backward();
  schedule_->touch();
  touched_ = true;
  entry.parameter->ready = true;
  if (averages() && !rebuilt_ && options_.rebuild_bytes > 0) ready_order_.push_back(id);
  if (!entry.unit->is_complete()) return;
  if (!averages() || !entry.state->policy.sync) {
    entry.unit->accumulate();
  } else if (options_.unused != Unused::agree) {
    reduce_ready(*entry.unit);
  }
  free_if_done(*entry.state);
}

// Buckets are reduced in their order, so that ranks whose gradients become ready in different
// orders agree; units of modules as they become ready, so that none waits with its gradients.
void ShardedModule::reduce_ready(Unit& unit) {
  if (options_.units.stage == Stage::parameters) return reduce(unit);
  while (next_bucket_ < units_.size() && units_[next_bucket_]->is_complete()) {
    reduce(*units_[next_bucket_++]);
  }
}

void ShardedModule::reduce(Unit& unit) {
  // One bucket at a time where buckets are freed; where they stay nobody needs to wait. What went
  // host before had the time of one unit's backward.
  schedule_->add_arrived();
  declare_writes();
  declare_first_values();
  if (options_.units.stage >= Stage::gradients) schedule_->advance();
  unit.begin_reduce(when_all_reduced(unit));
  if (hook_) schedule_->advance_hooks();
  emit(Event::Kind::reduce, unit);
  schedule_->add(*this, unit);
}

AllReduce ShardedModule::when_all_reduced(const Unit& unit) const {
  const ModuleState& state = *parameters_[unit.parameters().front().id].state;
  return all_reduce_ && state.policy.all_reduce ? AllReduce::now : AllReduce::later;
}

// At the end of a pass. Buckets of which the pass reached none are left alone, unless something was
// left from before, or others may have reached them.
std::string ShardedModule::finish_gradients() {
  if (!averages()) return "";
  const bool buckets = options_.units.stage != Stage::parameters;
  if (buckets && !touched_ && !has_unreduced() && options_.unused != Unused::agree) return "";
  if (options_.unused == Unused::agree) agree_on_unused();
  std::string missing;
  if (options_.unused == Unused::error) missing = unused_names();
  if (missing.empty()) {
    finish_units();
  } else if (shards()) {  // what nobody can complete
    for (const auto& unit : units_) unit->drop_gradients();
  }
  return missing;
}

// What stays gathered is what unshard() would have gathered for the next forward.
void ShardedModule::end_pass() {
  if (averages() || touched_) unsent_ = !averages() && !gradients_stay_;
  for (const auto& unit : units_) unit->accumulate();  // also where the pass reached a part
  for (const auto& state : module_states_) {
    state->held = !state->policy.reshard_after_backward;
    for (Unit* unit : state->units) {
      if (state->held) unit->rest();
    }
  }
  if (averages() && !joining_) broadcast_pending_buffers();
  if (sync() && unsent_) {  // inside an AccumulateScope
    AccumulateScope::average_later(this, [schedule = schedule_] { schedule->average_unreduced(); });
  }
}

bool ShardedModule::has_unreduced(const ParameterEntry& entry) const {
  const UnitParameter& parameter = *entry.parameter;
  if (!shards()) return unsent_ && groups().ranks() > 1 && parameter.leaf.grad().defined();
  if (!entry.state->policy.sync) return false;
  return parameter.has_own_gradient() ||
         (parameter.unreduced.defined() && all_reduce_ && entry.state->policy.all_reduce);
}

bool ShardedModule::has_unreduced() const {
  return averages() && std::any_of(parameters_.begin(), parameters_.end(),
                                   [this](const auto& entry) { return has_unreduced(entry); });
}

std::string ShardedModule::name_of(const Tensor& leaf) const {
  const UnitParameter* parameter = parameter_of(leaf);
  return parameter != nullptr ? parameter->name : "";
}

}  // namespace hero::dist
