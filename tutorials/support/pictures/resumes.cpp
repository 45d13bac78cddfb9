#include "support/pictures/resumes.h"

#include <algorithm>
#include <cstdio>

#include "support/pictures/palette.h"

namespace tutorial {

void draw_run_losses(const std::vector<RunCurve>& runs, int64_t saved, int64_t every,
                     const std::string& folder) {
  Figure figure("The loss of all runs, as means over " + std::to_string(every) + " steps", "step",
                "loss");
  double low = runs.front().losses.front(), high = low;
  const auto stride = static_cast<size_t>(every);
  const bool take_turns = runs.front().losses.size() >= 4 * stride * runs.size();
  for (size_t i = 0; i < runs.size(); ++i) {
    Values x, y;
    const auto& losses = runs[i].losses;
    for (size_t end = stride; end <= losses.size(); end += stride) {
      const size_t mean = (static_cast<size_t>(runs[i].first) + end) / stride;
      // no mark hides another
      if (i > 0 && take_turns && mean % (runs.size() - 1) != i - 1) continue;
      double sum = 0.0;
      for (size_t step = end - stride; step < end; ++step) sum += losses[step];
      x.push_back(static_cast<double>(runs[i].first + static_cast<int64_t>(end)));
      y.push_back(sum / static_cast<double>(every));
      if (i == 0 && y.size() == 1) low = high = y.back();
      low = std::min(low, y.back());
      high = std::max(high, y.back());
    }
    if (i == 0) figure.line(runs[i].name, x, y);
    if (i > 0) figure.points(runs[i].name, x, y);
  }
  // of a single step there is one loss alone
  const double at = static_cast<double>(saved), margin = std::max(0.08 * (high - low), 0.01);
  figure.box(at - 0.15, low - margin, 0.3, high - low + 2 * margin, "#888888");
  const auto last = static_cast<double>(runs.front().losses.size());
  figure.label("saved at step " + std::to_string(saved), at, high + 2 * margin, "#555555");
  figure.x_range(0, last + static_cast<double>(every));
  figure.y_range(low - margin, high + 3 * margin).height(860);
  figure.save(folder, "18_gpt_fsdp_loss");
}

void draw_run_memory(const std::vector<RunCurve>& runs, const std::string& folder) {
  Figure figure("What a rank holds between two steps", "", "MB");
  std::vector<Tick> ticks;
  double highest = 0.0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const double x = static_cast<double>(i);
    const double parameters = 1e-6 * static_cast<double>(runs[i].parameters);
    const double optimizer = 1e-6 * static_cast<double>(runs[i].optimizer);
    // the legend has each name once
    figure.area(i == 0 ? "parameters" : "", {x + 0.15, x + 0.85}, {0, 0}, {parameters, parameters},
                kParameterColour);
    const double top = parameters + optimizer;
    figure.area(i == 0 ? "AdamW's states" : "", {x + 0.15, x + 0.85}, {parameters, parameters},
                {top, top}, kStateColour);
    char text[32];
    std::snprintf(text, sizeof text, "%.2f MB", top);
    highest = std::max(highest, top);
    figure.label(text, x + 0.5, top + 0.04, "#111111");
    ticks.push_back(
        {x + 0.5, std::to_string(runs[i].ranks) + (runs[i].ranks == 1 ? " rank" : " ranks")});
  }
  figure.x_range(0, static_cast<double>(runs.size())).y_range(0, 1.1 * highest);
  figure.x_ticks(ticks).save(folder, "18_gpt_fsdp_memory");
}

}  // namespace tutorial
