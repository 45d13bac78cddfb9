#pragma once
// SyncBatchNorm: batch normalisation over the batches of all ranks of a group, as over one batch.
//
//   nn::ResNet model;                                // your own, with nn::BatchNorm2d in it
//   dist::convert_sync_batch_norm(model, world);
//   dist::DDP ddp(model, world);
#include <memory>

#include <hero/autograd/sharding/partition.h>
#include <hero/dist/communicator.h>
#include <hero/nn/norm.h>

namespace hero::dist {

/// Batch normalisation of x [N, C, ..] like nn::BatchNorm1d and BatchNorm2d, but in training with
/// the mean and variance over the elements of all ranks, which may have different N, also N = 0; so
/// running statistics are the same on all ranks. In training, forward and backward are collectives:
/// two sums of C + 1 and C numbers each, which a rank without samples makes, too. Throws an Error,
/// on all ranks, if all of them have one value per channel or none. In evaluation each rank
/// computes by itself.
///
/// Sums are first computed for each sample, and then added up over samples and ranks in a tree: if
/// there are 2^k ranks with 2^j samples each, then outputs, running statistics and, for a loss that
/// is a sum over samples, gradients have the same bits as on one rank with all samples. Half
/// precision is computed in float32.
class SyncBatchNorm : public nn::BatchNorm {
 public:
  using Options = nn::BatchNormOptions;
  /// Makes a layer for this number of channels. convert_sync_batch_norm() makes them for you.
  SyncBatchNorm(int64_t features, const Communicator& group,
                const nn::BatchNormOptions& options = {});
  Tensor forward(const Tensor& x) override;

 protected:
  void check_input(const Tensor& x) const override;

 private:
  std::shared_ptr<RankGroup> group_;
};

/// Replaces every BatchNorm1d and BatchNorm2d below a module by a SyncBatchNorm with its options,
/// parameters and buffers, which stay the same tensors. Call it before DDP, ZeRO or fully_shard().
/// Returns how many there were.
int convert_sync_batch_norm(nn::Module& module, const Communicator& group);

}  // namespace hero::dist
