#pragma once
// What models made of equal blocks have in common: the blocks, one after the other, with each
// residual's sum and the next norm in one operation; and the loss behind the last projection.
#include <optional>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/offload/offload.h>
#include <hero/autograd/ops/losses/losses.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/container.h>
#include <hero/nn/linear.h>
#include <hero/nn/rotary.h>
#include <hero/nn/sequence.h>

namespace hero::nn {

/// What of its blocks a model keeps for backward.
struct BlockMemory {
  bool checkpoint = false;
  const std::optional<OffloadOptions>* offload = nullptr;
};

enum class LastNorm : uint8_t { no, yes };

/// What blocks begin ... end - 1 make of x [B, T, C] or, with LastNorm::yes, where they are the
/// last ones, the model's last norm of it. A block takes x alone, or x, its first_norm() of x and
/// the norm that follows it.
template <class Block, class Norm>
Tensor run_blocks(ModuleListOf<Block>& blocks, Norm& last, const BlockMemory& memory, size_t begin,
                  size_t end, const Tensor& x, LastNorm norm) {
  bool chained =
      norm == LastNorm::yes && begin < end && !memory.checkpoint && !memory.offload->has_value();
  for (size_t i = begin; i < end; ++i) chained = chained && !blocks[i].has_hooks();
  if (chained) {  // each block hands the next its norm
    SumAndNorm y{x, blocks[begin].first_norm()(x)};
    for (size_t i = begin; i < end; ++i) {
      y = blocks[i](y, i + 1 < end ? blocks[i + 1].first_norm() : last);
    }
    return y.norm;
  }
  Tensor y = x;
  for (size_t i = begin; i < end; ++i) {
    const auto run = [&memory, block = &blocks[i]](const Tensor& in) {
      if (!memory.checkpoint) return (*block)(in);
      return checkpoint([block](const Tensor& given) { return (*block)(given); }, in);
    };
    y = memory.offload->has_value() ? offload(**memory.offload, run, y) : run(y);
  }
  return norm == LastNorm::yes ? last(y) : y;
}

/// The mean cross entropy of lm_head's logits of features [B, T, C] with targets [B, T]. The logits
/// never exist as a whole, unless lm_head has hooks that see them.
inline Tensor head_loss_of(Linear& lm_head, const Tensor& features, const Tensor& targets) {
  const Tensor x = flatten(features, 0, 1), target = flatten(targets);
  if (lm_head.has_hooks_for_values()) return cross_entropy(lm_head(x), target);
  return lm_head.run_fused(
      x, [&](const Tensor& rows) { return linear_cross_entropy(rows, lm_head.weight, target); });
}

/// How many targets head_loss_of() does not leave out; on meta, which has no values, all.
double valid_targets(const Tensor& targets);

/// \name Where ranks share each sequence (dist::context_parallel)
/// \{
/// x [B, H, T, D] turned by the positions from 0 on or, with a sequence, by those of this rank.
Tensor turned_by_position(RotaryEmbedding& rotary, const Tensor& x, const SequencePart* sequence);

/// head_loss_of() of features at this rank's positions; targets are those of all positions. `model`
/// names errors.
Tensor shared_head_loss(const char* model, Linear& lm_head, const SequencePart& sequence,
                        const Tensor& features, const Tensor& targets);

/// An Error where a model whose ranks share sequences is asked for one token at a time.
void check_generates(const SequencePart* sequence);
/// \}

}  // namespace hero::nn
