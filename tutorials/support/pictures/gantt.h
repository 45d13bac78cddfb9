#pragma once
// Chapter 19: schedules of a pipeline on a time axis.
#include <string>
#include <vector>

#include <hero/dist/pipeline_schedule.h>

namespace tutorial {

/// Draws what `ranks` ranks do under each schedule, a row a rank: forwards take one unit of time
/// and backwards two, for a whole rank's layers, and a pass begins when its rank is free and its
/// input has come. Numbers are micro-batches, paler boxes later chunks; into folder/19_schedules.
void draw_schedules(const std::vector<hero::dist::Schedule>& schedules, int ranks,
                    int micro_batches, const std::string& folder);

}  // namespace tutorial
