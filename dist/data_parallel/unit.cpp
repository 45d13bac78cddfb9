// The part of Unit for gathering and freeing parameters. unit_shards.cpp computes which rank has
// which elements, unit_gradients.cpp reduces gradients.
#include <algorithm>

#include <hero/autograd/graph/node.h>
#include <hero/dist/data_parallel/forward_writes.h>
#include <hero/dist/data_parallel/unit.h>

namespace hero::dist {
const char* strategy_name(Stage stage) {
  constexpr const char* names[] = {"DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3 or fully_shard()"};
  return names[static_cast<int>(stage)];
}

namespace {

// What a program registered on the view of a parameter goes on with its shard.
void move_hooks(const Tensor& from, const Tensor& to) {
  detail::Hooks& hooks = to.impl()->make_hooks();
  const auto move = [&](auto list) {
    detail::each_hook(*from.impl(), list, [&](const auto& hook) {
      const detail::LeafTurn turn(to.impl()->lock);
      (hooks.*list).push_back(hook);
    });
  };
  move(&detail::Hooks::tensor);
  move(&detail::Hooks::leaf);
}

}  // namespace

Unit::Unit(std::string name, std::vector<UnitParameter> parameters, const UnitOptions& options,
           const std::shared_ptr<CommunicatorGroup>& group)
    : name_(std::move(name)), parameters_(std::move(parameters)), options_(options) {
  for (UnitParameter& parameter : parameters_) {
    const DType dtype = parameters_.front().leaf.dtype();
    check(parameter.leaf.dtype() == dtype, "fully_shard: unit '", name_, "' has parameters of ",
          dtype, " (", parameters_.front().name, ") and ", parameter.leaf.dtype(), " (",
          parameter.name, "); give them one dtype, or units of their own");
    parameter.shape = parameter.leaf.shape();
    if (const Partition* part = partition(parameter.leaf)) {
      parameter.former = std::make_shared<const Partition>(*part);
    }
    parameter.group = group->together_with(parameter.former ? parameter.former->group : nullptr);
  }
  cut_into_shards();
  reduce_ = make_reduce(options_);
  if (options_.stage == Stage::none) {
    target_ = std::make_unique<OffloadTarget>();
    for (UnitParameter& parameter : parameters_) parameter.full = parameter.leaf;
  } else {
    shard_parameters();
  }
}

// The flat parameter, without bytes until somebody gathers.
void Unit::make_whole(DType dtype, Device device) {
  const MemoryScope gathered(MemoryTag::communication);
  flat_.whole = Array(core::Storage::create_released(flat_numel() * item_size(dtype), device),
                      {flat_numel()}, {1}, 0, dtype);
}

// [note: converted units] A unit's memory is made anew and every leaf goes on with its place in it,
// so that what optimizers hold and what forward computes with stay one. Graphs recorded before are
// refused: the leaves know that they were left behind, saved values that their memory was written.
void Unit::convert(DType dtype, Device device) {
  if (flat_.shard.dtype() == dtype && flat_.whole.device() == device) return;
  const MemoryScope tag(MemoryTag::parameter);
  const bool apart = target_->is_apart(), was_true = !flat_.is_changed();
  const Array mine =
      apart ? target_->zeros(flat_.own.count, dtype, device) : flat_.shard.to(dtype).to(device);
  const Array former = flat_.whole;
  if (apart) copy_values(flat_.shard, mine);
  target_->keep(mine, name_, is_of_root());
  const bool owned_storage = std::exchange(flat_.owns_storage, has_own_storage(dtype));
  if (flat_.owns_storage) {
    flat_.shard = mine;
    make_whole(options_.gathered.value_or(dtype), device);
  } else {
    flat_.whole = owned_storage ? mine : former.to(dtype).to(device);
    flat_.shard = apart ? mine : flat_.own_of_whole();
  }
  flat_.set_true(was_true);
  gather_ = make_gather(options_, *target_);
  former.storage().bump_version();
  for (UnitParameter& parameter : parameters_) {
    const Tensor leaf_grad = parameter.leaf.grad(), full_grad = parameter.full.grad();
    set_leaf(parameter);
    set_part(parameter.full, elements(flat_.whole, parameter.place).reshape(parameter.shape),
             parameter.former);
    const MemoryScope gradients(MemoryTag::gradient);
    if (leaf_grad.defined()) {
      parameter.leaf.set_grad(Tensor(leaf_grad.array().to(dtype).to(flat_.shard.device())));
    }
    if (full_grad.defined()) {
      parameter.full.set_grad(Tensor(full_grad.array().to(flat_.whole.dtype()).to(device)));
    }
    for (Array* sum : {&parameter.accumulated, &parameter.unreduced}) {
      if (sum->defined()) *sum = sum->to(device);
    }
  }
  show_shards();
}

void Unit::check_slots(const char* op) const {
  for (const UnitParameter& parameter : parameters_) {
    for (const nn::Slot* slot : parameter.slots) {
      const Tensor& tensor = slot->tensor;
      check(!is_same(tensor, parameter.shown) || !tensor.defined(), op, ": ", parameter.name,
            " is shown whole by summon_full_parameters(), which must end before");
      check(is_same(tensor, parameter.leaf) || is_same(tensor, parameter.full), op, ": ",
            parameter.name,
            " was given another tensor after the module was sharded, which no rank would average; "
            "write values with copy_() while NoGrad lives, or replace it before");
    }
  }
}

// Where the flat parameter stays: when somebody wrote to the shards, as the other ranks did then.
bool Unit::needs_gather() const {
  if (state_ != State::sharded || options_.stage == Stage::none) return false;
  if (flat_.owns_storage) return true;
  return (target_->is_apart() || options_.groups.shard.size() > 1) && flat_.is_changed();
}

void Unit::unshard() {
  if (state_ != State::sharded) return;
  state_ = needs_gather() ? State::gathering : State::gathered;
  if (state_ != State::gathering) return;
  if (flat_.owns_storage) flat_.whole.storage().refill();
  flat_.begin_gather();
  gather_->begin(name_, flat_);
}

void Unit::read_ahead() const {
  if (needs_gather() && gather_->reads_shards(flat_)) target_->read_ahead();
}

void Unit::wait_unsharded() {
  if (state_ == State::gathering) {
    gather_->wait(flat_);
    target_->join();
    flat_.end_gather();
  }
  if (state_ != State::sharded) state_ = State::unsharded;
  check_slots("forward");
  if (options_.stage == Stage::none) {
    for (UnitParameter& parameter : parameters_) parameter.seen = version_of(parameter.full);
  }
  if (state_ == State::sharded || options_.stage == Stage::none) return;
  take_over();
  for (UnitParameter& parameter : parameters_) {
    parameter.seen = version_of(parameter.full);
    parameter.trains = parameter.leaf.requires_grad();
    parameter.full.requires_grad_(parameter.trains);
    for (nn::Slot* slot : parameter.slots) slot->tensor = parameter.full;
  }
}

// [note: writes in forward] A module may write to its parameters in forward, as an Embedding does
// with max_norm. Ranks compute with parts of the batch, so what they write may differ: each says
// with its next collective what it has written, by a hash, and where that is not the same on all of
// them every rank gets an Error. Without a write this is a comparison of two numbers. Parameters
// whose memory is one flat parameter have one version, so that nobody can tell which of them was
// written.
bool Unit::note_writes() {
  if (options_.stage != Stage::none && state_ != State::unsharded) return false;
  ForwardWrites writes;
  for (UnitParameter& parameter : parameters_)
    writes.add(parameter.name, parameter.full, parameter.seen);
  if (!writes.empty())
    writes_ = writes.text("forward", strategy_name(options_.stage), options_.stage != Stage::none);
  return !writes.empty();
}

// [note: whole parameters that a program changed] While the module shows whole parameters a program
// may freeze them, or write to them: that belongs to the shards. Of what is written each rank keeps
// its own part. Where they were rounded on their way, what was not written would come back rounded.
void Unit::take_over() {
  if (state_ != State::unsharded || options_.stage == Stage::none) return;
  for (const UnitParameter& parameter : parameters_) {
    const bool shown =
        std::any_of(parameter.slots.begin(), parameter.slots.end(),
                    [&](nn::Slot* slot) { return is_same(slot->tensor, parameter.full); });
    if (shown && parameter.full.requires_grad() != parameter.trains) {
      parameter.leaf.requires_grad_(parameter.full.requires_grad());
    }
  }
  const bool is_slice = !flat_.owns_storage && !target_->is_apart();  // the shard, of `whole`
  if (is_slice || !flat_.take_written()) return;
  const bool exact = flat_.shard.dtype() == flat_.whole.dtype() && !options_.quantize.weights;
  check(exact, "fully_shard: parameters of unit '", name_,
        "' were written while they were gathered in other bits than the shards have; write to them "
        "between two steps, or within summon_full_parameters()");
  flat_.take_over_own();
}

void Unit::reshard() {
  if (state_ == State::gathering) gather_->abandon();
  take_over();
  target_->join();
  const bool gathered = state_ != State::sharded;
  if (state_ == State::unsharded && gather_ && !flat_.is_stale()) gather_->before_free(flat_);
  state_ = State::sharded;
  if (options_.stage == Stage::none) return;
  if (gathered && flat_.owns_storage) flat_.whole.storage().release();
  show_shards();
}

void Unit::rest() {
  if (state_ != State::unsharded) return;
  if (!flat_.owns_storage) return reshard();
  take_over();
  state_ = State::gathered;
  show_shards();
}

bool Unit::is_of_root() const {
  return name_ == kRoot || name_ == std::string(kRoot) + std::string(kFrozen);
}

void Unit::nest(const std::vector<std::string>& paths, const std::shared_ptr<DiskOrder>& order) {
  // names below a group begin with the number of a module in it
  const auto below = [&](const std::string& name) {
    if (paths.size() == 1) return paths.front() + "." + name;
    const size_t end = std::min(name.find('.'), name.size());
    return paths.at(std::stoul(name.substr(0, end))) + name.substr(end);
  };
  if (is_of_root()) {
    std::string all;
    for (const std::string& path : paths) all += (all.empty() ? "" : ", ") + path;
    name_ = all + name_.substr(kRoot.size());
  } else {
    name_ = below(name_);
  }
  for (UnitParameter& parameter : parameters_) parameter.name = below(parameter.name);
  options_.disk_order = order;
  target_->nest(name_, order);
}

// A tensor that the program put in a parameter's place stays, for check_slots() to find.
void Unit::show_shards() {
  for (UnitParameter& parameter : parameters_) {
    for (nn::Slot* slot : parameter.slots) {
      const Tensor& tensor = slot->tensor;
      const bool own =
          is_same(tensor, parameter.full) || (tensor.defined() && is_same(tensor, parameter.shown));
      if (own) slot->tensor = parameter.leaf;
    }
    parameter.shown = {};
  }
}

void Unit::show(const Array& flat) {
  for (UnitParameter& parameter : parameters_) {
    parameter.shown = whole_of(parameter, flat);
    parameter.trains = parameter.leaf.requires_grad();
    for (nn::Slot* slot : parameter.slots) slot->tensor = parameter.shown;
  }
}

Array Unit::gather_whole() const {
  const Array whole = Array::empty({flat_numel()}, flat_.shard.dtype(), flat_.shard.device());
  options_.groups.shard.all_gather(whole, flat_.shard, {.unit = name_, .counts = flat_.counts});
  target_->leave();
  return whole;
}

void Unit::hide() {
  for (UnitParameter& parameter : parameters_) {
    const Tensor &shown = parameter.shown, &leaf = parameter.leaf;
    if (shown.requires_grad() != parameter.trains) leaf.requires_grad_(shown.requires_grad());
    move_hooks(shown, leaf);
    parameter.lost_gradient = parameter.lost_gradient || shown.grad().defined();
  }
  show_shards();
}

void Unit::take_over_whole(const Array& whole, bool written) {
  if (written) {
    copy_values(elements(whole, flat_.own), flat_.shard);
    ForwardWrites writes;
    for (const UnitParameter& parameter : parameters_) {
      uint32_t before = version_of(parameter.shown) - 1;
      writes.add(parameter.name, parameter.shown, before);
    }
    if (options_.groups.ranks() > 1)
      writes_ =
          writes.text("summon_full_parameters: the program", strategy_name(options_.stage), true);
  }
  flat_.shard.storage().bump_version();  // also where this rank's part is empty: all must know
}

}  // namespace hero::dist
