#include "support/lessons/planned.h"

#include <cmath>
#include <utility>

#include "support/pictures/palette.h"
#include "support/pictures/plot.h"

namespace tutorial {

namespace {

namespace dist = hero::dist;

// A part of a step, from its first kernel to its last.
struct Part {
  std::string name;
  double begin = 0.0, end = 0.0;
};

std::vector<Part> parts_of(const dist::Simulation& step, const dist::ReplayRank& rank) {
  std::vector<Part> parts;
  for (const dist::ReplaySpan& span : rank.spans) {
    if (span.track != dist::ReplaySpan::Track::compute || span.label < 0) continue;
    const std::string& name = step.labels[static_cast<size_t>(span.label)];
    if (name.empty()) continue;
    if (parts.empty() || parts.back().name != name) parts.push_back({name, span.begin, span.end});
    parts.back().end = span.end;
  }
  return parts;
}

const char* colour_of(const std::string& name) {
  switch (name.front()) {
    case 'F':
      return kForwardColours[0];
    case 'B':
      return kBackwardColours[0];
    case 'W':
      return kWeightGradientColours[0];
    default:
      return kOtherColour;
  }
}

void draw_timeline(const dist::Simulation& step, const std::string& folder) {
  Figure figure(
      "A planned step: forwards blue, backwards green, gradients of weights yellow, optimizer grey",
      "seconds", "");
  std::vector<Tick> rows;
  double y = 0.0;
  for (const dist::ReplayRank& rank : step.ranks) {
    rows.push_back({y - 0.5, "rank " + std::to_string(rank.rank)});
    for (const Part& part : parts_of(step, rank)) {
      const std::string text = part.name.size() > 4 ? "" : part.name.substr(1);
      figure.box(part.begin, y - 0.95, part.end - part.begin, 0.9, colour_of(part.name), text);
    }
    y -= 1.0;
  }
  figure.x_range(0, step.seconds)
      .y_range(y - 0.1, 0.1)
      .y_ticks(rows)
      .save(folder, "21_plan_timeline");
}

void draw_memory(const dist::Simulation& step, const dist::Cluster& cluster,
                 const std::string& folder) {
  const double limit = static_cast<double>(cluster.memory) / 1e9;
  Figure figure("What a rank of each stage holds in the step", "seconds", "GB");
  figure.x_range(0, step.seconds).y_range(0, 1.2 * limit);
  figure.rule(limit, "the device's memory");
  figure.patterned();
  for (const dist::ReplayRank& rank : step.ranks) {
    Values x, bytes;
    for (const dist::ReplaySpan& span : rank.spans) {
      if (span.track != dist::ReplaySpan::Track::compute) continue;
      // as many points as a picture shows
      if (!x.empty() && span.end - x.back() < step.seconds / 400) continue;
      x.push_back(span.end);
      bytes.push_back(static_cast<double>(span.bytes) / 1e9);
    }
    figure.line("rank " + std::to_string(rank.rank), x, bytes);
  }
  figure.save(folder, "21_plan_memory");
}

// One bar of draw_groups(), in the cell whose lower left corner is (x, y).
void draw_group(Figure& figure, const dist::PlanGroup& group, double x, double y) {
  const std::pair<int64_t, const char*> parts[] = {
      {group.too_large + group.host_too_large, "#cccccc"},
      {group.slower, "#7db7e0"},
      {group.not_simulated, "#f0a860"},
      {group.simulated, "#9fca8f"}};
  constexpr double kWide = 0.92;
  figure.label(std::to_string(group.strategies), x + 0.5, y + 0.82, "#333333");
  for (const auto& [count, colour] : parts) {
    if (count == 0) continue;
    const double width = kWide * static_cast<double>(count) / static_cast<double>(group.strategies);
    const std::string text = std::to_string(count);
    figure.box(x + 0.04, y + 0.15, width, 0.5, colour, fits(text, 88.0 * width) ? text : "");
    x += width;
  }
}

}  // namespace

void draw_groups(const dist::Plan& plan, const std::string& folder) {
  Figure figure(
      "Numbers of ways to divide GPT-3: too large grey, slower blue, not tried orange, simulated "
      "green",
      "", "");
  std::vector<Tick> columns, rows;
  for (const dist::PlanGroup& group : plan.groups) {
    const double x = std::log2(group.pipe), y = std::log2(group.tensor);
    draw_group(figure, group, x, y);
    if (columns.size() <= static_cast<size_t>(x)) columns.resize(static_cast<size_t>(x) + 1);
    if (rows.size() <= static_cast<size_t>(y)) rows.resize(static_cast<size_t>(y) + 1);
    columns[static_cast<size_t>(x)] = {x + 0.5, "p " + std::to_string(group.pipe)};
    rows[static_cast<size_t>(y)] = {y + 0.4, "t " + std::to_string(group.tensor)};
  }
  figure.x_range(0, static_cast<double>(columns.size()))
      .y_range(0, static_cast<double>(rows.size()))
      .x_ticks(columns)
      .y_ticks(rows)
      .save(folder, "21_plan_groups");
}

void draw_scale(const std::vector<ScaledStep>& steps, const std::string& folder) {
  Figure figure("A step of GPT-3 under FSDP, simulated", "ranks", "seconds");
  figure.patterned();
  std::vector<Tick> ticks;
  for (const bool hybrid : {false, true}) {
    Values x, y;
    for (const ScaledStep& step : steps) {
      if (step.is_hybrid != hybrid) continue;
      x.push_back(std::log2(step.ranks));
      y.push_back(step.seconds);
      if (!hybrid) ticks.push_back({x.back(), std::to_string(step.ranks)});
    }
    figure.line(hybrid ? "hybrid: shards on 64 ranks" : "shards on all ranks", x, y);
  }
  figure.x_range(5.5, 14.5).y_range(0, 70).x_ticks(ticks).save(folder, "21_plan_scale");
}

void draw_plan(const dist::Simulation& step, const dist::Cluster& cluster,
               const std::string& folder) {
  draw_timeline(step, folder);
  draw_memory(step, cluster, folder);
}

}  // namespace tutorial
