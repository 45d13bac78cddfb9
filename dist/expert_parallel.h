#pragma once
// Expert parallelism: the experts of nn::MoE layers, divided among the ranks of an axis.
//
//   const dist::Mesh mesh(world, {{"data", 2}, {"expert", 4}});
//   const auto experts = dist::expert_parallel(model, mesh["expert"], {.loads_over = world});
//   for (const std::string& path : experts) {
//     dist::fully_shard(model.get_submodule(path), mesh["data"]);  // where there is a data axis
//   }
//   dist::fully_shard(model, world, {.ignored_modules = experts});
//   ...
//   const Tensor loss = cross_entropy(model(tokens), targets);
//   (loss + nn::moe_aux_loss(model)).backward();
#include <string>
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/nn/moe.h>

namespace hero::dist {

/// Options of expert_parallel().
struct ExpertParallelOptions {
  /// The ranks on whose tokens the load-balancing loss is computed; undefined: those of the axis.
  Communicator loads_over = {};
};

/// Divides the E experts of every MoE layer among the n ranks of `comm`: rank r keeps E / n of
/// them, from expert r E / n on. The parameters [E, ...] of the experts become the slices of these
/// experts along dimension 0 (Partition::boxes) and stay the same tensors, so an optimizer that was
/// made before keeps working, and checkpoints have the names and shapes of the model. A module on
/// meta stays there; materialize() and fully_shard() give it the values that it would have had.
/// Returns the paths of the layers' experts, which you must pass as ignored_modules when you apply
/// DDP, ZeRO or fully_shard() to the model over the same ranks. The rest of the model does not
/// change: every rank has its own tokens and the whole router.
///
/// In forward, the row of a token is sent to the ranks of its experts and the results are sent
/// back; in backward, the gradient of the result is sent to the expert and the gradient of the row
/// is sent back. So in each step a row (one of top_k for each token) that goes to another rank is
/// sent four times: to the expert and back in forward, and the gradients of both in backward, each
/// time `width` values; and in forward 8 E (n - 1) / n bytes of counts, or three times as many with
/// a load-balancing loss. All ranks of the axis must call the layer equally often, even if they
/// have no tokens.
///
/// The result of a token has the bits of one process with all experts. If n is a power of two, so
/// have the gradients of tokens and experts, compared with one process whose batch is the tokens of
/// all ranks, one rank after the other: an expert adds up over tokens in that order. Gradients of
/// experts are divided by n, so that they are those of the mean of the ranks' losses. With a
/// capacity_factor, each rank fills an expert's capacity for its own tokens by itself, as if they
/// were the whole batch.
///
/// Throws an Error on all ranks if the model has no MoE layer, n does not divide the experts of
/// one, they are divided already, or the ranks have different layers.
std::vector<std::string> expert_parallel(nn::Module& model, const Communicator& comm,
                                         const ExpertParallelOptions& options = {});

}  // namespace hero::dist
