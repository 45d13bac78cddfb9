#pragma once
// The reduce-scatter of a unit, which averages the gradients of all ranks and gives this rank the
// part of the mean that belongs to its shard. Which function does it follows from the options and
// is chosen once.
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
  std::string name;  ///< name of the unit, with the names of parameters without a gradient
  std::vector<size_t> parameters;  ///< the parameters that have one
  /// True: the bucket is laid out like the flat parameter, with zeros for missing gradients.
  bool is_flat = false;
  /// True: sums of earlier passes are still to be added up over the replicas.
  bool has_unreduced = false;
  /// True: `own` is the sum of a shard group, without those earlier sums.
  bool is_of_group = false;
  DType dtype = kFloat32;  ///< dtype of the bucket and of the mean
  Array bucket;            ///< all gradients, concatenated; undefined: no longer needed
  ChunkCounts counts;      ///< elements of the bucket that belong to each rank's shard
  Array own;               ///< this rank's part of the mean, when the calls are complete
  Work work;               ///< the call under way,
  Future steps;            ///< or calls with steps in between

  /// Waits until the calls are complete, and releases the bucket.
  void wait();
};

/// Begins the calls that compute `own` from the bucket.
using Reduce = std::function<void(GradientReduction&)>;

/// Null if there is no other rank and nothing to divide by: then this rank's gradients are the
/// mean.
Reduce make_reduce(const UnitOptions& options);
/// Begins the second call of hybrid sharding, the all-reduce over the replicas of `own`, which is
/// the sum of a shard group.
void begin_over_replicas(const UnitOptions& options, GradientReduction& r, const Work& after);
/// DDP's reduction by a communication hook, which gets the bucket that `bucket_of` makes.
Reduce reduce_by_hook(std::shared_ptr<const CommHook> hook,
                      std::function<GradBucket(const GradientReduction&)> bucket_of);
/// What the sum of all ranks is divided by.
double divisor(const UnitOptions& options);
/// Options of the call of this name that computes the mean.
CallOptions mean_of(const UnitOptions& options, const std::string& name);

}  // namespace hero::dist
