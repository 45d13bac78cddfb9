#include "support/pictures/gantt.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "support/pictures/palette.h"
#include "support/pictures/plot.h"

namespace tutorial {

namespace {

namespace dist = hero::dist;
using dist::Action;

struct Pass {
  Action action;
  double start = 0.0, end = 0.0;
};

// Each rank's passes with their times.
std::vector<std::vector<Pass>> played(const dist::Schedule& schedule, int ranks,
                                      int micro_batches) {
  using Kind = Action::Kind;
  const int stages = ranks * schedule.chunks();
  std::vector<std::vector<Action>> todo;
  std::vector<std::vector<Pass>> done(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) todo.push_back(schedule.actions(r, ranks, micro_batches));
  std::map<std::tuple<Kind, int, int>, double> ends;  // of a stage's pass of a micro-batch
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < ranks; ++r) {
      auto& mine = done[static_cast<size_t>(r)];
      const auto& list = todo[static_cast<size_t>(r)];
      while (mine.size() < list.size()) {
        const Action& action = list[mine.size()];
        const int stage = action.chunk * ranks + r;
        const bool forward = action.kind == Kind::forward;
        const bool weights = action.kind == Kind::weights;  // their backward comes before
        double ready = mine.empty() ? 0.0 : mine.back().end;
        if (!weights && !(forward && stage == 0)) {
          const bool turn = !forward && stage == stages - 1;  // its own forward comes before
          const int from = forward ? stage - 1 : turn ? stage : stage + 1;
          const auto input =
              ends.find({forward || turn ? Kind::forward : Kind::backward, from, action.micro});
          if (input == ends.end()) break;
          ready = std::max(ready, input->second);
        }
        const double time = forward || schedule.splits_backward() ? 1.0 : 2.0;
        const double end = ready + time / schedule.chunks();
        ends[{action.kind, stage, action.micro}] = end;
        mine.push_back({action, ready, end});
        moved = true;
      }
    }
  }
  return done;
}

}  // namespace

void draw_schedules(const std::vector<hero::dist::Schedule>& schedules, int ranks,
                    int micro_batches, const std::string& folder) {
  Figure figure(
      "Schedules of a pipeline: forwards blue, backwards green, gradients of weights yellow",
      "time, in forwards of a rank", "rank");
  std::vector<Tick> rows;
  double y = 0.0, longest = 0.0;
  for (const hero::dist::Schedule& schedule : schedules) {
    const auto passes = played(schedule, ranks, micro_batches);
    double end = 0.0;
    for (const auto& list : passes) end = std::max(end, list.back().end);
    longest = std::max(longest, end);
    std::string name = schedule.name();
    std::replace(name.begin(), name.end(), '_', ' ');  // which would lower what follows it
    char text[96];
    std::snprintf(text, sizeof text, "%s: idle for %.0f %% of %.1f", name.c_str(),
                  100.0 * (1.0 - 3.0 * micro_batches / end), end);
    figure.label(text, end / 2, y - 0.45, "#333333");
    y -= 0.9;
    for (const auto& list : passes) {
      rows.push_back({y - 0.5, std::to_string(rows.size() % static_cast<size_t>(ranks))});
      for (const Pass& pass : list) {
        constexpr const char* colours[][2] = {
            {kForwardColours[0], kForwardColours[1]},
            {kBackwardColours[0], kBackwardColours[1]},
            {kWeightGradientColours[0], kWeightGradientColours[1]}};
        const char* colour =
            colours[static_cast<int>(pass.action.kind)][pass.action.chunk == 0 ? 0 : 1];
        const double time = pass.end - pass.start;
        const std::string micro = std::to_string(pass.action.micro);
        figure.box(pass.start, y - 0.95, time, 0.9, colour, fits(micro, 17.0 * time) ? micro : "");
      }
      y -= 1.0;
    }
    y -= 0.4;
  }
  figure.x_range(0, longest)
      .y_range(y + 0.2, 0.2)
      .y_ticks(rows)
      .height(820)
      .save(folder, "19_schedules");
}

}  // namespace tutorial
