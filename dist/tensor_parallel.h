#pragma once
// Tensor parallelism: ranks compute each layer together, each with a slice of its weights, on the
// same batch. Shoeybi et al., arXiv 1909.08053.
//
//   const dist::Mesh mesh(world, {{"data", 4}, {"tensor", 2}});
//   nn::GPT model(config);
//   dist::tensor_parallel(model, mesh["tensor"]);
//   dist::fully_shard(model, mesh["data"], {.unit = dist::each<nn::Block>()});
//   model.loss(tokens, targets).backward();  // as before
#include <cstdint>
#include <string>
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/nn/module.h>
#include <hero/nn/parallel_form.h>

namespace hero::dist {

using nn::Cut;
/// The name of a cut: "colwise", "rowwise", "heads" or "vocabulary".
const char* name(Cut cut);

/// How a module is cut. `path` is the path of the module, where * stands for any characters:
/// {"*.mlp.c_fc", Cut::colwise}.
using TensorPlanEntry = nn::ModuleCut;
using TensorPlan = std::vector<TensorPlanEntry>;

/// The plan that the modules themselves describe in their nn::ParallelForm. Of Hero's modules it
/// cuts the heads of each CausalSelfAttention and MultiheadAttention, the linear layers of each
/// FeedForward, linear1 and linear2 of each TransformerEncoderLayer, and the vocabulary of a
/// CausalLM's embedding of tokens and lm_head; in addition it has the cuts that your own modules
/// describe.
TensorPlan tensor_plan(nn::Module& module);

/// Options of tensor_parallel().
struct TensorParallelOptions {
  TensorPlan plan = {};  ///< which modules are cut, and how; empty: tensor_plan(module)
  /// The number of slices of each module; 0: as many as ranks. It is the number of ranks times a
  /// power of two, or any number on one rank.
  int slices = 0;
  /// True, for a GPT, a Llama or another model whose form has a stack: between the cut modules of
  /// its blocks, each rank has T / ranks of the T positions: norms and residuals compute with
  /// these, and their activations are divided by the number of ranks. T must be a multiple of
  /// `slices`; generate() throws an Error. All parameters of a block must be cut or in modules that
  /// its form calls by_position. Korthikanti et al., arXiv 2205.05198.
  bool sequence = false;
};

/// Divides a module's weights among the ranks of `group`, which all have the same module and run it
/// on the same inputs; every rank gets the same outputs, and the same gradients of all parameters
/// that are not cut.
///
/// The product with each slice is computed by itself, and sums over slices are made in Order::tree:
/// so 1, 2, 4 and 8 ranks with `.slices = 8` give the same bits, in training too; in general, if
/// slices / ranks is a power of two. These are not the bits of the whole layer, whose sums have
/// another order.
///
/// Weights keep their names, and in checkpoints their whole shape: a leaf consists of boxes of the
/// whole (Partition), one for each slice, or three for queries, keys and values of each. The leaves
/// are the same tensors as before. A module on meta stays there, cut; materialize() or
/// fully_shard() gives it its slices of the values that it would have had. Apply DDP, ZeRO or
/// fully_shard() over another axis of the mesh after this; a unit must not lie within a
/// MultiheadAttention. Throws an Error, the same on all ranks, if the plan does not fit the module
/// or is not the same on all ranks.
///
/// For n bytes of activations and t ranks, a Transformer block sends 4 x 2 n (t - 1) / t bytes over
/// `group` in forward and backward. Random draws outside of cut modules (dropout of residuals) must
/// be the same on all ranks of the group, so give them the same seed; if they differ, all ranks get
/// an Error in their next collective of the group. Random draws for a tensor of which each rank has
/// only a part (between layers that are cut, or with .sequence at its positions) throw an Error,
/// since a rank's dropout mask would not be its part of the whole mask.
/// \snippet test_examples_ranks.cpp tensor_parallel
void tensor_parallel(nn::Module& module, const Communicator& group,
                     const TensorParallelOptions& options = {});

}  // namespace hero::dist
