#pragma once
// Text from a model that is sharded over ranks with prompts of their own.
//
//   nn::GPT model(config);
//   dist::fully_shard(model, world);
//   const Tensor text = model.generate(prompts_of(world.rank()), {
//       .stop_tokens = {end}, .any_unfinished = dist::any_unfinished(world)});
#include <functional>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// For nn::GenerateOptions::any_unfinished, with the ranks among which the model's parameters are
/// sharded (fully_shard(), ZeRO of stage 3): all ranks call forward until every row of every rank
/// has ended, and no rank's text changes by that. Every rank of the group calls
/// generate() with it, a rank without prompts with an empty list. Before each step it sends one
/// number.
std::function<bool(bool)> any_unfinished(const Communicator& group);

}  // namespace hero::dist
