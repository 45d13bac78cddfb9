#include "support/lessons/compressed.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include <hero/core/functions/codec.h>
#include <hero/dist/ddp_comm_hooks.h>

namespace tutorial {
namespace {

constexpr size_t kLast = 10;  // steps at the end that are averaged

double end_of(const RunCourse& course) {
  const size_t count = std::min(kLast, course.losses.size());
  return std::accumulate(course.losses.end() - static_cast<int64_t>(count), course.losses.end(),
                         0.0) /
         static_cast<double>(count);
}

// Means of as many as were drawn in ten steps.
Values smoothed(const Values& x) {
  constexpr size_t kMost = 5;
  Values means;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t count = std::min(i + 1, kMost);
    const auto end = x.begin() + static_cast<int64_t>(i) + 1;
    means.push_back(std::accumulate(end - static_cast<int64_t>(count), end, 0.0) /
                    static_cast<double>(count));
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
    figure.patterned();
    for (const RunCourse& course : courses) {
      Values x;
      for (const size_t step : course.drawn_after) x.push_back(scale * (course.*along)[step]);
      figure.line(course.name, x, smoothed(course.drawn));
    }
    figure.save(options.out, file);
  };
  draw("Loss on the same samples by what a rank has sent", "MB", 1e-6, &RunCourse::bytes, name);
  if (options.link > 0.0) {
    draw("Loss on the same samples by time", "seconds", 1.0, &RunCourse::seconds, name + "_link");
  }
}

namespace {

// Sums of what the bits of x say, after each of so many steps; an array for each element.
std::vector<Values> sums_sent(const std::vector<float>& x, int steps, bool feedback) {
  namespace core = hero::core;
  constexpr auto kCodec = hero::dist::Codec::sign1;
  const auto n = static_cast<int64_t>(x.size());
  const int64_t row = core::row_elements(kCodec, n, 1);
  const hero::Array values = hero::Array::from(x, {n});
  const hero::Array bytes = hero::Array::empty({1, core::encoded_bytes(kCodec, row)}, hero::kUInt8);
  const hero::Array error = hero::Array::from(std::vector<float>(x.size(), 0.0F), {n});
  const hero::Array sum = hero::Array::from(std::vector<float>(x.size(), 0.0F), {n});
  std::vector<Values> sums(x.size(), Values{0.0});
  for (int step = 0; step < steps; ++step) {
    core::encode(kCodec, values, row, bytes, feedback ? &error : nullptr);
    core::decode(kCodec, bytes, row, sum, core::DecodeMode::add);
    const std::vector<float> now = sum.to_vector<float>();
    for (size_t i = 0; i < now.size(); ++i) sums[i].push_back(static_cast<double>(now[i]));
  }
  return sums;
}

}  // namespace

void draw_feedback(const std::string& folder) {
  constexpr int kSteps = 24;
  const std::vector<float> x = {0.9F, -0.5F, 0.1F, -0.3F};
  const std::vector<Values> with = sums_sent(x, kSteps, true),
                            without = sums_sent(x, kSteps, false);
  Values steps(kSteps + 1);
  std::iota(steps.begin(), steps.end(), 0.0);
  Figure figure("Four numbers in one bit each, in every step: what has arrived, for two of them",
                "step", "sum over the steps");
  for (const size_t i : {size_t{0}, size_t{2}}) {
    Values truth = steps;
    for (double& value : truth) value *= static_cast<double>(x[i]);
    char number[16];
    std::snprintf(number, sizeof number, "%.1f", static_cast<double>(x[i]));
    figure.line(std::string(number) + " in each step, exactly", steps, truth, 1.2);
    figure.rings(std::string(number) + " in one bit, with error feedback", steps, with[i], 0.9);
  }
  figure.line("either of them in one bit, without", steps, without[0], 3.0);
  figure.x_range(0, kSteps).height(680).save(folder, "22_feedback");
}

}  // namespace tutorial
