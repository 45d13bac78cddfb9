// Sharding a unit: where its parameters lie in its flat parameter, which rank has which elements,
// and how each parameter becomes this rank's shard of it.
#include <algorithm>
#include <numeric>

#include <hero/dist/data_parallel/unit.h>

namespace hero::dist {
namespace {

int64_t up_to_multiple(int64_t n, int64_t of) { return (n + of - 1) / of * of; }

Array flat(const Array& array) { return array.contiguous().reshape({array.numel()}); }

bool on_meta(const Array& array) { return array.device().type == DeviceType::meta; }

// Where a unit's bytes belong: where its parameters have theirs, else where the options say.
Device device_of(const std::vector<UnitParameter>& parameters, const UnitOptions& options) {
  const UnitParameter* found = nullptr;
  for (const UnitParameter& parameter : parameters) {
    if (on_meta(parameter.leaf.array())) continue;
    check(!found || found->leaf.device() == parameter.leaf.device(),
          "unit: ", found ? found->name : "", " and ", parameter.name,
          " lie on different devices; move the module to one with to()");
    found = &parameter;
  }
  return found ? found->leaf.device() : options.device;
}

}  // namespace

Tensor whole_of(const UnitParameter& parameter, const Array& flat) {
  const Tensor whole(elements(flat, parameter.place).reshape(parameter.shape));
  whole.requires_grad_(parameter.leaf.requires_grad());
  if (parameter.former) set_part(whole, whole.array(), parameter.former);
  return whole;
}

// [note: places in a flat parameter] Kernels read 16 bytes at a time where an array begins at a
// multiple of that, in each dtype to which the unit may be converted: so parameters that are cut
// begin at multiples of 8 elements. Those whose sizes are such multiples come first, in their
// order, and leave no gaps. The flat parameter ends at a multiple of 8 elements a rank, so that all
// ranks' parts are equal and begin at 16 bytes, and so are the parts of a part among replicas: NCCL
// gathers and reduces equal parts in one call of its own. Gaps and what is added at the end hold
// zeros; no leaf has them. Parameters that stay whole, DDP's, keep the order of their gradients.
int64_t Unit::place_parameters() {
  constexpr int64_t kAlign = 8;
  const bool cuts = options_.stage != Stage::none;
  int64_t total = 0;
  if (cuts) {
    std::stable_partition(parameters_.begin(), parameters_.end(),
                          [](const UnitParameter& m) { return m.leaf.numel() % kAlign == 0; });
  }
  for (UnitParameter& parameter : parameters_) {
    if (cuts) total = up_to_multiple(total, kAlign);
    parameter.place = {total, parameter.leaf.numel()};
    total += parameter.place.count;
  }
  return cuts ? up_to_multiple(total, kAlign * options_.groups.ranks()) : total;
}

// Which rank has which elements: the flat parameter is cut into one contiguous chunk for each rank.
void Unit::cut_into_shards() {
  flat_.counts = ChunkCounts::balanced(place_parameters(), options_.groups.shard.size());
  flat_.own = flat_.counts.chunk(options_.groups.shard.rank());
}

int64_t Unit::numel() const {
  return std::accumulate(
      parameters_.begin(), parameters_.end(), int64_t{0},
      [](int64_t n, const UnitParameter& parameter) { return n + parameter.place.count; });
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

std::vector<HeldPart> Unit::parts_of(const UnitParameter& parameter) const {
  std::vector<HeldPart> parts;
  const int64_t end = parameter.place.begin + parameter.place.count;
  for (int64_t at = parameter.place.begin; at < end;) {
    const int rank = flat_.counts.chunk_of(at);
    const Chunk whole = flat_.counts.chunk(rank);
    const int64_t next = std::min(end, whole.begin + whole.count);
    parts.push_back({{at - parameter.place.begin, next - at}, options_.groups.holders(rank)});
    at = next;
  }
  return parts;
}

Unit::ShardPart Unit::shard_of(const UnitParameter& parameter) const {
  const Chunk &own = flat_.own, &place = parameter.place;
  const int64_t begin = std::max(own.begin, place.begin);
  const int64_t count = std::min(own.begin + own.count, place.begin + place.count) - begin;
  if (count <= 0) return {};
  return {begin - place.begin, {begin - own.begin, count}};
}

// Elements first ... of a parameter, from its values or, where it was made on meta, by its recipe.
void Unit::fill(const UnitParameter& parameter, const Array& target, int64_t first) const {
  const Array& values = parameter.leaf.array();
  if (!on_meta(values)) {
    copy_values(elements(flat(values), {first, target.numel()}), target);
  } else if (!on_meta(target) && target.numel() > 0) {
    const nn::Slot& slot = *parameter.slots.front();
    check(static_cast<bool>(slot.init.fill), "fully_shard: ", parameter.name,
          " was made on meta and has no recipe for its values; give it values before");
    const Partition* part = parameter.former.get();
    nn::fill_part(slot.init, target, part ? part->whole : parameter.shape,
                  part ? part->boxes : std::vector<Box>(), first, slot.stream);
  }
}

// Sharded parameters have memory of their own where what is gathered is something else.
bool Unit::has_own_storage(DType dtype) const {
  const bool converts = options_.gathered && *options_.gathered != dtype;
  return options_.stage == Stage::parameters &&
         (options_.groups.shard.size() > 1 || converts || target_->is_apart());
}

void Unit::shard_parameters() {
  const DType dtype = parameters_.front().leaf.dtype();
  const bool simulated = options_.groups.shard.backend_kind() == BackendKind::simulated;
  const Device device = simulated ? kMeta : device_of(parameters_, options_);
  target_ = make_offload_target(options_, device, [this] {
    return std::any_of(parameters_.begin(), parameters_.end(), [](const UnitParameter& parameter) {
      return parameter.leaf.grad().defined();
    });
  });
  const bool apart = target_->is_apart();
  flat_.owns_storage = has_own_storage(dtype);
  gather_ = make_gather(options_, *target_);
  const MemoryScope tag(MemoryTag::parameter);
  if (!flat_.owns_storage) flat_.whole = Array::zeros({flat_numel()}, dtype, device);
  flat_.shard = apart || flat_.owns_storage ? target_->zeros(flat_.own.count, dtype, device)
                                            : flat_.own_of_whole();
  for (const UnitParameter& parameter : parameters_) {
    if (flat_.owns_storage) {
      const ShardPart mine = shard_of(parameter);
      fill(parameter, elements(flat_.shard, mine.place), mine.first);
    } else {
      fill(parameter, elements(flat_.whole, parameter.place), 0);
    }
    set_leaf(parameter);
  }
  if (apart && !flat_.owns_storage) copy_values(flat_.own_of_whole(), flat_.shard);
  if (flat_.owns_storage) make_whole(options_.gathered.value_or(dtype), device);
  for (UnitParameter& parameter : parameters_) {
    parameter.full = whole_of(parameter, flat_.whole);
  }
  show_shards();
  flat_.set_true(true);
  target_->keep(flat_.shard, name_, is_of_root());
}

// The leaf goes on with this rank's part of the unit's shard.
void Unit::set_leaf(const UnitParameter& parameter) const {
  const ShardPart mine = shard_of(parameter);
  Partition place = parameter.former ? *parameter.former : Partition{.whole = parameter.shape};
  place.first = mine.first;
  place.group = parameter.group;
  set_part(parameter.leaf, elements(flat_.shard, mine.place),
           std::make_shared<const Partition>(std::move(place)));
}

}  // namespace hero::dist
