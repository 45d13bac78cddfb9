#pragma once
// The reduce-scatter of a unit: how the gradients of all ranks become the mean, of which this rank
// gets the part that belongs to its shard. Which of them it is follows from the options and is
// chosen once.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hero/dist/comm_hook.h>
#include <hero/dist/data_parallel/unit_options.h>

namespace hero::dist {

/// Gradients of one unit on their way to the mean.
struct GradientReduction {
  AllReduce when = AllReduce::now;
  std::string name;                ///< of the unit, and of parameters without a gradient
  std::vector<size_t> parameters;  ///< the parameters that have one
  bool is_flat = false;            ///< they lie as in the flat parameter, with zeros for others
  bool has_unreduced = false;      ///< sums of passes before wait for the replicas
  bool is_of_group = false;        ///< `own` is a group's sum, to which those are still to be added
  DType dtype = kFloat32;          ///< of gradients on their way, and of the mean
  Array bucket;        ///< all gradients, one behind the other; undefined: nobody needs it any more
  ChunkCounts counts;  ///< of the bucket: the gradients that belong to each rank's shard
  Array own;           ///< this rank's part of the mean, once it is there
  Work work;           ///< the call under way,
  Future steps;        ///< or calls with steps in between

  /// Returns when they are complete, and lets go of the bucket.
  void wait();
};

/// Begins what makes `own` of the bucket.
using Reduce = std::function<void(GradientReduction&)>;

/// Null where there is nobody to reduce with and nothing to divide by: this rank's gradients are
/// the mean.
Reduce make_reduce(const UnitOptions& options);
/// The second call of a hybrid, over the replicas, with an `own` that was a group's sum.
void begin_over_replicas(const UnitOptions& options, GradientReduction& r, const Work& after);
/// DDP's by a hook, which gets the bucket that `bucket_of` makes.
Reduce reduce_by_hook(std::shared_ptr<const CommHook> hook,
                      std::function<GradBucket(const GradientReduction&)> bucket_of);
/// What the sum of all ranks is divided by.
double divisor(const UnitOptions& options);
/// The call that makes the mean, of this name.
CallOptions mean_of(const UnitOptions& options, const std::string& name);

}  // namespace hero::dist
