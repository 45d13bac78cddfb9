#include <algorithm>
#include <utility>

#include <hero/core/device/backend.h>
#include <hero/dist/data_parallel/flat_parameter.h>
#include <hero/dist/data_parallel/reduce_scatter.h>

namespace hero::dist {

void GradientReduction::wait() {
  work.wait();
  const UnitScope named(name);
  steps.wait();
  bucket = {};
}

double divisor(const UnitOptions& options) {
  return options.divide_by > 0.0 ? options.divide_by : options.groups.ranks();
}

CallOptions mean_of(const UnitOptions& options, const std::string& name) {
  return {.op = ReduceOp::mean,
          .order = options.order,
          .divide_by = options.divide_by,
          .async = true,
          .unit = name};
}

void begin_over_replicas(const UnitOptions& options, GradientReduction& r, const Work& after) {
  CallOptions mean = mean_of(options, r.name);
  mean.divide_by = divisor(options);
  mean.after = after;
  r.work = options.groups.replicas.all_reduce(r.own, mean);
}

Reduce reduce_by_hook(std::shared_ptr<const CommHook> hook,
                      std::function<GradBucket(const GradientReduction&)> bucket_of) {
  return [hook = std::move(hook), bucket_of = std::move(bucket_of)](GradientReduction& r) {
    r.own = r.bucket;
    const UnitScope named(r.name);
    r.steps = hook->run(bucket_of(r));
  };
}

namespace {

// The reduction of DDP: an all-reduce of the whole bucket.
Reduce all_reduce(const UnitOptions& options) {
  return [options](GradientReduction& r) {
    r.own = r.bucket;
    r.work = options.groups.shard.all_reduce(r.bucket, mean_of(options, r.name));
  };
}

// Memory for this rank's part; halves of which more than one sum is made are added up in float32.
Array own_part(const UnitOptions& options, const GradientReduction& r, bool exact) {
  const Chunk own = r.counts.chunk(options.groups.shard.rank());
  if (options.stage == Stage::optimizer) return elements(r.bucket, own);
  const MemoryScope tag(MemoryTag::gradient);
  return Array::empty({own.count}, exact && is_half(r.dtype) ? kFloat32 : r.dtype,
                      r.bucket.device());
}

void begin_reduce_scatter(const UnitOptions& options, GradientReduction& r, CallOptions call) {
  call.counts = r.counts;
  r.work = options.groups.shard.reduce_scatter(r.own, r.bucket, call);
}

// Gradients in a codec's format, by calls with steps in between. Where some parameters have no
// gradient the parts are not equal: they are then padded to the longest.
void begin_quantized(const UnitOptions& options, GradientReduction& r, double divide_by) {
  const UnitScope named(r.name);
  const int ranks = options.groups.shard.size();
  int64_t longest = 0;
  for (int i = 0; i < ranks; ++i) longest = std::max(longest, r.counts.count(i));
  if (longest * ranks == r.bucket.numel()) {
    r.steps = quantized_reduce_scatter(options.route, *options.quantize.gradients, r.own, r.bucket,
                                       divide_by);
    return;
  }
  const MemoryScope tag(MemoryTag::communication);
  const Array parts = Array::zeros({longest * ranks}, r.dtype, r.bucket.device());
  const Array padded = Array::empty({longest}, r.own.dtype(), r.own.device());
  for (int i = 0; i < ranks; ++i) {
    const Chunk from = r.counts.chunk(i);
    if (from.count == 0) continue;
    core::backend(parts.device())
        .run(
            core::call::Copy{elements(r.bucket, from), elements(parts, {i * longest, from.count})});
  }
  r.steps =
      quantized_reduce_scatter(options.route, *options.quantize.gradients, padded, parts, divide_by)
          .then([padded, own = r.own] {
            if (own.numel() == 0) return;
            core::backend(own.device()).run(core::call::Copy{padded.slice(0, 0, own.numel()), own});
          });
}

// [note: the sum of a hybrid] Each group of shards adds up its own gradients, each rank its part of
// them; then the ranks that hold the same shard add up these sums. In a tree that is the sum over
// all ranks where a group has 2^k of them, since such a group is a subtree; so halves are not
// rounded in between, and the division comes last. Both are under way while backward goes on. The
// groups' sums of passes before that wait for the replicas are added in between. Sums in a codec's
// bytes are made in steps, behind which the replicas' begin.
Reduce hybrid(const UnitOptions& options) {
  return [options](GradientReduction& r) {
    const MemoryScope tag(MemoryTag::gradient);
    r.own = own_part(options, r, options.quantize.gradients || options.order != Order::native);
    if (options.quantize.gradients) {
      begin_quantized(options, r, 1.0);
    } else {
      begin_reduce_scatter(options, r, {.order = options.order, .async = true, .unit = r.name});
    }
    r.is_of_group = options.quantize.gradients || r.when == AllReduce::later || r.has_unreduced;
    if (!r.is_of_group) begin_over_replicas(options, r, r.work);
  };
}

Reduce reduce_scatter(const UnitOptions& options) {
  return [options](GradientReduction& r) {
    r.own = own_part(options, r, false);
    begin_reduce_scatter(options, r, mean_of(options, r.name));
  };
}

Reduce quantized(const UnitOptions& options) {
  return [options](GradientReduction& r) {
    r.own = own_part(options, r, false);
    begin_quantized(options, r, divisor(options));
  };
}

}  // namespace

Reduce make_reduce(const UnitOptions& options) {
  const Groups& groups = options.groups;
  if (groups.ranks() == 1 && !(options.stage == Stage::none && options.divide_by > 0.0))
    return nullptr;
  if (options.stage == Stage::none) return all_reduce(options);
  if (groups.replicas.defined()) return hybrid(options);
  return options.quantize.gradients ? quantized(options) : reduce_scatter(options);
}

}  // namespace hero::dist
