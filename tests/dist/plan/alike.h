#pragma once
// Stages recorded once where they are alike, beside simulations of all of them.
#include <functional>

#include "support/catch.h"

#include <hero/dist/plan/program.h>
#include <hero/dist/plan/stage_recordings.h>
#include <hero/dist/simulation.h>

namespace hero::test {

/// Checks that the stages' recordings, played, take the time of a simulation that records each of
/// them, and calls check_rank with the two results of every rank and the seconds of the step.
inline void compare_with_each_stage(
    const dist::PlanRequest& request, const dist::Strategy& strategy,
    const dist::StageRecordings& stages,
    const std::function<void(const dist::ReplayRank& few, const dist::ReplayRank& each,
                             double seconds)>& check_rank) {
  const auto program = [&](dist::Communicator& world) {
    dist::run_strategy(request, strategy, world, [] { dist::begin_simulated_step(); });
  };
  const dist::Simulation each = dist::simulate(request.ranks, program, request.cluster,
                                               {.ranks = dist::stage_ranks(strategy)});
  const dist::Simulation few = dist::replay(stages.of(strategy.micro_batches), request.cluster);
  CHECK(few.seconds == Approx(each.seconds).epsilon(1e-9));
  REQUIRE(few.ranks.size() == each.ranks.size());
  for (size_t i = 0; i < few.ranks.size(); ++i) {
    CAPTURE(i);
    check_rank(few.ranks[i], each.ranks[i], few.seconds);
  }
}

}  // namespace hero::test
