// What a unit does with parameters; unit_gradients.cpp has what it does with gradients.
#include <algorithm>

#include <hero/core/backend.h>
#include <hero/core/planned_device.h>
#include <hero/dist/data_parallel/forward_writes.h>
#include <hero/dist/data_parallel/unit.h>

namespace hero::dist {
namespace {

Array flat(const Array& array) { return array.contiguous().reshape({array.numel()}); }

Array part(const Array& row, const Part& place) {
  return row.slice(0, place.begin, place.begin + place.count);
}

void copy(const Array& from, const Array& to) {
  if (from.numel() == 0) return;
  // only a device's own backend knows how to reach its memory
  core::backend(to.device().type == DeviceType::cpu ? from.device() : to.device()).copy(from, to);
  to.storage().bump_version();
}

int64_t up_to_multiple(int64_t n, int64_t of) { return (n + of - 1) / of * of; }

// A member's place in a row, as what its leaf was before it was cut.
Tensor whole_of(const Member& member, const Array& row) {
  const Tensor whole(part(row, member.place).reshape(member.shape), member.leaf.requires_grad());
  if (member.former) set_part(whole, whole.array(), member.former);
  return whole;
}

bool on_meta(const Array& array) { return array.device().type == DeviceType::meta; }

// Where a unit's bytes belong: where its parameters have theirs, else where the options say.
Device device_of(const std::vector<Member>& members, const UnitOptions& options) {
  const Member* found = nullptr;
  for (const Member& member : members) {
    if (on_meta(member.leaf.array())) continue;
    check(!found || found->leaf.device() == member.leaf.device(),
          "unit: ", found ? found->name : "", " and ", member.name,
          " lie on different devices; move the module to one with to()");
    found = &member;
  }
  return found ? found->leaf.device() : options.device;
}

}  // namespace

const char* strategy_name(Stage stage) {
  constexpr const char* names[] = {"DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3 or fully_shard()"};
  return names[static_cast<int>(stage)];
}

Unit::Unit(std::string name, std::vector<Member> members, Groups groups, const UnitOptions& options,
           const std::shared_ptr<GroupOwners>& owners)
    : name_(std::move(name)),
      members_(std::move(members)),
      groups_(std::move(groups)),
      options_(options) {
  for (Member& member : members_) {
    const DType dtype = members_.front().leaf.dtype();
    check(member.leaf.dtype() == dtype, "fully_shard: unit '", name_, "' has parameters of ", dtype,
          " (", members_.front().name, ") and ", member.leaf.dtype(), " (", member.name,
          "); give them one dtype, or units of their own");
    member.shape = member.leaf.shape();
    if (const Partition* part = partition(member.leaf)) {
      member.former = std::make_shared<const Partition>(*part);
    }
    member.owners = owners->together_with(member.former ? member.former->owners : nullptr);
    numel_ += member.leaf.numel();
  }
  place_members();
  counts_ = PartCounts::balanced(total_, groups_.shard.size());
  own_ = counts_.part(groups_.shard.rank());
  if (options_.stage == Stage::none) {
    for (Member& member : members_) member.full = member.leaf;
  } else {
    cut(options);
  }
}

// [note: places in a row] Kernels read 16 bytes at a time where an array begins at a multiple of
// that, in each dtype to which the unit may be converted: so members that are cut begin at
// multiples of 8 elements. Those whose sizes are such multiples come first, in their order, and
// leave no gaps. The row ends at a multiple of 8 elements a rank, so that all ranks' parts are
// equal and begin at 16 bytes, and so are the parts of a part among replicas: NCCL gathers and
// reduces equal parts in one call of its own. Gaps and what is added at the end hold zeros; no
// leaf has them. Members that stay whole, DDP's, keep the order of their gradients.
void Unit::place_members() {
  constexpr int64_t kAlign = 8;
  const bool cuts = options_.stage != Stage::none;
  if (cuts) {
    std::stable_partition(members_.begin(), members_.end(),
                          [](const Member& m) { return m.leaf.numel() % kAlign == 0; });
  }
  for (Member& member : members_) {
    if (cuts) total_ = up_to_multiple(total_, kAlign);
    member.place = {total_, member.leaf.numel()};
    total_ += member.place.count;
  }
  if (cuts) total_ = up_to_multiple(total_, kAlign * groups_.ranks());
}

std::vector<int> Groups::holders(int i) const {
  if (!replicas.defined()) return {shard.world_ranks()[static_cast<size_t>(i)]};
  std::vector<int> ranks;
  const auto group = static_cast<size_t>(shard.size());
  const std::span<const int> numbers = all.world_ranks();
  for (size_t at = static_cast<size_t>(i); at < numbers.size(); at += group) {
    ranks.push_back(numbers[at]);
  }
  return ranks;
}

std::vector<HeldPart> Unit::parts_of(const Member& member) const {
  std::vector<HeldPart> parts;
  const int64_t end = member.place.begin + member.place.count;
  for (int64_t at = member.place.begin; at < end;) {
    const int rank = counts_.part_of(at);
    const Part whole = counts_.part(rank);
    const int64_t next = std::min(end, whole.begin + whole.count);
    parts.push_back({{at - member.place.begin, next - at}, groups_.holders(rank)});
    at = next;
  }
  return parts;
}

Part Unit::owned(const Member& member) const {
  const int64_t begin = std::max(own_.begin, member.place.begin);
  const int64_t end = std::min(own_.begin + own_.count, member.place.begin + member.place.count);
  return {begin, std::max<int64_t>(end - begin, 0)};
}

// Elements first ... of a member, from its values or, where it was made on meta, by its recipe.
void Unit::fill(const Member& member, const Array& target, int64_t first) const {
  const Array& values = member.leaf.array();
  if (!on_meta(values)) {
    copy(part(flat(values), {first, target.numel()}), target);
  } else if (!on_meta(target) && target.numel() > 0) {
    const nn::Slot& slot = *member.slots.front();
    check(static_cast<bool>(slot.init.fill), "fully_shard: ", member.name,
          " was made on meta and has no recipe for its values; give it values before");
    const Partition* part = member.former.get();
    nn::fill_part(slot.init, target, part ? part->whole : member.shape,
                  part ? part->boxes : std::vector<Box>(), first, slot.stream);
  }
}

void Unit::cut(const UnitOptions& options) {
  const DType dtype = members_.front().leaf.dtype();
  const bool meta = groups_.shard.backend_kind() == BackendKind::simulated;
  const bool converts = options.gathered && *options.gathered != dtype;
  const Device device = meta ? kMeta : device_of(members_, options);
  if (options.offload.any() && core::kernels_of(device) == DeviceType::cuda) {
    home_ = std::make_unique<Home>(device, groups_.shard.traffic());
  }
  const bool apart = home_ || options.offload.disk != nullptr;
  owns_storage_ =
      options.stage == Stage::parameters && (groups_.shard.size() > 1 || converts || apart);
  const MemoryScope tag(MemoryTag::parameter);
  if (!owns_storage_) full_ = Array::zeros({total_}, dtype, device);
  shard_ = apart           ? zeros_apart(dtype)
           : owns_storage_ ? Array::zeros({own_.count}, dtype, device)
                           : part(full_, own_);
  for (const Member& member : members_) {
    const Part mine = owned(member);
    const int64_t first = mine.count > 0 ? mine.begin - member.place.begin : 0;
    if (owns_storage_) {
      fill(member, part(shard_, {mine.count > 0 ? mine.begin - own_.begin : 0, mine.count}), first);
    } else {
      fill(member, part(full_, member.place), 0);
    }
    set_leaf(member);
  }
  if (apart && !owns_storage_) copy(part(full_, own_), shard_);
  if (owns_storage_) make_row(options.gathered.value_or(dtype), device);
  for (Member& member : members_) {
    member.full = whole_of(member, full_);
  }
  show_shards();
  full_version_ = full_.storage().version();
  shard_version_ = shard_.storage().version() - (owns_storage_ ? 1 : 0);  // full_ is not yet true
  if (options.offload.disk) disk_ = make_disk_home(shard_);
}

// The leaf goes on with this rank's part of shard_.
void Unit::set_leaf(const Member& member) const {
  const Part mine = owned(member);
  const bool any = mine.count > 0;
  Partition place = member.former ? *member.former : Partition{.whole = member.shape};
  place.first = any ? mine.begin - member.place.begin : 0;
  place.owners = member.owners;
  set_part(member.leaf, part(shard_, {any ? mine.begin - own_.begin : 0, mine.count}),
           std::make_shared<const Partition>(std::move(place)));
}

// The row of gathered parameters, without bytes until somebody gathers.
void Unit::make_row(DType dtype, Device device) {
  const MemoryScope gathered(MemoryTag::communication);
  full_ = Array(core::Storage::create_released(total_ * item_size(dtype), device), {total_}, {1}, 0,
                dtype);
}

// [note: converted units] A unit's memory is made anew and every leaf goes on with its place in it,
// so that what optimizers hold and what forward computes with stay one. Graphs recorded before are
// refused: the leaves know that they were left behind, saved values that their row was written.
void Unit::convert(DType dtype, Device device) {
  if (shard_.dtype() == dtype && full_.device() == device) return;
  const MemoryScope tag(MemoryTag::parameter);
  const Array mine = is_apart() ? zeros_apart(dtype) : shard_.to(dtype).to(device), former = full_;
  if (is_apart()) copy(shard_, mine);
  std::unique_ptr<DiskHome> disk = disk_ ? make_disk_home(mine) : nullptr;
  const bool converts = options_.gathered && *options_.gathered != dtype;
  const bool owned_storage = owns_storage_, was_true = !is_changed();
  owns_storage_ =
      options_.stage == Stage::parameters && (groups_.shard.size() > 1 || converts || is_apart());
  if (owns_storage_) {
    shard_ = mine;
    make_row(options_.gathered.value_or(dtype), device);
  } else {
    full_ = owned_storage ? mine : former.to(dtype).to(device);
    shard_ = is_apart() ? mine : part(full_, own_);
  }
  disk_ = std::move(disk);
  secondary_ = {};
  full_version_ = full_.storage().version() - (owns_storage_ || was_true ? 0 : 1);
  shard_version_ = shard_.storage().version() - (is_apart() && !owns_storage_ && was_true ? 0 : 1);
  former.storage().bump_version();
  for (Member& member : members_) {
    const Tensor leaf_grad = member.leaf.grad(), full_grad = member.full.grad();
    set_leaf(member);
    set_part(member.full, part(full_, member.place).reshape(member.shape), member.former);
    const MemoryScope gradients(MemoryTag::gradient);
    if (leaf_grad.defined()) {
      member.leaf.set_grad(Tensor(leaf_grad.array().to(dtype).to(shard_.device())));
    }
    if (full_grad.defined()) {
      member.full.set_grad(Tensor(full_grad.array().to(full_.dtype()).to(device)));
    }
    if (member.partial.defined()) member.partial = member.partial.to(device);
  }
  show_shards();
}

void Unit::check_slots() const {
  for (const Member& member : members_) {
    for (const nn::Slot* slot : member.slots) {
      const Tensor& tensor = slot->tensor;
      check(!is_same(tensor, member.shown) || !tensor.defined(), "forward: ", member.name,
            " is shown whole by summon_full_parameters(), which must end before");
      check(is_same(tensor, member.leaf) || is_same(tensor, member.full), "forward: ", member.name,
            " was given another tensor after the module was sharded, which no rank would average; "
            "write values with copy_() while NoGrad lives, or replace it before");
    }
  }
}

void Unit::unshard() {
  if (state_ != State::sharded) return;
  state_ = State::gathering;
  gathers_ = false;
  if (options_.stage == Stage::none) return;
  if (owns_storage_) {
    full_.storage().refill();
    gather();
  } else if ((is_apart() || groups_.shard.size() > 1) && is_changed()) {
    gather();  // somebody wrote to the shards: the other ranks' are new, too
  }
}

bool Unit::is_changed() const {
  if (is_apart() && !owns_storage_) return shard_.storage().version() != shard_version_;
  return full_.storage().version() != full_version_;
}

// [note: versions of gathered parameters] Gathering writes the row anew. Where no shard changed,
// these are the values that it had, and what autograd saved of them is good; where one did, a
// graph recorded before is refused, as after any in-place write.
void Unit::gather() {
  gathers_ = true;
  begun_version_ = shard_.storage().version();
  if (has_secondary()) {
    gather_ = options_.route.inner.all_gather(full_, secondary_, {.async = true, .unit = name_});
    return;
  }
  secondary_ = {};
  if (options_.quantize.weights && groups_.shard.size() > 1) return gather_quantized();
  if (is_apart()) return gather_from_home();
  Array mine = shard_;
  if (owns_storage_ && shard_.dtype() != full_.dtype()) {
    mine = part(full_, own_);
    copy(shard_, mine);
  }
  if (groups_.shard.size() == 1) return;
  gather_ =
      groups_.shard.all_gather(full_, mine, {.async = true, .unit = name_, .counts = counts_});
}

// No shard was written since it was kept: so it is on every rank, or on none.
bool Unit::has_secondary() const {
  return secondary_.defined() && shard_.storage().version() == secondary_version_;
}

void Unit::keep_secondary() {
  if (!owns_storage_ || groups_.shard.size() == 1 || has_secondary() || stale()) return;
  const MemoryScope tag(MemoryTag::parameter);
  const Communicator& host = options_.route.inner;
  const int64_t count = total_ / host.size();
  secondary_ = full_.slice(0, host.rank() * count, (host.rank() + 1) * count).clone();
  secondary_version_ = shard_.storage().version();
}

// Every rank reads the same bytes, its own too, so all compute with the same values. They are made
// where the shards lie: from the host's memory fewer bytes go up.
void Unit::gather_quantized() {
  const MemoryScope tag(MemoryTag::communication);
  const core::Codec codec = *options_.quantize.weights;
  const int64_t rank = groups_.shard.rank();
  gathered_bytes_ = Array::empty({groups_.shard.size(), core::encoded_bytes(codec, own_.count)},
                                 kUInt8, full_.device());
  const Array mine = gathered_bytes_.slice(0, rank, rank + 1);
  if (is_apart()) return gather_bytes_from_home(mine);
  core::encode(codec, shard_, own_.count, mine);
  gather_ = groups_.shard.all_gather(gathered_bytes_, mine, {.async = true, .unit = name_});
}

bool Unit::stale() const {
  return state_ != State::sharded && owns_storage_ && shard_.storage().version() != begun_version_;
}

void Unit::wait_unsharded() {
  if (state_ == State::gathering) {
    gather_.wait();
    if (gathered_bytes_.defined()) {
      core::decode(*options_.quantize.weights, std::exchange(gathered_bytes_, {}), own_.count,
                   full_);
    }
    if (home_) home_->join_up();
    if (gathers_ && owns_storage_ && shard_.storage().version() == shard_version_) {
      full_.storage().restore_version(full_version_);
    } else if (gathers_) {
      shard_version_ = shard_.storage().version();
      full_version_ = full_.storage().version();
    }
    state_ = State::unsharded;
  }
  check_slots();
  if (options_.stage == Stage::none) {
    for (Member& member : members_) member.seen = version_of(member.full);
  }
  if (state_ == State::sharded || options_.stage == Stage::none) return;
  take_over();
  for (Member& member : members_) {
    member.seen = version_of(member.full);
    member.trains = member.leaf.requires_grad();
    member.full.requires_grad_(member.trains);
    for (nn::Slot* slot : member.slots) slot->tensor = member.full;
  }
}

// [note: writes in forward] A module may write to its parameters in forward, as an Embedding does
// with max_norm. Ranks compute with parts of the batch, so what they write may differ: each says
// with its next collective what it has written, by a hash, and where that is not the same on all of
// them every rank gets an Error. Without a write this is a comparison of two numbers. Members whose
// memory is one row have one version, so that nobody can tell which of them was written.
bool Unit::note_writes() {
  if (options_.stage != Stage::none && state_ != State::unsharded) return false;
  ForwardWrites writes;
  for (Member& member : members_) writes.add(member.name, member.full, member.seen);
  if (!writes.empty())
    writes_ = writes.text(strategy_name(options_.stage), options_.stage != Stage::none);
  return !writes.empty();
}

// [note: whole parameters that a program changed] While the module shows whole parameters a program
// may freeze them, or write to them: that belongs to the shards. Of what is written each rank keeps
// its own part. Where they were rounded on their way, what was not written would come back rounded.
void Unit::take_over() {
  if (state_ != State::unsharded || options_.stage == Stage::none) return;
  for (const Member& member : members_) {
    const bool shown = std::any_of(member.slots.begin(), member.slots.end(), [&](nn::Slot* slot) {
      return is_same(slot->tensor, member.full);
    });
    if (shown && member.full.requires_grad() != member.trains) {
      member.leaf.requires_grad_(member.full.requires_grad());
    }
  }
  const bool is_row = !owns_storage_ && !is_apart();  // shards are slices of what was written
  if (is_row || full_.storage().version() == full_version_) return;
  full_version_ = full_.storage().version();
  const bool exact = shard_.dtype() == full_.dtype() && !options_.quantize.weights;
  check(exact, "fully_shard: parameters of unit '", name_,
        "' were written while they were gathered in other bits than the shards have; write to them "
        "between two steps, or within summon_full_parameters()");
  copy(part(full_, own_), shard_);
  shard_.storage().bump_version();  // also where this rank's part is empty: all must know
  shard_version_ = begun_version_ = shard_.storage().version();
}

void Unit::reshard() {
  if (state_ == State::gathering) gather_.wait();
  take_over();
  gathered_bytes_ = {};
  if (home_) home_->join_up();
  const bool gathered = state_ != State::sharded;
  if (state_ == State::unsharded && options_.quantize.secondary) keep_secondary();
  state_ = State::sharded;
  if (options_.stage == Stage::none) return;
  if (gathered && owns_storage_) full_.storage().release();
  show_shards();
}

void Unit::rest() {
  if (state_ != State::unsharded) return;
  if (!owns_storage_) return reshard();
  take_over();
  state_ = State::gathering;
  gathers_ = false;
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
  for (Member& member : members_) member.name = below(member.name);
  options_.disk_order = order;
  if (disk_) disk_->nest(name_, order);
}

void Unit::show_shards() {
  for (Member& member : members_) {
    member.shown = {};
    for (nn::Slot* slot : member.slots) slot->tensor = member.leaf;
  }
}

void Unit::show(const Array& row) {
  for (Member& member : members_) {
    member.shown = whole_of(member, row);
    for (nn::Slot* slot : member.slots) slot->tensor = member.shown;
  }
}

Array Unit::gather_row() const {
  const Array row = Array::empty({total_}, shard_.dtype(), shard_.device());
  groups_.shard.all_gather(row, shard_, {.unit = name_, .counts = counts_});
  if (disk_) disk_->leave();
  return row;
}

void Unit::scatter_row(const Array& row, bool written) {
  if (written) copy(part(row, own_), shard_);
  shard_.storage().bump_version();  // also where this rank's part is empty: all must know
}

}  // namespace hero::dist
