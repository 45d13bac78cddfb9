#include <algorithm>

#include <hero/autograd/engine.h>
#include <hero/dist/ladder/replica.h>

namespace hero::dist {
namespace {

// The ranks among which a module's parameters are cut.
class GroupOwners : public Owners {
 public:
  explicit GroupOwners(Communicator group) : group_(std::move(group)) {}
  void add_up(const Array& words) override { combine(words, ReduceOp::sum); }
  void largest(const Array& x) override { combine(x, ReduceOp::max); }

 private:
  void combine(const Array& x, ReduceOp op) {
    if (group_.size() == 1) return;
    // Simulated ranks have no others to ask, whatever they know themselves.
    const bool simulated = group_.engine_kind() == EngineKind::simulated;
    const Array said = simulated ? Array::empty(x.shape(), x.dtype(), kMeta) : x;
    group_.all_reduce(said, {.op = op, .unit = "norms"});
  }
  Communicator group_;
};

nn::Tensors converted(const nn::Tensors& list, std::optional<DType> dtype) {
  if (!dtype) return {};
  nn::Tensors out = list;
  for (Tensor& tensor : out) {
    if (tensor.defined() && is_floating(tensor.dtype())) tensor = tensor.to(*dtype);
  }
  return out;
}

bool any_wants_grad(const nn::Tensors& list) {
  return std::any_of(list.begin(), list.end(),
                     [](const Tensor& t) { return t.defined() && t.requires_grad(); });
}

}  // namespace

const char* name(Event::Kind kind) {
  constexpr const char* names[] = {"gather", "use", "free", "reduce", "reduced"};
  return names[static_cast<int>(kind)];
}

Replica::Replica(nn::Module& module, Groups groups, const ReplicaOptions& options)
    : module_(&module),
      groups_(std::move(groups)),
      options_(options),
      owners_(std::make_shared<GroupOwners>(groups_.shard)) {
  sites_.push_back(std::make_unique<Site>(Site{&module}));
}

void Replica::add_unit(nn::Module& module, std::string name, std::vector<Member> members) {
  const auto known = std::find_if(sites_.begin(), sites_.end(),
                                  [&](const auto& site) { return site->module == &module; });
  const bool here = known != sites_.end();
  if (!here) sites_.push_back(std::make_unique<Site>(Site{&module}));
  Site& site = here ? **known : *sites_.back();
  units_.push_back(std::make_unique<Unit>(std::move(name), std::move(members), groups_,
                                          options_.units, owners_));
  site.units.push_back(units_.back().get());
}

void Replica::install() {
  place_parameters();
  keep_parameters();
  for (const auto& each : sites_) {
    Site* site = each.get();
    // The module's hooks keep the replica alive, not the other way round.
    const auto self = shared_from_this();
    site->module->register_forward_pre_hook(
        [self, site](nn::Module&, const nn::Tensors& in) {
          return self->before_forward(*site, in);
        },
        {.for_parameters = true});
    site->module->register_forward_hook(
        [self, site](nn::Module&, const nn::Tensors&, const nn::Tensors& out) {
          return self->after_forward(*site, out);
        },
        {.always_call = true, .for_parameters = true});
    // One rank alone gathers and frees nothing; the root tells that backward begins.
    const bool frees = std::any_of(site->units.begin(), site->units.end(),
                                   [](const Unit* unit) { return unit->apart(); });
    const bool root = each == sites_.front();
    if (options_.units.stage != Stage::parameters || !(root || frees)) continue;
    site->module->register_full_backward_pre_hook(
        [self, site](nn::Module&, const nn::Tensors&) { self->before_backward(*site); },
        {.for_parameters = true});
    site->module->register_full_backward_hook(
        [self, site](nn::Module&, const nn::Tensors& in, const nn::Tensors&) {
          if (!in.empty()) self->after_backward(*site);
        },
        {.for_parameters = true});
  }
}

void Replica::place_parameters() {
  size_t count = 0;
  for (const auto& unit : units_) count += unit->members().size();
  places_.resize(count);
  for (const auto& site : sites_) {
    for (Unit* unit : site->units) {
      for (size_t i = 0; i < unit->members().size(); ++i) {
        places_.at(unit->members()[i].id) = {unit, i, site.get()};
      }
    }
  }
}

Tensor Replica::leaf_of(const nn::Slot& slot) const {
  for (const Place& place : places_) {
    const Member& member = place.unit->members()[place.member];
    if (std::count(member.slots.begin(), member.slots.end(), &slot) > 0) return member.leaf;
  }
  return slot.tensor;  // frozen or ignored
}

void Replica::say(Event::Kind kind, const Unit& unit) const {
  if (events_) events_({kind, unit.name()});
}

void Replica::gather(Site& site) {
  for (Unit* unit : site.units) {
    if (!unit->sharded()) continue;
    unit->unshard();
    if (unit->moves()) say(Event::Kind::gather, *unit);
  }
}

void Replica::use(Site& site) {
  for (Unit* unit : site.units) {
    unit->wait_unsharded();
    if (unit->apart()) say(Event::Kind::use, *unit);
    for (Member& member : unit->members()) watch(member);
  }
}

void Replica::watch(Member& member) {
  if (member.watched || !member.leaf.requires_grad()) return;
  member.watched = true;
  // The graph may outlive the module.
  member.full.register_leaf_hook([self = weak_from_this(), id = member.id](const Tensor&) {
    if (const auto replica = self.lock()) replica->gradient_ready(id);
  });
  if (shards()) return;
  // Before the gradient is added to what the leaf has.
  member.full.register_hook([self = weak_from_this()](const Tensor&) {
    if (const auto replica = self.lock()) replica->begin_backward();
    return Tensor();
  });
}

void Replica::free(Site& site) {
  for (Unit* unit : site.units) {
    if (unit->sharded()) continue;
    unit->reshard();
    if (unit->apart()) say(Event::Kind::free, *unit);
  }
}

void Replica::settle() {
  if (in_backward_) {  // it threw
    for (const auto& unit : units_) unit->drop_gradients();
  }
  take_back();
  reducing_.clear();
  in_backward_ = false;
  touched_ = false;
  in_forward_ = false;
  next_bucket_ = 0;
  for (const auto& site : sites_) {
    free(*site);
    site->expected = site->ended = 0;
  }
  for (const Place& place : places_) place.unit->members()[place.member].ready = false;
}

bool Replica::recomputing() const { return in_backward_ && backward_running(); }

void Replica::start_forward() {
  settle();
  if (joining_) tell_before_forward();
  // A rank that has no data knows no order.
  if (options_.rebuild_bytes > 0 && !ready_order_.empty() && !rebuilt_ && !joining_) {
    rebuild_buckets();
  }
  former_order_ = std::move(order_);
  order_.clear();
  in_forward_ = true;
}

void Replica::broadcast_buffers() const {
  if (!options_.broadcast_buffers) return;
  for (const auto& [name, buffer] : module_->named_buffers()) {
    groups_.shard.broadcast(buffer.array(), buffer_root_, {.unit = "buffers"});
  }
}

Site* Replica::follower() const {
  const size_t at = order_.size();  // of the site that comes next
  if (at >= former_order_.size() || former_order_[at - 1] != order_.back()) return nullptr;
  return former_order_[at];
}

Site* Replica::predecessor(const Site& site) const {
  if (&site == sites_.front().get()) return order_.empty() ? nullptr : order_.back();
  const auto last = std::find(order_.rbegin(), order_.rend(), &site);
  return last == order_.rend() || last + 1 == order_.rend() ? nullptr : *(last + 1);
}

nn::Tensors Replica::before_forward(Site& site, const nn::Tensors& inputs) {
  // A checkpoint runs forward again inside backward: what it needs stays until its own backward.
  const bool again = recomputing();
  if (!again && &site == sites_.front().get()) start_forward();
  site.entered = site.entered || grad_enabled();
  gather(site);
  use(site);
  if (!again && &site == sites_.front().get() && module_->training()) broadcast_buffers();
  if (!again && grad_enabled() && any_wants_grad(inputs)) ++site.expected;
  if (!again && in_forward_) {
    order_.push_back(&site);
    Site* next = options_.prefetch ? follower() : nullptr;
    if (next) gather(*next);
  }
  return converted(inputs, options_.units.gathered);
}

nn::Tensors Replica::after_forward(Site& site, const nn::Tensors& outputs) {
  if (recomputing()) return {};
  const bool root = &site == sites_.front().get();
  const bool fails = outputs.empty();
  if (fails || !grad_enabled() || (!root && options_.reshard_after_forward)) free(site);
  if (!root) return {};
  in_forward_ = false;
  for (const auto& other : sites_) {  // what was prefetched and not used
    const bool keep = other == sites_.front() || !options_.reshard_after_forward;
    if (fails || !grad_enabled() || !keep) free(*other);
  }
  return fails ? nn::Tensors{} : converted(outputs, options_.output_dtype);
}

void Replica::begin_backward() {
  if (in_backward_) return;
  in_backward_ = true;
  if (sync_) put_aside();
  on_backward_end([self = weak_from_this()] {
    if (const auto replica = self.lock()) replica->end_backward();
  });
}

void Replica::before_backward(Site& site) {
  begin_backward();
  gather(site);
  use(site);
  Site* next = options_.prefetch ? predecessor(site) : nullptr;
  if (next && next != sites_.front().get()) gather(*next);
}

void Replica::after_backward(Site& site) {
  ++site.ended;
  free_if_done(site);
}

// [note: when gathered parameters are freed in backward] When all gradients of the site's
// parameters are complete and every forward's backward has come through to the module's inputs: a
// frozen layer may need its weights after the last gradient. Where the inputs want no gradient
// nobody can tell; then at the end of the pass, which is near.
void Replica::free_if_done(Site& site) {
  if (options_.units.stage != Stage::parameters || site.expected == 0) return;
  if (site.ended < site.expected) return;
  for (const Unit* unit : site.units) {
    if (!complete(*unit)) return;
  }
  free(site);
}

bool Replica::complete(const Unit& unit) const {
  return std::all_of(unit.members().begin(), unit.members().end(),
                     [](const Member& m) { return m.ready || !m.leaf.requires_grad(); });
}

void Replica::gradient_ready(size_t id) {
  if (!backward_running()) return;
  const Place& place = places_[id];
  check_entered(id);
  begin_backward();
  touched_ = true;
  place.unit->members()[place.member].ready = true;
  if (sync_ && !rebuilt_ && options_.rebuild_bytes > 0) ready_order_.push_back(id);
  if (!complete(*place.unit)) return;
  if (sync_ && options_.unused != Unused::agree) reduce_ready(*place.unit);
  free_if_done(*place.site);
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
  // One bucket at a time where buckets are freed; where they stay nobody needs to wait.
  if (options_.units.stage >= Stage::gradients) end_reductions();
  unit.begin_reduce();
  say(Event::Kind::reduce, unit);
  reducing_.push_back(&unit);
}

void Replica::end_reductions() {
  for (Unit* unit : reducing_) {
    unit->end_reduce();
    say(Event::Kind::reduced, *unit);
  }
  reducing_.clear();
}

void Replica::end_backward() {
  if (!in_backward_) return;  // settled meanwhile
  if (!touched_) {            // grad(), which leaves parameters alone
    in_backward_ = false;
    return settle();
  }
  std::string missing;
  if (sync_) {
    if (options_.unused == Unused::agree) agree_on_unused();
    if (options_.unused == Unused::error) missing = unused_names();
    if (missing.empty()) finish_units();
  }
  end_reductions();
  unsent_ = !sync_;
  in_backward_ = false;
  settle();
  check(missing.empty(),
        "backward: parameters without a gradient, which the other ranks wait for: ", missing,
        "; use them in forward, freeze them, or set find_unused_parameters");
}

// What was not complete in this pass: some of its parameters were not used.
void Replica::finish_units() {
  const bool buckets = options_.units.stage != Stage::parameters;
  for (size_t i = buckets ? next_bucket_ : 0; i < units_.size(); ++i) {
    Unit& unit = *units_[i];
    const auto& members = unit.members();
    const bool any = std::any_of(members.begin(), members.end(),
                                 [](const Member& m) { return m.full.grad().defined(); });
    if (any || buckets) reduce(unit);
  }
  next_bucket_ = units_.size();
}

}  // namespace hero::dist
