// What a unit does with gradients: pack, average over the ranks, hand this rank's part to the
// leaves.
#include <utility>

#include <hero/core/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/dist/ladder/unit.h>

namespace hero::dist {

namespace k = core::kernels;

// [note: which gradients travel] Those that are there. All ranks must have the same; where some are
// missing the call's name says which, so that ranks that disagree get an error and no wrong sum.
void Unit::pack(Reduction& reduction) const {
  std::string missing;
  int64_t elements = 0;
  DType dtype = options_.gathered.value_or(members_.front().leaf.dtype());
  reduction.counts.assign(counts_.size(), 0);
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
    for (size_t r = 0; r < counts_.size(); ++r) {
      reduction.counts[r] += owned(member, static_cast<int>(r)).count;
    }
  }
  reduction.name = name_ + missing;
  if (reduction.members.empty()) return;
  const Device device = members_.front().full.device();
  const bool stays = options_.stage <= Stage::optimizer;  // whole gradients are kept
  const MemoryScope tag(stays ? MemoryTag::gradient : MemoryTag::communication);
  reduction.bucket = Array::empty({elements}, options_.reduce.value_or(dtype), device);
  int64_t begin = 0;
  for (const size_t i : reduction.members) {
    const Tensor& full = members_[i].full;
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
    add_gradient(member, gradient.array().reshape({member.place.count}).to(reduced));
    member.full.set_grad({});
  }
}

void Unit::begin_reduce() {
  if (groups_.ranks() == 1) return keep_whole();
  reduction_ = std::make_unique<Reduction>();
  Reduction& r = *reduction_;
  pack(r);
  if (r.members.empty()) return;
  const CallOptions mean = {.op = ReduceOp::mean, .async = true, .unit = r.name};
  if (options_.stage == Stage::none) {
    r.own = r.bucket;
    r.work = groups_.shard.all_reduce(r.bucket, mean);
    return;
  }
  const Part own = part_of(r.counts, r.bucket.numel(), groups_.shard.size(), groups_.shard.rank());
  if (options_.stage == Stage::optimizer) {
    r.own = r.bucket.slice(0, own.begin, own.begin + own.count);
  } else {
    const MemoryScope tag(MemoryTag::gradient);
    r.own = Array::empty({own.count}, r.bucket.dtype(), r.bucket.device());
  }
  if (groups_.replicas.defined()) return;  // see end_reduce()
  CallOptions parts = mean;
  parts.counts = r.counts;
  r.work = groups_.shard.reduce_scatter(r.own, r.bucket, parts);
}

// [note: the order of a hybrid's sum] The ranks of the first replica add their gradients in rank
// order and pass the sum on; those of the next go on with it: the order of one process, at the
// volume of a ring over all replicas together. The last divides and sends the mean to the others.
void Unit::reduce_over_replicas(Reduction& r) const {
  const Communicator& replicas = groups_.replicas;
  const int me = replicas.rank(), last = replicas.size() - 1;
  const CallOptions named = {.unit = r.name};
  if (me > 0) replicas.recv(r.own, me - 1, named);
  groups_.shard.reduce_scatter(r.own, r.bucket,
                               {.unit = r.name, .counts = r.counts, .accumulate = me > 0});
  if (me < last) replicas.send(r.own, me + 1, named);
  if (me == last)
    core::map_into<k::Div>(r.own, r.own, Scalar(static_cast<double>(groups_.ranks())));
  replicas.broadcast(r.own, last, named);
}

void Unit::end_reduce() {
  if (!reduction_) return;
  const std::unique_ptr<Reduction> done = std::move(reduction_);
  Reduction& r = *done;
  if (r.members.empty()) return;
  r.work.wait();
  if (groups_.replicas.defined()) reduce_over_replicas(r);
  r.bucket = {};
  int64_t begin = 0;
  for (const size_t i : r.members) {
    Member& member = members_[i];
    const int64_t count = options_.stage == Stage::none ? member.place.count
                                                        : owned(member, groups_.shard.rank()).count;
    const Array mine = r.own.slice(0, begin, begin + count);
    add_gradient(member, options_.stage == Stage::none ? mine.reshape(member.shape) : mine);
    begin += count;
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
