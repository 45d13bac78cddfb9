#include "support/lessons/overlap.h"

#include <algorithm>
#include <cstdio>

#include "support/pictures/palette.h"
#include "support/pictures/plot.h"

namespace tutorial {

void StepModel::compute(const std::string& what, double operations) {
  const double begin = now_;
  now_ += operations / machine_.operations;
  computing_.push_back(
      {what, begin, now_, what.rfind("∇", 0) == 0 ? kBackwardColours[0] : kForwardColours[0]});
}

void StepModel::send(Message kind, const std::string& what, double bytes) {
  const double begin = std::max(now_, link_free_);
  link_free_ = begin + machine_.message + bytes / machine_.bytes;
  sending_.push_back(
      {what, begin, link_free_, kind == Message::gather ? kGatherColour : kReduceColour});
  came_[{kind, what}] = link_free_;
}

void StepModel::wait(Message kind, const std::string& what) { wait_until(came_.at({kind, what})); }

void StepModel::wait_all() { wait_until(link_free_); }

void StepModel::wait_until(double time) {
  if (time <= now_) return;
  waited_ += time - now_;
  now_ = time;
}

void show_steps(const Communicator& world, const std::vector<StepModel>& steps,
                const Machine& machine) {
  say(world,
      "\na step by a model: %.0f Gflop/s, a link of %.0f MB/s, %.0f us for every message\n"
      "                          computes      waits   together\n",
      1e-9 * machine.operations, 1e-6 * machine.bytes, 1e6 * machine.message);
  for (const StepModel& step : steps) {
    say(world, "  %-22s %7.3f ms %7.3f ms %7.3f ms\n", step.name().c_str(),
        1e3 * (step.seconds() - step.waited()), 1e3 * step.waited(), 1e3 * step.seconds());
  }
}

void draw_steps(const std::vector<StepLanes>& steps, const std::string& title,
                const std::string& folder, const std::string& name) {
  Figure figure(title, "milliseconds since the step began", "");
  double longest = 0.0;
  for (const StepLanes& step : steps) longest = std::max(longest, step.seconds);
  std::vector<Tick> lanes;
  double y = 0.0;
  const auto lane = [&](const char* label, const std::vector<LaneSpan>& spans) {
    lanes.push_back({y - 0.5, label});
    for (const LaneSpan& span : spans) {
      const double width = span.end - span.begin;
      figure.box(1e3 * span.begin, y - 0.95, 1e3 * width, 0.9, span.colour,
                 fits(span.what, 520.0 * width / longest) ? span.what : "");
    }
    y -= 1.0;
  };
  for (const StepLanes& step : steps) {
    char text[128];
    std::snprintf(text, sizeof text, "%s: %.2f ms, waits %.2f", step.name.c_str(),
                  1e3 * step.seconds, 1e3 * step.waited);
    figure.label(text, 0.5e3 * longest, y - 0.45, "#111111");
    y -= 0.9;
    lane("computes", step.computing);
    lane("link", step.sending);
    y -= 0.5;
  }
  figure.x_range(0, 1.02e3 * longest).y_range(y + 0.3, 0.2).y_ticks(lanes).save(folder, name);
}

void draw_steps(const std::vector<StepModel>& steps, const std::string& title,
                const std::string& folder, const std::string& name) {
  std::vector<StepLanes> lanes;
  for (const StepModel& step : steps) lanes.push_back(step.lanes());
  draw_steps(lanes, title, folder, name);
}

}  // namespace tutorial
