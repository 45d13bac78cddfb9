#include "support/lessons/compressed.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace tutorial {
namespace {

constexpr size_t kLast = 10;  // steps at the end that are averaged

double end_of(const RunCourse& course) {
  const size_t count = std::min(kLast, course.losses.size());
  return std::accumulate(course.losses.end() - static_cast<int64_t>(count), course.losses.end(),
                         0.0) /
         static_cast<double>(count);
}

// Means of ten steps, so that the curves can be told apart.
Values smoothed(const Values& x) {
  Values means;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t begin = i + 1 < kLast ? 0 : i + 1 - kLast;
    const double sum = std::accumulate(x.begin() + static_cast<int64_t>(begin),
                                       x.begin() + static_cast<int64_t>(i) + 1, 0.0);
    means.push_back(sum / static_cast<double>(i + 1 - begin));
  }
  return means;
}

}  // namespace

Values mean_losses(const Communicator& world, const std::vector<double>& mine) {
  const hero::dist::Traffic counted = world.traffic();
  const auto all = hero::Array::from(mine, {static_cast<int64_t>(mine.size())});
  world.all_reduce(all, {.op = hero::dist::ReduceOp::mean});
  world.traffic() = counted;
  return all.to_vector<double>();
}

void show_runs(const Communicator& world, const std::vector<RunCourse>& courses, double link) {
  say(world, "  %-16s %10s %16s %14s %10s %9s\n", "", "last loss", "bytes per step", "by formula",
      "all bytes", "of Adam's");
  bool as_said = true, same = true;
  const double of_adam = courses.front().bytes.back();
  for (const RunCourse& course : courses) {
    const double all = course.bytes.back();
    char share[16] = "-";  // one rank alone sends nothing
    if (of_adam > 0.0) std::snprintf(share, sizeof share, "%.1f%%", 100.0 * all / of_adam);
    say(world, "  %-16s %10.4f %16lld %14lld %10.0f %9s\n", course.name.c_str(), end_of(course),
        static_cast<long long>(course.last), static_cast<long long>(course.formula), all, share);
    as_said = as_said && course.as_said;
    same = same && course.same;
  }
  say(world, "  a step's bytes as the formulas say on every rank: %s; all ranks end alike: %s\n",
      as_said ? "yes" : "no", same ? "yes" : "no");
  if (link == 0.0) return;
  say(world, "  measured on a link of %.0f MB/s, seconds:\n", link / 1e6);
  for (const RunCourse& course : courses) {
    say(world, "  %-16s %10.3f, its bytes alone %8.3f\n", course.name.c_str(),
        course.seconds.back(), course.bytes.back() / link);
  }
}

void draw_runs(const std::vector<RunCourse>& courses, const RankOptions& options,
               const std::string& name) {
  const auto draw = [&](const char* title, const char* axis, double scale, Values RunCourse::*along,
                        const std::string& file) {
    Figure figure(title, axis, "loss, mean of ten steps");
    for (const RunCourse& course : courses) {
      Values x = course.*along;
      for (double& value : x) value *= scale;
      figure.line(course.name, x, smoothed(course.losses));
    }
    figure.legend("top right").save(options.out, file);
  };
  draw("Loss by what a rank has sent", "MB", 1e-6, &RunCourse::bytes, name);
  if (options.link > 0.0) {
    draw("Loss by time", "seconds", 1.0, &RunCourse::seconds, name + "_link");
  }
}

}  // namespace tutorial
