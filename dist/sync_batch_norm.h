#pragma once
// SyncBatchNorm: batch normalisation over the batches of all ranks of a group, as over one batch.
//
//   nn::ResNet model;                                // your own, with nn::BatchNorm2d in it
//   dist::convert_sync_batch_norm(model, world);
//   dist::DDP ddp(model, world);
#include <memory>

#include <hero/autograd/partition.h>
#include <hero/dist/communicator.h>
#include <hero/nn/norm.h>

namespace hero::dist {

/// nn::BatchNorm1d and BatchNorm2d of x [N, C, ..] whose mean and variance in training are those of
/// the elements of all ranks, of which each may have its own N; running statistics are then alike
/// on all ranks. A collective in training, forward and backward: two sums of C + 1 and C numbers
/// each. In evaluation each rank by itself.
///
/// Every sample is summed up by itself, and samples and ranks in a tree: where ranks are 2^k and
/// all have 2^j samples, outputs, running statistics and, of a loss that is a sum over samples,
/// gradients have the same bits as on one rank that has all samples. Halves are computed in
/// float32.
class SyncBatchNorm : public nn::BatchNorm {
 public:
  using Options = nn::BatchNormOptions;
  SyncBatchNorm(int64_t features, const Communicator& group,
                const nn::BatchNormOptions& options = {});
  Tensor forward(const Tensor& x) override;

 protected:
  void check_input(const Tensor& x) const override;

 private:
  std::shared_ptr<Owners> group_;
};

/// Replaces every BatchNorm1d and BatchNorm2d below a module by a SyncBatchNorm that has its
/// parameters and buffers, which stay the same tensors, and its options. Before DDP, ZeRO and
/// fully_shard(). Returns how many there were.
int convert_sync_batch_norm(nn::Module& module, const Communicator& group);

}  // namespace hero::dist
