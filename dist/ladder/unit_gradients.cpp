// What a unit does with gradients: pack, average over the ranks, hand this rank's part to the
// leaves.
#include <algorithm>
#include <utility>

#include <hero/core/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/dist/ladder/unit.h>

namespace hero::dist {

namespace k = core::kernels;

// Without gradients of some members (frozen ones, mostly) the parts are no longer balanced, and the
// same ones are missing in each step: the counts are made when that changes.
const PartCounts& Unit::counts_of(const std::vector<size_t>& members) {
  if (members.size() == members_.size()) return counts_;
  if (packed_ == members) return packed_counts_;
  std::vector<int64_t> counts(static_cast<size_t>(counts_.size()), 0);
  for (const size_t i : members) {
    const Part& place = members_[i].place;
    const int64_t end = place.begin + place.count;
    for (int64_t at = place.begin; at < end;) {
      const int rank = counts_.part_of(at);
      const int64_t next = std::min(end, counts_.first(rank) + counts_.count(rank));
      counts[static_cast<size_t>(rank)] += next - at;
      at = next;
    }
  }
  packed_counts_ = std::move(counts);
  packed_ = members;
  return packed_counts_;
}

// [note: which gradients travel] Those that are there. All ranks must have the same; where some are
// missing the call's name says which, so that ranks that disagree get an error and no wrong sum.
void Unit::pack(Reduction& reduction) {
  std::string missing;
  int64_t elements = 0;
  DType dtype = options_.gathered.value_or(members_.front().leaf.dtype());
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (!member.leaf.requires_grad()) continue;
    if (!member.full.grad().defined()) {
      missing += (missing.empty() ? " without " : ", ") + member.name;
      continue;
    }
    reduction.members.push_back(i);
    const DType given = member.full.grad().dtype();  // of several the widest
    dtype = reduction.members.size() == 1 ? given : promote(dtype, given);
    elements += member.place.count;
  }
  reduction.name = name_ + missing;
  if (reduction.members.empty()) return;
  if (options_.stage != Stage::none) reduction.counts = counts_of(reduction.members);
  const Device device = members_.front().full.device();
  const bool stays = options_.stage <= Stage::optimizer;  // whole gradients are kept
  const MemoryScope tag(stays ? MemoryTag::gradient : MemoryTag::communication);
  reduction.as_row = reduction.members.size() == members_.size();
  const DType reduced = options_.reduce.value_or(dtype);
  const bool gaps = reduction.as_row && elements < total_;
  reduction.bucket =
      gaps ? Array::zeros({total_}, reduced, device) : Array::empty({elements}, reduced, device);
  int64_t begin = 0;
  for (const size_t i : reduction.members) {
    const Tensor& full = members_[i].full;
    if (reduction.as_row) begin = members_[i].place.begin;
    const Array target = reduction.bucket.slice(0, begin, begin + full.numel());
    if (full.numel() > 0) {
      core::backend(device).copy(full.grad().array().reshape({full.numel()}), target);
    }
    full.set_grad({});
    begin += full.numel();
  }
}

// One rank alone: its gradients are the mean.
void Unit::keep_whole() {
  if (options_.stage == Stage::none) return;
  for (Member& member : members_) {
    const Tensor gradient = member.full.grad();
    if (!gradient.defined()) continue;
    const DType reduced = options_.reduce.value_or(gradient.dtype());
    const Array whole = gradient.array().reshape({member.place.count}).to(reduced);
    if (options_.divide_by > 0.0) core::map_into<k::Div>(whole, whole, Scalar(options_.divide_by));
    add_gradient(member, whole);
    member.full.set_grad({});
  }
}

void Unit::begin_reduce() {
  const bool divides_alone = options_.stage == Stage::none && options_.divide_by > 0.0;
  if (groups_.ranks() == 1 && !divides_alone) return keep_whole();
  reduction_ = std::make_unique<Reduction>();
  Reduction& r = *reduction_;
  pack(r);
  if (r.members.empty()) return;
  const CallOptions mean = {.op = ReduceOp::mean,
                            .order = options_.order,
                            .divide_by = options_.divide_by,
                            .async = true,
                            .unit = r.name};
  if (options_.stage == Stage::none) {
    r.own = r.bucket;
    r.work = groups_.shard.all_reduce(r.bucket, mean);
    return;
  }
  if (groups_.replicas.defined()) return begin_reduce_over_replicas(r);
  const Part own = r.counts.part(groups_.shard.rank());
  if (options_.stage == Stage::optimizer) {
    r.own = r.bucket.slice(0, own.begin, own.begin + own.count);
  } else {
    const MemoryScope tag(MemoryTag::gradient);
    r.own = Array::empty({own.count}, r.bucket.dtype(), r.bucket.device());
  }
  CallOptions parts = mean;
  parts.counts = r.counts;
  r.work = groups_.shard.reduce_scatter(r.own, r.bucket, parts);
}

// [note: the sum of a hybrid] Each group of shards adds up its own gradients, each rank its part of
// them; then the ranks that hold the same shard add up these sums. In a tree that is the sum over
// all ranks where a group has 2^k of them, since such a group is a subtree; so halves are not
// rounded in between, and the division comes last. Both are under way while backward goes on.
void Unit::begin_reduce_over_replicas(Reduction& r) const {
  const MemoryScope tag(MemoryTag::gradient);
  const DType dtype = r.bucket.dtype();
  const bool exact = options_.order != Order::native && is_half(dtype);
  r.own = Array::empty({r.counts.count(groups_.shard.rank())}, exact ? kFloat32 : dtype,
                       r.bucket.device());
  const Work within = groups_.shard.reduce_scatter(
      r.own, r.bucket,
      {.order = options_.order, .async = true, .unit = r.name, .counts = r.counts});
  const double ranks = static_cast<double>(groups_.ranks());
  r.work = groups_.replicas.all_reduce(
      r.own, {.op = ReduceOp::mean,
              .order = options_.order,
              .divide_by = options_.divide_by > 0.0 ? options_.divide_by : ranks,
              .async = true,
              .unit = r.name,
              .after = within});
}

void Unit::end_reduce() {
  if (!reduction_) return;
  const std::unique_ptr<Reduction> done = std::move(reduction_);
  Reduction& r = *done;
  if (r.members.empty()) return;
  r.work.wait();
  if (groups_.replicas.defined()) r.own = r.own.to(r.bucket.dtype());
  r.bucket = {};
  int64_t begin = 0;
  for (const size_t i : r.members) {
    Member& member = members_[i];
    const bool whole = options_.stage == Stage::none;
    const Part place = whole ? member.place : owned(member);
    if (r.as_row && place.count > 0) begin = place.begin - (whole ? 0 : own_.begin);
    const Array mine = r.own.slice(0, begin, begin + place.count);
    add_gradient(member, whole ? mine.reshape(member.shape) : mine);
    begin += place.count;
  }
}

void Unit::drop_gradients() {
  if (reduction_) reduction_->work.wait();
  reduction_.reset();
  for (const Member& member : members_) member.full.set_grad({});
}

void Unit::add_gradient(Member& member, const Array& gradient) const {
  const MemoryScope tag(MemoryTag::gradient);
  if (member.aside.defined()) member.leaf.set_grad(std::exchange(member.aside, {}));
  const Array mine = gradient.to(member.leaf.dtype());
  const Tensor former = member.leaf.grad();
  if (!former.defined()) {
    member.leaf.set_grad(Tensor(mine));
  } else if (mine.numel() > 0) {
    core::map_into<k::Add>(former.array(), former.array(), mine);
  }
}

}  // namespace hero::dist
