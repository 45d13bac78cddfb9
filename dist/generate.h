#pragma once
// Generating text with a sharded model, where each rank has prompts of its own.
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
/// has ended, which changes no rank's text. Every rank of the group must call generate() with this
/// function, a rank without prompts with an empty list. It makes a collective of one number before
/// each step.
std::function<bool(bool)> any_unfinished(const Communicator& group);

}  // namespace hero::dist
