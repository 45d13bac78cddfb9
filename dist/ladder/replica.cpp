#include <algorithm>
#include <utility>

#include <hero/autograd/graph/engine.h>
#include <hero/dist/ladder/add_up_scope.h>
#include <hero/dist/ladder/replica.h>

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

bool Replica::averages() const {
  return sync() && !gradients_stay_ && (shards() || !AddUpScope::active());
}

const char* name(Event::Kind kind) {
  constexpr const char* names[] = {"gather", "use", "free", "reduce", "reduced"};
  return names[static_cast<int>(kind)];
}

Replica::Replica(nn::Module& module, Groups groups, const ReplicaOptions& options)
    : module_(&module),
      groups_(std::move(groups)),
      options_(options),
      owners_(std::make_shared<GroupOwners>(groups_.shard, groups_.replicas)) {
  if (options_.units.offload.disk) options_.units.disk_order = std::make_shared<DiskOrder>();
  module_states_.push_back(std::make_unique<ModuleState>(ModuleState{&module}));
  module_states_.front()->reshard = options.reshard_after_forward;
}

void Replica::add_unit(nn::Module& module, std::string name, std::vector<Member> members) {
  const auto known = std::find_if(module_states_.begin(), module_states_.end(),
                                  [&](const auto& state) { return state->module == &module; });
  const bool here = known != module_states_.end();
  if (!here) module_states_.push_back(std::make_unique<ModuleState>(ModuleState{&module}));
  ModuleState& state = here ? **known : *module_states_.back();
  units_.push_back(std::make_unique<Unit>(std::move(name), std::move(members), groups_,
                                          options_.units, owners_));
  state.units.push_back(units_.back().get());
  state.reshard = options_.reshard_after_forward;
}

void Replica::install() {
  index_parameters();
  keep_parameters();
  for (const auto& each : module_states_) {
    ModuleState* state = each.get();
    // The module's hooks keep the replica alive, not the other way round.
    const auto self = shared_from_this();
    const bool root = each == module_states_.front();
    state->module->register_forward_pre_hook(
        [self, state, end = root ? end_of_module() : nullptr](nn::Module& module,
                                                              const nn::Tensors& in) {
          self->meet(*state, module);
          return self->before_forward(*state, in);
        },
        {.for_parameters = true, .prepend = true});  // others compute with whole parameters
    state->module->register_forward_hook(
        [self, state](nn::Module&, const nn::Tensors&, const nn::Tensors& out) {
          return self->after_forward(*state, out);
        },
        {.always_call = true, .for_parameters = true});
    // One rank alone gathers and frees nothing; the root tells that backward begins. Between
    // forward and backward buckets are freed only where another backward came, but what a
    // checkpoint then computes again needs them before anything asks for a saved value.
    if (!shards() || !(root || frees(*state))) continue;
    state->module->register_full_backward_pre_hook(
        [self, state](nn::Module&, const nn::Tensors&) { self->before_backward(*state); },
        {.for_parameters = true});
    state->module->register_full_backward_hook(
        [self, state](nn::Module&, const nn::Tensors& in, const nn::Tensors&) {
          if (!in.empty()) self->after_backward(*state);
        },
        {.for_parameters = true});
  }
}

bool Replica::frees(const ModuleState& state) {
  return std::any_of(state.units.begin(), state.units.end(),
                     [](const Unit* unit) { return unit->owns_storage(); });
}

// From forward to backward. What has no memory to free stays too: nothing would gather it again for
// what a checkpoint within the module computes in backward.
bool Replica::stays_gathered(const ModuleState& state) const {
  return is_outermost(state) || !state.reshard || !frees(state);
}

void Replica::index_parameters() {
  size_t count = 0;
  for (const auto& unit : units_) count += unit->members().size();
  parameters_.resize(count);
  for (const auto& state : module_states_) {
    for (Unit* unit : state->units) {
      for (size_t i = 0; i < unit->members().size(); ++i) {
        parameters_.at(unit->members()[i].id) = {unit, i, state.get()};
      }
    }
  }
}

void Replica::emit(Event::Kind kind, const Unit& unit) const {
  if (events_) events_({kind, unit.name()});
}

void Replica::gather(ModuleState& state) {
  for (Unit* unit : state.units) {
    if (!unit->sharded()) continue;
    unit->unshard();
    if (unit->moves()) emit(Event::Kind::gather, *unit);
  }
}

void Replica::wait_unsharded(ModuleState& state) {
  for (Unit* unit : state.units) {
    unit->wait_unsharded();
    if (unit->owns_storage()) emit(Event::Kind::use, *unit);
    for (Member& member : unit->members()) watch(member);
  }
}

void Replica::watch(Member& member) {
  if (member.watched || !member.leaf.requires_grad()) return;
  member.watched = true;
  // The graph may outlive the module.
  const auto ready = [self = weak_from_this(), id = member.id](const Tensor&) {
    if (const auto replica = self.lock()) replica->gradient_ready(id);
  };
  member.full.register_leaf_hook(AveragingHook{weak_from_this(), ready});
  if (shards()) return;
  // Before the gradient is added to what the leaf has.
  member.full.register_hook([self = weak_from_this()](const Tensor&) {
    if (const auto replica = self.lock()) replica->begin_backward();
    return Tensor();
  });
}

void Replica::free(ModuleState& state) {
  if (keeps_gathered_) return;
  state.held = false;
  for (Unit* unit : state.units) {
    if (unit->sharded()) continue;
    unit->reshard();
    if (unit->owns_storage()) emit(Event::Kind::free, *unit);
  }
}

void Replica::reset(bool keep_held) {
  if (in_backward_) {  // it threw
    for (const auto& unit : units_) unit->drop_gradients();
  }
  take_back();
  reducing_.clear();
  landing_.clear();
  in_backward_ = false;
  touched_ = false;
  in_forward_ = false;
  next_bucket_ = 0;
  for (const auto& state : module_states_) {
    if (!keep_held || !state->held || stale(*state)) free(*state);
    state->begun = state->ended = 0;
  }
  for (const auto& unit : units_) unit->wait_home();
  for (const ParameterEntry& entry : parameters_) entry.unit->members()[entry.member].ready = false;
}

bool Replica::recomputing() const { return in_backward_ && backward_running(); }

void Replica::start_forward() {
  for (const Replica* replica : all()) replica->check_not_summoned("forward");
  for (Replica* replica : all()) replica->reset(true);
  if (joining_) tell_before_forward();
  // A rank that has no data knows no order, and one may evaluate alone.
  if (options_.rebuild_bytes > 0 && !ready_order_.empty() && !rebuilt_ && !joining_ &&
      grad_enabled()) {
    rebuild_buckets();
  }
  former_order_ = std::move(order_);
  order_.clear();
  in_forward_ = true;
}

void Replica::broadcast_buffers() const {
  if (!options_.broadcast_buffers) return;
  for (const auto& [name, buffer] : module().named_buffers()) {
    groups_.shard.broadcast(buffer.array(), buffer_root_, {.unit = "buffers"});
  }
}

ModuleState* Replica::next_to_prefetch() const {
  const size_t at = order_.size();  // of the module that comes next
  if (at >= former_order_.size() || former_order_[at - 1] != order_.back()) return nullptr;
  return former_order_[at];
}

// Begins to read what will be gathered after the module that is gathered next. The root's
// parameters stay gathered, so backward does not come to them.
void Replica::read_ahead(const ModuleState* state) const {
  if (state == nullptr || state == module_states_.front().get()) return;
  for (const Unit* unit : state->units) unit->read_ahead();
}

ModuleState* Replica::predecessor(const ModuleState& state) const {
  if (&state == module_states_.front().get()) return order_.empty() ? nullptr : order_.back();
  const auto last = std::find(order_.rbegin(), order_.rend(), &state);
  return last == order_.rend() || last + 1 == order_.rend() ? nullptr : *(last + 1);
}

nn::Tensors Replica::before_forward(ModuleState& state, const nn::Tensors& inputs) {
  // A checkpoint runs forward again inside backward: what it needs stays until its own backward.
  const bool again = recomputing();
  if (!again && &state == module_states_.front().get()) start_forward();
  state.entered = state.entered || grad_enabled();
  gather(state);
  wait_unsharded(state);
  const bool begins = !again && &state == module_states_.front().get();
  if (begins && grad_enabled()) check_all_known();
  if (begins && module().training()) broadcast_buffers();
  if (!again && in_forward_) {
    order_.push_back(&state);
    ModuleState* next = options_.prefetch ? next_to_prefetch() : nullptr;
    if (next) gather(*next);
    const size_t after = order_.size() + 1;
    if (next && after < former_order_.size()) read_ahead(former_order_[after]);
  }
  return converted(inputs, options_.units.gathered);
}

nn::Tensors Replica::after_forward(ModuleState& state, const nn::Tensors& outputs) {
  if (recomputing()) return {};
  const bool root = &state == module_states_.front().get();
  const bool fails = outputs.empty();
  if (fails || !grad_enabled() || !stays_gathered(state)) free(state);
  if (!root) return {};
  in_forward_ = false;
  for (const auto& other : module_states_) {  // what was prefetched and not used
    if (fails || !grad_enabled() || !stays_gathered(*other)) free(*other);
  }
  for (const auto& unit : units_) unit->wait_home();
  for (const auto& [path, replica] : nested_) {
    if (fails) replica->reset();
  }
  return fails ? nn::Tensors{} : converted(outputs, options_.output_dtype);
}

void Replica::begin_backward() {
  if (in_backward_) return;
  in_backward_ = true;
  if (averages()) put_aside();
  on_backward_end([self = weak_from_this()] {
    if (const auto replica = self.lock()) replica->end_backward();
  });
}

void Replica::before_backward(ModuleState& state) {
  begin_backward();
  ++state.begun;
  gather(state);
  wait_unsharded(state);
  ModuleState* next = options_.prefetch ? predecessor(state) : nullptr;
  if (!next || next == module_states_.front().get()) return;
  gather(*next);
  read_ahead(predecessor(*next));
}

void Replica::after_backward(ModuleState& state) {
  ++state.ended;
  free_if_done(state);
}

// [note: when gathered parameters are freed in backward] When all gradients of the module's
// parameters are complete in this pass, so that the backward of each of its forwards that belongs
// to the pass has begun, and each has come through to the module's inputs: a frozen layer may need
// its weights after the last gradient. Where the inputs want no gradient nobody can tell; then at
// the end of the pass, which is near. Forwards whose backward belongs to another pass do not
// matter.
void Replica::free_if_done(ModuleState& state) {
  if (options_.units.stage != Stage::parameters || state.begun == 0) return;
  if (state.ended < state.begun || !state.reshard_backward) return;
  const auto waits = [this](const Unit* unit) { return !complete(*unit); };
  // In the first part of a pass no gradient of a parameter comes: see autograd/graph/deferred.h.
  if (!backward_has_rest() && std::any_of(state.units.begin(), state.units.end(), waits)) return;
  free(state);
}

bool Replica::complete(const Unit& unit) const {
  return std::all_of(unit.members().begin(), unit.members().end(),
                     [](const Member& m) { return m.ready || !m.leaf.requires_grad(); });
}

void Replica::gradient_ready(size_t id) {
  if (!backward_running()) return;
  const ParameterEntry& entry = parameters_[id];
  check_entered(id);
  begin_backward();
  touched_ = true;
  entry.unit->members()[entry.member].ready = true;
  if (averages() && !rebuilt_ && options_.rebuild_bytes > 0) ready_order_.push_back(id);
  if (!complete(*entry.unit)) return;
  if (averages() && entry.state->sync && options_.unused != Unused::agree)
    reduce_ready(*entry.unit);
  free_if_done(*entry.state);
}

// Buckets are reduced in their order, so that ranks whose gradients become ready in different
// orders agree; units of modules as they become ready, so that none waits with its gradients.
void Replica::reduce_ready(Unit& unit) {
  if (options_.units.stage == Stage::parameters) return reduce(unit);
  while (next_bucket_ < units_.size() && complete(*units_[next_bucket_])) {
    reduce(*units_[next_bucket_++]);
  }
}

void Replica::reduce(Unit& unit) {
  // One bucket at a time where buckets are freed; where they stay nobody needs to wait. What went
  // home before had the time of one unit's backward.
  land();
  declare_first_values();
  if (options_.units.stage >= Stage::gradients) advance_reductions();
  if (hook_) hand_to_hook(unit);
  unit.begin_reduce(when_all_reduced(unit));
  if (hook_) {
    for (Unit* before : reducing_) before->advance_hook();
  }
  emit(Event::Kind::reduce, unit);
  reducing_.push_back(&unit);
}

AllReduce Replica::when_all_reduced(const Unit& unit) const {
  const ModuleState& state = *parameters_[unit.members().front().id].state;
  return all_reduce_ && state.all_reduce ? AllReduce::now : AllReduce::later;
}

// What goes on over the replicas has no bucket any more, and is waited for when the next unit is
// reduced.
void Replica::advance_reductions() {
  std::vector<Unit*> begun;
  for (Unit* unit : reducing_) {
    unit->begin_all_reduce() ? begun.push_back(unit) : end_reduction(*unit);
  }
  reducing_ = std::move(begun);
}

void Replica::end_reductions() {
  for (Unit* unit : reducing_) end_reduction(*unit);
  reducing_.clear();
  land();
}

void Replica::end_reduction(Unit& unit) {
  if (!unit.end_reduce()) return;
  if (unit.is_landing()) return landing_.push_back(&unit);
  emit(Event::Kind::reduced, unit);
}

void Replica::land() {
  for (Unit* unit : std::exchange(landing_, {})) {
    unit->land();
    emit(Event::Kind::reduced, *unit);
  }
}

void Replica::end_backward() {
  if (!in_backward_) return;  // reset meanwhile
  if (!touched_) {            // grad(), which leaves parameters alone
    in_backward_ = false;
    return reset();
  }
  std::string missing;
  if (averages()) {
    if (options_.unused == Unused::agree) agree_on_unused();
    if (options_.unused == Unused::error) missing = unused_names();
    if (missing.empty()) finish_units();
  }
  end_reductions();
  unsent_ = !averages() && !gradients_stay_;
  in_backward_ = false;
  free_after_backward();
  if (sync() && unsent_) {  // inside an AddUpScope
    AddUpScope::owe(this, [self = shared_from_this()] {
      self->in_backward_ = self->touched_ = true;
      self->end_backward();
    });
  }
  check(missing.empty(),
        "backward: parameters without a gradient, which the other ranks wait for: ", missing,
        "; use them in forward, freeze them, or set find_unused_parameters");
}

}  // namespace hero::dist
