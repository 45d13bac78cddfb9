#include "stages.h"

#include <cmath>

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
  Figure figure("7.5 billion parameters: memory of one rank", "log_2 of the number of ranks", "GB");
  figure.log_y().x_range(0, 10).y_range(0.1, 200).legend("bottom left");
  const char* names[] = {"data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3"};
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

}  // namespace tutorial
