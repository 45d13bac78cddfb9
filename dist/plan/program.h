#pragma once
// The program that a strategy stands for, for simulated ranks.
#include <functional>
#include <memory>

#include <hero/dist/communicator.h>
#include <hero/dist/plan.h>

namespace hero::dist {

/// Makes the model on meta and everything around it, and takes two steps, so that the second one
/// finds what the first one made; `between` runs before the second.
void run_strategy(const PlanRequest& request, const Strategy& strategy, Communicator& world,
                  const std::function<void()>& between);

/// The first rank of each stage.
std::vector<int> stage_ranks(const Strategy& strategy);

}  // namespace hero::dist
