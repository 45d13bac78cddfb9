#include "support/lessons/stages.h"

#include <cmath>
#include <cstdio>

#include "support/pictures/palette.h"

namespace tutorial {

double bytes_each(int stage, double ranks) {
  constexpr double kParameter = 2, kGradient = 2, kStates = 12;
  return kParameter / (stage >= 3 ? ranks : 1) + kGradient / (stage >= 2 ? ranks : 1) +
         kStates / (stage >= 1 ? ranks : 1);
}

void StageCurves::add(int stage, int ranks, double gigabytes) {
  ranks_[stage].push_back(std::log2(ranks));
  gigabytes_[stage].push_back(gigabytes);
}

void StageCurves::draw(const std::string& folder) const {
  Figure figure("7.5 billion parameters: memory of one rank", "ranks", "GB");
  figure.log_y().x_range(0, 10).y_range(0.1, 200).height(800);
  std::vector<Tick> ticks;
  for (const int ranks : {1, 4, 16, 64, 256, 1024}) {
    ticks.push_back({std::log2(ranks), std::to_string(ranks)});
  }
  figure.x_ticks(ticks);
  for (const int memory : {16, 32, 80}) {
    figure.rule(memory, "a GPU of " + std::to_string(memory) + " GB");
  }
  const char* names[] = {"data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3"};
  figure.patterned();
  for (int stage = 0; stage < 4; ++stage) {
    Values x, y;
    for (double at = 0; at <= 10; at += 0.125) {
      x.push_back(at);
      y.push_back(7.5 * bytes_each(stage, std::exp2(at)));
    }
    figure.line(names[stage], x, y);
    if (!ranks_[stage].empty()) figure.points("", ranks_[stage], gigabytes_[stage]);
  }
  figure.save(folder, "12_distributed_memory");
}

void draw_stage_bars(const std::vector<StageBytes>& stages, const std::string& folder) {
  Figure figure("7.5 billion parameters on 64 ranks: GB of one rank", "", "GB");
  const char* names[] = {"baseline", "P_{os}", "P_{os+g}", "P_{os+g+p}"};
  const struct {
    const char *name, *colour;
  } kinds[] = {{"parameters", kParameterColour},
               {"gradients", kGradientColour},
               {"optimizer", kStateColour}};
  std::vector<Tick> ticks;
  for (size_t i = 0; i < stages.size(); ++i) {
    const int64_t bytes[] = {stages[i].parameters, stages[i].gradients, stages[i].optimizer};
    double top = 0.0;
    for (int kind = 0; kind < 3; ++kind) {
      const double gigabytes = 1e-9 * static_cast<double>(bytes[kind]);
      const double x = static_cast<double>(i), end = top + gigabytes;
      // the legend has each name once
      figure.area(i == 0 ? kinds[kind].name : "", {x + 0.2, x + 0.8}, {top, top}, {end, end},
                  kinds[kind].colour);
      top += gigabytes;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.1f GB", top);
    figure.label(text, static_cast<double>(i) + 0.5, top + 4.0, "#111111");
    ticks.push_back({static_cast<double>(i) + 0.5, names[i]});
  }
  figure.x_range(0, static_cast<double>(stages.size()))
      .y_range(0, 130)
      .x_ticks(ticks)
      .legend_columns(3);
  figure.save(folder, "12_stages");
}

}  // namespace tutorial
