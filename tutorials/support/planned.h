#pragma once
// Chapter 21: a planned step.
#include <string>

#include <hero/dist/rehearsal.h>

namespace tutorial {

/// Draws what each rank computes on a time axis, parts of one name in one box, into
/// folder/21_plan_timeline, and the bytes it holds below the device's memory into
/// folder/21_plan_memory. The rehearsal must have spans.
void draw_plan(const hero::dist::Rehearsal& step, const hero::dist::Cluster& cluster,
               const std::string& folder);

}  // namespace tutorial
