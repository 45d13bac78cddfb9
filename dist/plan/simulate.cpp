// The cost of a strategy by a simulation.
#include <algorithm>

#include <hero/dist/plan/model_sizes.h>
#include <hero/dist/plan/program.h>
#include <hero/dist/plan/stage_recordings.h>
#include <hero/dist/simulation.h>

namespace hero::dist {

namespace {

Simulation played(const PlanRequest& request, const Strategy& strategy, bool spans) {
  const auto program = [&](Communicator& world) {
    run_strategy(request, strategy, world, [] { begin_simulated_step(); });
  };
  return simulate(strategy.ranks(), program, request.cluster,
                  {.ranks = stage_ranks(strategy), .spans = spans});
}

PlanCost cost_of(const Simulation& step) {
  PlanCost cost{.seconds = step.seconds, .memory = step.peak_bytes};
  for (const ReplayRank& rank : step.ranks) {
    cost.inside = std::max(cost.inside, static_cast<double>(rank.sent_inside));
    cost.outside = std::max(cost.outside, static_cast<double>(rank.sent_outside));
    cost.host = std::max(cost.host, rank.host_peak_total);
    cost.disk = std::max(cost.disk, rank.disk_peak);
  }
  return cost;
}

// Two numbers of micro-batches behind which each further one costs the same: gradients are there
// and, in a pipeline, as many micro-batches wait as ever will.
std::pair<int64_t, int64_t> few(const Strategy& s) {
  if (s.pipe == 1) return {2, 3};
  return {2 * s.pipe, 3 * s.pipe};
}

// The cost of all micro-batches on the line through two numbers of them.
PlanCost on_line(const PlanRequest& request, const Strategy& s,
                 const std::function<PlanCost(int64_t micro_batches)>& cost) {
  const auto [less, more] = few(s);
  if (s.micro_batches <= more) return cost(s.micro_batches);
  const PlanCost a = cost(less), b = cost(more);
  const double steps =
      static_cast<double>(s.micro_batches - more) / static_cast<double>(more - less);
  // All micro-batches' samples are there at once, and the last stage keeps their losses.
  const int64_t kept = sample_bytes(request) * s.micro_batch + 4;
  const int64_t further = s.pipe == 1 ? 0 : kept * (s.micro_batches - more);
  return {.seconds = b.seconds + steps * (b.seconds - a.seconds),
          .memory = b.memory + further,
          .inside = b.inside + steps * (b.inside - a.inside),
          .outside = b.outside + steps * (b.outside - a.outside),
          .host = b.host,
          .disk = b.disk};
}

}  // namespace

PlanCost simulate_strategy(const PlanRequest& request, const Strategy& strategy) {
  if (strategy.pipe > 1 && strategy.micro_batches >= StageRecordings::recorded(strategy)) {
    const StageRecordings stages(request, strategy);
    const auto [less, more] = few(strategy);
    const bool has_few = stages.has(less) && stages.has(more);
    if (strategy.micro_batches > more ? has_few : stages.has(strategy.micro_batches)) {
      return on_line(request, strategy, [&](int64_t micro_batches) {
        return cost_of(replay(stages.of(micro_batches), request.cluster));
      });
    }
  }
  return on_line(request, strategy, [&](int64_t micro_batches) {
    Strategy small = strategy;
    small.micro_batches = micro_batches;
    return cost_of(played(request, small, false));
  });
}

Simulation strategy_timeline(const PlanRequest& request, const Strategy& strategy) {
  Strategy small = strategy;
  small.micro_batches = std::min<int64_t>(strategy.micro_batches, 2 * strategy.pipe);
  return played(request, small, true);
}

}  // namespace hero::dist
