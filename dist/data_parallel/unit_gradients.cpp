// What a unit does with gradients: pack, average over the ranks, hand this rank's part to the
// leaves.
#include <algorithm>
#include <utility>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/graph/node.h>
#include <hero/core/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/dist/data_parallel/unit.h>

namespace hero::dist {

namespace k = core::kernels;

namespace {

// What a pass before left for the replicas goes to them, with zeros where this pass adds nothing.
bool is_owed(const Member& member, AllReduce when) {
  return when == AllReduce::now && member.partial.defined();
}

void write_zeros(const Array& row, int64_t begin, int64_t end) {
  if (begin < end) core::backend(row.device()).fill(row.slice(0, begin, end), 0.0);
}

}  // namespace

// Without gradients of some members (frozen ones, mostly) the parts are no longer balanced, and the
// same ones are missing in each step: the counts are made when that changes.
const PartCounts& Unit::counts_of(const std::vector<size_t>& members) {
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

// Libraries reduce equal parts in one call and others in one call a rank: a row that lacks little
// is better sent with zeros.
bool Unit::goes_as_row(int64_t elements, size_t members) const {
  const bool almost = options_.order == Order::native && elements >= total_ / 4 * 3;
  return options_.stage != Stage::none && (members == members_.size() || almost);
}

// [note: which gradients travel] Those that are there. All ranks must have the same; where some are
// missing the call's name says which, so that ranks that disagree get an error and no wrong sum.
void Unit::pack(Reduction& reduction) {
  std::string missing;
  int64_t elements = 0;
  bool first = true;
  DType dtype = options_.gathered.value_or(members_.front().leaf.dtype());
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    const Tensor gradient = member.full.grad();
    const bool has = gradient.defined() || is_owed(member, reduction.when);
    if (!has && !member.leaf.requires_grad()) continue;  // frozen, and not since no_sync()
    if (!has) {
      missing += (missing.empty() ? " without " : ", ") + member.name;
      continue;
    }
    reduction.members.push_back(i);
    elements += member.place.count;
    if (!gradient.defined()) continue;
    dtype = std::exchange(first, false) ? gradient.dtype() : promote(dtype, gradient.dtype());
  }
  reduction.name = name_ + missing;
  if (reduction.members.empty()) return;
  reduction.as_row = goes_as_row(elements, reduction.members.size());
  if (options_.stage != Stage::none) {
    reduction.counts = reduction.as_row ? counts_ : counts_of(reduction.members);
  }
  const Device device = members_.front().full.device();
  const bool stays = options_.stage <= Stage::optimizer;  // whole gradients are kept
  const MemoryScope tag(stays ? MemoryTag::gradient : MemoryTag::communication);
  reduction.dtype = options_.reduce.value_or(dtype);
  const int64_t row = reduction.as_row ? total_ : elements;
  reduction.bucket = Array::empty({row}, reduction.dtype, device);
  int64_t end = 0;  // of what is written
  for (const size_t i : reduction.members) {
    const Tensor& full = members_[i].full;
    const int64_t begin = reduction.as_row ? members_[i].place.begin : end;
    write_zeros(reduction.bucket, end, begin);
    end = begin + full.numel();
    if (!full.grad().defined()) {
      write_zeros(reduction.bucket, begin, end);
    } else if (begin < end) {
      core::backend(device).copy(full.grad().array().reshape({full.numel()}),
                                 reduction.bucket.slice(0, begin, end));
    }
    full.set_grad({});
  }
  write_zeros(reduction.bucket, end, row);
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
    give_gradient(member, whole);
    member.full.set_grad({});
  }
}

bool Unit::has_gradients(AllReduce when) const {
  const bool under_way = reduction_ != nullptr;  // with what was owed
  return std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
    return member.full.grad().defined() || (!under_way && is_owed(member, when));
  });
}

void Unit::begin_reduce(AllReduce when) {
  const bool divides_alone = options_.stage == Stage::none && options_.divide_by > 0.0;
  if (groups_.ranks() == 1 && !divides_alone) return keep_whole();
  reduction_ = std::make_unique<Reduction>();
  Reduction& r = *reduction_;
  r.when = when;
  pack(r);
  if (r.members.empty()) return;
  const CallOptions mean = {.op = ReduceOp::mean,
                            .order = options_.order,
                            .divide_by = options_.divide_by,
                            .async = true,
                            .unit = r.name};
  if (options_.stage == Stage::none) {
    r.own = r.bucket;
    if (hook_ == nullptr) {
      r.work = groups_.shard.all_reduce(r.bucket, mean);
    } else {
      const UnitScope named(r.name);
      r.hooked = hook_->run(bucket_of(r, mean));
    }
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
  if (options_.quantize.gradients) {
    return reduce_quantized(
        r, options_.divide_by > 0.0 ? options_.divide_by : static_cast<double>(groups_.ranks()));
  }
  CallOptions parts = mean;
  parts.counts = r.counts;
  r.work = groups_.shard.reduce_scatter(r.own, r.bucket, parts);
}

// [note: the sum of a hybrid] Each group of shards adds up its own gradients, each rank its part of
// them; then the ranks that hold the same shard add up these sums. In a tree that is the sum over
// all ranks where a group has 2^k of them, since such a group is a subtree; so halves are not
// rounded in between, and the division comes last. Both are under way while backward goes on. The
// groups' sums of passes before that are owed to the replicas are added in between. Sums in a
// codec's bytes are made in steps, behind which the replicas' begin.
void Unit::begin_reduce_over_replicas(Reduction& r) {
  const MemoryScope tag(MemoryTag::gradient);
  const bool quantized = options_.quantize.gradients.has_value();
  const bool exact = (quantized || options_.order != Order::native) && is_half(r.dtype);
  r.own = Array::empty({r.counts.count(groups_.shard.rank())}, exact ? kFloat32 : r.dtype,
                       r.bucket.device());
  if (quantized) {
    reduce_quantized(r, 1.0);
  } else {
    r.work = groups_.shard.reduce_scatter(
        r.own, r.bucket,
        {.order = options_.order, .async = true, .unit = r.name, .counts = r.counts});
  }
  r.within = quantized || r.when == AllReduce::later ||
             std::any_of(r.members.begin(), r.members.end(),
                         [&](size_t i) { return members_[i].partial.defined(); });
  if (!r.within) begin_all_reduce(r, r.work);
}

void Unit::begin_all_reduce(Reduction& r, const Work& after) const {
  const double ranks = static_cast<double>(groups_.ranks());
  r.work = groups_.replicas.all_reduce(
      r.own, {.op = ReduceOp::mean,
              .order = options_.order,
              .divide_by = options_.divide_by > 0.0 ? options_.divide_by : ranks,
              .async = true,
              .unit = r.name,
              .after = after});
}

GradBucket Unit::bucket_of(const Reduction& r, const CallOptions& mean) const {
  const double ranks = groups_.ranks();
  GradBucket bucket{groups_.shard,
                    bucket_index_,
                    is_last_bucket_,
                    r.bucket,
                    {},
                    options_.divide_by > 0.0 ? options_.divide_by : ranks,
                    mean};
  int64_t end = 0;
  for (const size_t i : r.members) {
    const Member& member = members_[i];
    const int64_t begin = r.as_row ? member.place.begin : end;
    bucket.parameters.push_back({member.name, begin, member.shape});
    end = begin + member.place.count;
  }
  return bucket;
}

// The sum within the group. Where some members have no gradient the parts are not equal: rows are
// then as long as the longest.
void Unit::reduce_quantized(Reduction& r, double divide_by) {
  const UnitScope named(r.name);
  const int ranks = groups_.shard.size();
  int64_t longest = 0;
  for (int i = 0; i < ranks; ++i) longest = std::max(longest, r.counts.count(i));
  const core::Codec codec = *options_.quantize.gradients;
  if (longest * ranks == r.bucket.numel()) {
    r.hooked = quantized_reduce_scatter(options_.route, codec, r.own, r.bucket, divide_by);
    return;
  }
  const MemoryScope tag(MemoryTag::communication);
  const Array rows = Array::zeros({longest * ranks}, r.bucket.dtype(), r.bucket.device());
  const Array padded = Array::empty({longest}, r.own.dtype(), r.own.device());
  for (int i = 0; i < ranks; ++i) {
    const Part from = r.counts.part(i);
    if (from.count == 0) continue;
    core::backend(rows.device())
        .copy(r.bucket.slice(0, from.begin, from.begin + from.count),
              rows.slice(0, i * longest, i * longest + from.count));
  }
  r.hooked = quantized_reduce_scatter(options_.route, codec, padded, rows, divide_by)
                 .then([padded, own = r.own] {
                   if (own.numel() == 0) return;
                   core::backend(own.device()).copy(padded.slice(0, 0, own.numel()), own);
                 });
}

void Unit::advance_hook() {
  if (!reduction_) return;
  const UnitScope named(reduction_->name);
  reduction_->hooked.advance();
}

bool Unit::begin_all_reduce() {
  if (!reduction_ || !reduction_->within || reduction_->when == AllReduce::later) return false;
  end_within(*reduction_);
  begin_all_reduce(*reduction_, {});
  return true;
}

// The group's sums are there: what was owed before is added to them, in the order of the passes.
void Unit::end_within(Reduction& r) {
  r.work.wait();
  {
    const UnitScope named(r.name);
    r.hooked.wait();
    r.hooked = {};
  }
  r.bucket = {};
  r.within = false;
  each_part(r, [](Member& member, const Array& mine) {
    const Array before = std::exchange(member.partial, {});
    if (before.defined() && mine.numel() > 0) core::map_into<k::Add>(mine, before, mine);
  });
}

bool Unit::end_reduce() {
  if (!reduction_) return true;
  begin_all_reduce();
  const std::unique_ptr<Reduction> done = std::move(reduction_);
  Reduction& r = *done;
  if (r.members.empty()) return true;
  if (r.within) {
    end_within(r);
    each_part(r, [](Member& member, const Array& mine) { member.partial = mine; });
    return false;
  }
  r.work.wait();
  {
    const UnitScope named(r.name);
    r.hooked.wait();
  }
  r.bucket = {};
  if (groups_.replicas.defined()) r.own = r.own.to(r.dtype);
  if (home_) r.own = begin_down(r.own);
  each_part(r, [this](Member& member, const Array& mine) {
    give_gradient(member, options_.stage == Stage::none ? mine.reshape(member.shape) : mine);
  });
  return true;
}

// Calls fn with each member that was packed and its elements among this rank's.
void Unit::each_part(const Reduction& r, const std::function<void(Member&, const Array&)>& fn) {
  int64_t begin = 0;
  for (const size_t i : r.members) {
    Member& member = members_[i];
    const bool whole = options_.stage == Stage::none;
    const Part place = whole ? member.place : owned(member);
    if (r.as_row && place.count > 0) begin = place.begin - (whole ? 0 : own_.begin);
    fn(member, r.own.slice(0, begin, begin + place.count));
    begin += place.count;
  }
}

void Unit::drop_gradients() {
  if (reduction_) {
    reduction_->work.wait();
    reduction_->hooked.abandon();
  }
  reduction_.reset();
  drop_landing();
  for (Member& member : members_) {
    member.full.set_grad({});
    member.partial = {};
  }
}

void Unit::add_gradient(Member& member, const Array& gradient) const {
  {
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
  if (options_.stage == Stage::none) return;  // the backend has called the leaf's hooks
  const NoGrad as_in_backward;
  detail::each_hook(*member.leaf.impl(), &detail::Hooks::leaf,
                    [&](const auto& hook) { hook.call(member.leaf); });
}

}  // namespace hero::dist
