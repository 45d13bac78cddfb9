#pragma once
// Chapter 20: what a rank holds during a step, by where its shards lie.
#include <string>
#include <vector>

#include "support/pictures/plot.h"

namespace tutorial {

/// Bytes that a rank holds at moments of a step.
struct Course {
  std::string title;
  std::vector<Tick> moments;  ///< those with a name are told on the axis
  Values bytes;

  void note(const std::string& moment);
};

/// One line a course, whose moments are the same, below the limit; into folder/20_offload.
void draw_courses(const std::vector<Course>& courses, int64_t limit, const std::string& folder);

}  // namespace tutorial
