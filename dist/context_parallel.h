#pragma once
// Context parallelism: ranks that share each sequence, so that no rank holds the activations of all
// of its positions. Attention gathers the keys and values. Liu et al., arXiv 2310.01889 (in a
// ring); Dubey et al., arXiv 2407.21783, section 3.3.2 (gathered, as here).
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

struct ContextParallelOptions {
  /// Slices of the sequence that gradients of weights, keys and values are defined by; 0: as many
  /// as ranks. A multiple 2^k of the number of ranks. More than ranks are for a GPT or a
  /// batch_first MultiheadAttention.
  int ways = 0;
};

/// What a program asks that does not go by nn::GPT::loss. T positions of a whole sequence, c ranks.
class ContextParallel {
 public:
  /// The positions that this rank has, T / c of them, in the order in which its tensors have them.
  std::vector<int64_t> positions(int64_t T) const;
  /// x at these positions of dimension `dim`, where all ranks have x whole.
  Tensor take(const Tensor& x, int64_t dim = 1) const;
  /// The whole of x, of which each rank has its positions along `dim`, in their order, on all ranks
  /// and without gradient. A collective.
  Tensor gather(const Tensor& x, int64_t dim = 1) const;
  /// The mean over the ranks of a loss that each has of its own positions. Its gradients are those
  /// of the rank's own loss, to be averaged over the ranks. A collective.
  Tensor mean(const Tensor& loss) const;

 private:
  friend ContextParallel context_parallel(nn::Module&, const Communicator&,
                                          const ContextParallelOptions&);
  explicit ContextParallel(std::shared_ptr<const SharedSequence> sequence)
      : sequence_(std::move(sequence)) {}
  std::shared_ptr<const SharedSequence> sequence_;
};

/// Lets the ranks of `group` share the sequences of every nn::GPT, CausalSelfAttention and
/// MultiheadAttention of a module, which all of them have alike. A sequence of T positions is cut
/// into 2 w runs for w ways, T a multiple of that; a rank has T / c positions, half of them from
/// the sequence's first half, and computes as much of a causal attention as any other.
///
/// nn::GPT::loss takes whole tokens and targets, the same on all ranks of the group, and gives the
/// mean over all positions that are not ignored. Its forward gives the scores at this rank's
/// positions. Attention on its own takes and gives this rank's positions.
///
/// Weights stay whole, and each rank has their gradients by its own positions: average them over
/// the group, as over ranks with data of their own. So DDP, ZeRO or fully_shard() comes after this,
/// over a group or a mesh that has these ranks in it. With c ranks that divide w by a power of two
/// the bits of all that is trained are the same for every c. They are not those of whole sequences,
/// whose sums over positions are made otherwise; with one rank and one way nothing is changed.
///
/// Of n bytes of keys and values [B, T, 2 C_kv] each layer of attention sends n (c - 1) / c forward
/// and as much backward; a loss sends one number. An Error, the same on all ranks, where there is
/// no attention or where ranks differ in it. Dropout in training, masks, weights of attention and
/// generate() are Errors when they are used.
ContextParallel context_parallel(nn::Module& module, const Communicator& group,
                                 const ContextParallelOptions& options = {});

}  // namespace hero::dist
