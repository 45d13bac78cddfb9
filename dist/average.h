#pragma once
// Averages over ranks: target_weights() for the losses of micro-batches that have different numbers
// of targets, average_parameters() for ranks that train separately for some steps (local SGD).
#include <cstdint>
#include <vector>

#include <hero/autograd/tensor.h>
#include <hero/dist/communicator.h>

namespace hero::dist {

/// Returns a factor for the loss of each of this rank's n micro-batches. DDP, ZeRO and
/// fully_shard() compute the mean of the micro-batches' mean losses; with the factors they compute
/// the mean over all targets of all micro-batches on all ranks of `group`. Factor i is targets[i]
/// (n ranks) / (the targets of all ranks), exactly 1 if all micro-batches have equally many
/// targets. Where micro-batches have different numbers of targets (padding, ignore_index), the mean
/// of means weighs the targets of short ones more and depends on how the batch is divided; with the
/// factors it is the loss of one process with the whole batch.
///
///     const double targets = sum(y != -100).item();
///     const double weight = dist::target_weights({targets}, world)[0];
///     (model.loss(x, y) * weight).backward();
///
/// A collective of `group`, of 16 bytes a rank. Throws an Error on every rank if the ranks have
/// different numbers of micro-batches, or if a number of targets is negative or not finite. Without
/// any target all factors are 0. On simulated ranks they are 1. optim::target_weights() is the same
/// for one process.
std::vector<double> target_weights(const std::vector<double>& targets, const Communicator& group);

/// Options of average_parameters().
struct AverageOptions {
  int64_t bucket_bytes = 25 << 20;  ///< bytes of parameters that are averaged in one call
  Order order = Order::tree;        ///< order in which the ranks' parameters are added up
};

/// Replaces parameters by their mean over the ranks of a group, as PyTorch's averagers do. A
/// collective, between two steps; throws an Error on every rank if their sizes differ. With DDP
/// within a host and this between hosts in every k-th step, the slow link carries 1 / k of the
/// bytes: local SGD, Lin et al., arXiv 1808.07217. The states of an optimizer are not averaged.
/// Parameters may be shards, under any strategy, if the ranks of the group hold the same ones.
/// Buffers can be averaged in the same way if they are of floating dtype. \snippet
/// test_examples_ranks.cpp average_parameters
void average_parameters(const std::vector<Tensor>& parameters, const Communicator& group,
                        const AverageOptions& options = {});

}  // namespace hero::dist
