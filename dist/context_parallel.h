#pragma once
// Context parallelism: each rank computes some positions of each sequence, so that no rank needs
// memory for the activations of a whole sequence. Attention gathers the keys and values. Liu et
// al., arXiv 2310.01889 (in a ring); Dubey et al., arXiv 2407.21783, section 3.3.2 (gathered, as
// here).
//
//   const dist::Mesh mesh(world, {{"data", 2}, {"context", 4}});
//   nn::GPT model(config);
//   dist::context_parallel(model, mesh["context"]);
//   dist::fully_shard(model, mesh, {.unit = dist::each<nn::Block>()});  // over both axes
//   model.loss(tokens, targets).backward();  // whole sequences, alike along "context"
#include <cstdint>
#include <memory>
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/nn/module.h>

namespace hero::dist {

class SharedSequence;

/// Options of context_parallel().
struct ContextParallelOptions {
  /// Slices of the sequence for which gradients of weights, keys and values are computed
  /// separately; 0: as many as ranks. It is the number of ranks times a power of two. More slices
  /// than ranks are supported for a GPT, a Llama, a batch_first MultiheadAttention and other
  /// modules whose nn::ParallelForm says by_position.
  int slices = 0;
};

/// How ranks share sequences, for a program that does not call nn::GPT::loss(). T: positions of a
/// whole sequence; c: ranks.
class ContextParallel {
 public:
  // No move: a handle that was moved from still refers to the same object.
  ContextParallel(const ContextParallel&) = default;
  ContextParallel& operator=(const ContextParallel&) = default;

  /// The T / c positions that this rank computes, in the order in which they lie in its tensors.
  std::vector<int64_t> positions(int64_t T) const;
  /// Returns the slice of x at this rank's positions along dimension `dim`; x has all T positions,
  /// on every rank.
  Tensor take(const Tensor& x, int64_t dim = 1) const;
  /// The inverse of take(): gathers from all ranks the tensor with all T positions along `dim`, in
  /// the order of positions, on every rank and without gradients. A collective.
  Tensor gather(const Tensor& x, int64_t dim = 1) const;
  /// The mean over the ranks of a loss that each rank has computed of its own positions. Its
  /// gradients are those of the rank's own loss, which are then to be averaged over the ranks. A
  /// collective.
  Tensor mean(const Tensor& loss) const;

 private:
  friend ContextParallel context_parallel(nn::Module&, const Communicator&,
                                          const ContextParallelOptions&);
  explicit ContextParallel(std::shared_ptr<const SharedSequence> sequence)
      : sequence_(std::move(sequence)) {}
  std::shared_ptr<const SharedSequence> sequence_;
};

/// Makes the ranks of `group` share sequences in `module`, which must be the same on all of them:
/// in every nn::GPT and nn::Llama, their attention layers, MultiheadAttention, and other modules
/// whose nn::ParallelForm says shares_sequence. For w slices, a sequence of T positions is cut into
/// 2 w runs, where 2 w divides T; a rank has T / c positions, half of them from the first half of
/// the sequence, so that all ranks compute equal shares of a causal attention.
///
/// loss() of a GPT or Llama takes whole tokens and targets, the same on all ranks of the group, and
/// returns the mean over all positions that are not ignored. forward() returns the logits at this
/// rank's positions. An attention layer by itself takes and returns this rank's positions.
///
/// Weights stay whole, and each rank has their gradients from its own positions: average them over
/// the group, as over ranks with different data. So apply DDP, ZeRO or fully_shard() after this,
/// over a group or a mesh that contains these ranks. The results have the same bits for every
/// number of ranks c for which w / c is a power of two. These are not the bits of whole sequences,
/// for which sums over positions have another order; with one rank and one slice nothing changes.
///
/// For n bytes of keys and values [B, T, 2 C_kv], each attention layer sends n (c - 1) / c bytes in
/// forward and as many in backward; a loss sends one number. Throws an Error, the same on all
/// ranks, if the module has no attention, the ranks differ in it, or a parameter is of a layer that
/// may look at other positions, such as a convolution, and no nn::ParallelForm says otherwise.
/// Afterwards, dropout in training, other random numbers drawn in forward, masks, attention weights
/// and generate() throw an Error when they are used.
ContextParallel context_parallel(nn::Module& module, const Communicator& group,
                                 const ContextParallelOptions& options = {});

}  // namespace hero::dist
