// What a strategy costs by a rehearsal.
#include <algorithm>

#include <hero/dist/plan/program.h>
#include <hero/dist/rehearsal.h>

namespace hero::dist {

namespace {

Rehearsal played(const PlanRequest& request, const Strategy& strategy, bool spans) {
  const auto program = [&](Communicator& world) {
    run_strategy(request, strategy, world, [] { begin_rehearsed_step(); });
  };
  return rehearse(strategy.ranks(), program, request.cluster,
                  {.ranks = stage_ranks(strategy), .spans = spans});
}

PlanCost run(const PlanRequest& request, const Strategy& strategy) {
  const Rehearsal step = played(request, strategy, false);
  PlanCost cost{.seconds = step.seconds, .memory = step.peak_bytes};
  for (const ReplayRank& rank : step.ranks) {
    cost.inside = std::max(cost.inside, static_cast<double>(rank.sent_inside));
    cost.outside = std::max(cost.outside, static_cast<double>(rank.sent_outside));
  }
  return cost;
}

// Two numbers of micro-batches behind which each further one costs the same: gradients are there
// and, in a pipeline, as many micro-batches wait as ever will.
std::pair<int64_t, int64_t> few(const Strategy& s) {
  if (s.pipe == 1) return {2, 3};
  if (s.schedule.chunks() > 1) return {2 * s.pipe, 3 * s.pipe};
  return {s.pipe + 1, s.pipe + 3};
}

}  // namespace

PlanCost rehearse_strategy(const PlanRequest& request, const Strategy& strategy) {
  const auto [less, more] = few(strategy);
  if (strategy.micro_batches <= more) return run(request, strategy);
  Strategy small = strategy;
  small.micro_batches = less;
  const PlanCost a = run(request, small);
  small.micro_batches = more;
  const PlanCost b = run(request, small);
  const double steps =
      static_cast<double>(strategy.micro_batches - more) / static_cast<double>(more - less);
  // All micro-batches' tokens are there at once, and the last stage keeps their losses.
  const int64_t kept = request.model.block_size * strategy.micro_batch * 8 + 4;
  const int64_t further = strategy.pipe == 1 ? 0 : kept * (strategy.micro_batches - more);
  return {.seconds = b.seconds + steps * (b.seconds - a.seconds),
          .memory = b.memory + further,
          .inside = b.inside + steps * (b.inside - a.inside),
          .outside = b.outside + steps * (b.outside - a.outside)};
}

Rehearsal strategy_timeline(const PlanRequest& request, const Strategy& strategy) {
  Strategy small = strategy;
  small.micro_batches = std::min<int64_t>(strategy.micro_batches, 2 * strategy.pipe);
  return played(request, small, true);
}

}  // namespace hero::dist
