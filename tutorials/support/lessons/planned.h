#pragma once
// Chapter 21: a planned step.
#include <string>
#include <vector>

#include <hero/dist/plan.h>
#include <hero/dist/simulation.h>

namespace tutorial {

/// What became of all strategies: a bar for each number of tensor ranks and stages, whose parts are
/// as wide as their shares. Into folder/21_plan_groups.
void draw_groups(const hero::dist::Plan& plan, const std::string& folder);

/// Draws what each rank computes on a time axis, parts of one name in one box, into
/// folder/21_plan_timeline, and the bytes it holds below the device's memory into
/// folder/21_plan_memory. The simulation must have spans.
void draw_plan(const hero::dist::Simulation& step, const hero::dist::Cluster& cluster,
               const std::string& folder);

/// A simulated step of so many ranks.
struct ScaledStep {
  bool is_hybrid = false;
  int ranks = 0;
  double seconds = 0.0;
};

/// Seconds of a step over the number of ranks, for shards on all of them and for hybrids, into
/// folder/21_plan_scale.
void draw_scale(const std::vector<ScaledStep>& steps, const std::string& folder);

}  // namespace tutorial
