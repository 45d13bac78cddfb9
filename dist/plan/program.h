#pragma once
// The training program of a strategy, for simulated ranks.
#include <functional>
#include <memory>

#include <hero/dist/communicator.h>
#include <hero/dist/plan.h>

namespace hero::dist {

/// Makes the model on meta and everything around it, and runs two steps, so that gradients and
/// states exist in the second one; `between` is called before it.
void run_strategy(const PlanRequest& request, const Strategy& strategy, Communicator& world,
                  const std::function<void()>& between);

/// The first rank of each stage.
std::vector<int> stage_ranks(const Strategy& strategy);

}  // namespace hero::dist
