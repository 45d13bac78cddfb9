#pragma once
// Expert parallelism: the experts of nn::MoE layers over the ranks of an axis.
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

struct ExpertParallelOptions {
  /// The ranks over whose tokens the load-balancing loss counts how often each expert was chosen;
  /// undefined: those of the axis.
  Communicator loads_over = {};
};

/// Of every MoE layer with E experts each of the n ranks of `comm` keeps E / n: rank r those from
/// r E / n on. The leaves of the layer's experts go on as boxes of the parameters [E, ...]
/// (Partition::boxes), so an optimizer made before goes on with them, and checkpoints have the
/// names and shapes of the model. A module on meta stays there; materialize() and fully_shard()
/// give it the values that it would have had. Returns the paths of the layers' experts, to be left
/// out by what averages the rest of the model over the same ranks (ignored_modules), which is as
/// before: every rank has its own tokens and all of the router.
///
/// In forward a token's row goes to the ranks of its experts and the result comes back, in backward
/// the result's gradient goes and the row's comes back. So a rank sends twice a step the rows of
/// its own (tokens times top_k) that leave it, and twice those that came from others, each of width
/// values; and in forward 8 E (n - 1) / n bytes of counts, with a load-balancing loss three times
/// as many. All ranks of the axis must call the layer equally often, also without tokens.
///
/// A token's result has the bits of one process with all experts. So have the gradients of tokens
/// and experts where one process takes the ranks' tokens as one batch, one rank's behind the
/// other's, and n is a power of two: an expert adds up over tokens in that order. Experts'
/// gradients are divided by n, so that they are those of the mean of the ranks' losses. With a
/// capacity_factor each rank fills an expert's capacity for its own tokens by itself, as if they
/// were a batch.
///
/// An Error, on all ranks, where the model has no MoE layer, n does not divide the experts of one,
/// they are cut already, or ranks have different layers.
std::vector<std::string> expert_parallel(nn::Module& model, const Communicator& comm,
                                         const ExpertParallelOptions& options = {});

}  // namespace hero::dist
