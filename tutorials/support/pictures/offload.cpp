#include "support/pictures/offload.h"

#include <algorithm>

#include "support/options/device.h"

#include <hero/core/ledger.h>

namespace tutorial {

void Course::note(const std::string& moment) {
  const auto at = static_cast<double>(bytes.size());
  if (!moment.empty()) moments.push_back({at, moment});
  bytes.push_back(static_cast<double>(hero::current_ledger().live(device().type)));
}

void draw_courses(const std::vector<Course>& courses, int64_t limit, const std::string& folder) {
  Figure figure("What a rank holds in a step", "", "KiB");
  const double top = static_cast<double>(limit) / 1024;
  figure.patterned()
      .x_range(0, static_cast<double>(courses.front().bytes.size() - 1))
      .y_range(0, 1.5 * top);
  figure.x_ticks(courses.front().moments).rule(top, "the limit", 0.7);
  for (const Course& course : courses) {
    Values x, y;
    for (const double bytes : course.bytes) {
      x.push_back(static_cast<double>(x.size()));
      y.push_back(bytes / 1024);
    }
    const bool above = *std::max_element(y.begin(), y.end()) > top;
    figure.line(course.title + (above ? ", no limit" : ""), x, y);
  }
  figure.save(folder, "20_offload");
}

}  // namespace tutorial
