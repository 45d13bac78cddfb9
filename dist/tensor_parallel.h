#pragma once
// Tensor parallelism: ranks that compute one layer together, each with a slice of its weights, on
// the same batch. Shoeybi et al., arXiv 1909.08053.
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

namespace hero::dist {

/// How a module is cut into `ways` slices.
enum class Cut : uint8_t {
  /// A Linear by its outputs: rows of weight and bias. Every rank gets the whole input and gives
  /// its
  /// part of the outputs, for a layer that is cut by columns.
  rows,
  /// A Linear by its inputs: columns of weight. Every rank takes its part of the inputs; the sum of
  /// the slices' products is the output, on all ranks. The bias stays whole and is added to the
  /// sum.
  columns,
  /// A CausalSelfAttention, LlamaAttention or MultiheadAttention by its heads: those of the queries
  /// with those of
  /// keys and values that belong to them, and the columns of the last projection.
  heads,
  /// An Embedding, or a Linear without bias that gives the scores of classes, by words: rows of the
  /// weight, as even as they go. Called, it gives the same on all ranks as it gave whole. Where
  /// nn::GPT::loss or nn::Llama::loss (linear_cross_entropy) reads the weight the scores stay cut.
  vocabulary,
};
const char* name(Cut cut);

/// Modules and how they are cut. `path` is that of a module, with * for any characters:
/// {"*.mlp.c_fc", Cut::rows}.
struct TensorPlanEntry {
  std::string path;
  Cut cut = Cut::rows;
};
using TensorPlan = std::vector<TensorPlanEntry>;

/// The plan for what Hero knows below a module: heads of each CausalSelfAttention, LlamaAttention
/// and MultiheadAttention, c_fc and c_proj of each FeedForward, gate_proj, up_proj and down_proj of
/// each LlamaMLP, linear1 and linear2 of each TransformerEncoderLayer, the vocabulary of a GPT's
/// wte and a Llama's embed_tokens, and of lm_head.
TensorPlan tensor_plan(nn::Module& module);

struct TensorParallelOptions {
  TensorPlan plan = {};  ///< empty: tensor_plan(module)
  /// Slices that each module is defined by; 0: as many as ranks. A multiple 2^k of the number of
  /// ranks, or any number on one rank.
  int ways = 0;
  /// A GPT's ranks hold T / ranks of the T positions between the cut modules of its blocks: norms
  /// and residuals compute with these, and their activations are divided by the number of ranks. T
  /// is a multiple of `ways`; generate() is an Error. Korthikanti et al., arXiv 2205.05198.
  bool sequence = false;
};

/// Cuts a module's weights among the ranks of `group`, which all have the same module and run it on
/// the same inputs; every rank gets the same outputs and the same gradients of all that stays
/// whole.
///
/// Every slice is a product of its own, and sums over slices are made in Order::tree: so 1, 2, 4
/// and 8 ranks with `.ways = 8` give the same bits, in training too, where the number of ranks
/// divides the ways by a power of two. They are not those of the whole layer, whose sums are made
/// otherwise.
///
/// Weights keep their names, and their whole shape in checkpoints: a leaf is boxes of the whole
/// (Partition), one for each slice, or one for queries, keys and values of each. Each is the same
/// tensor as before. A module on meta stays there, cut; materialize() or fully_shard() gives it the
/// slices of the values that it would have had whole. DDP, ZeRO and fully_shard() over another axis
/// of the mesh come after this; a unit may not lie within a MultiheadAttention. An error, the same
/// on all ranks, for a plan that does not fit the module or that ranks do not have in common.
///
/// Of n bytes of activations a Transformer's block sends, over `group`, 4 x 2 n (t - 1) / t forward
/// and backward on t ranks. What draws random numbers outside the cut modules (dropout of
/// residuals) must draw the same on all ranks of the group: give them the same seed. Dropout inside
/// what is cut is an Error in training.
/// \snippet test_examples_ranks.cpp tensor_parallel
void tensor_parallel(nn::Module& module, const Communicator& group,
                     const TensorParallelOptions& options = {});

}  // namespace hero::dist
