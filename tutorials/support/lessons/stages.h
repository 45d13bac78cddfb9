#pragma once
// Chapter 12: bytes of the stages of ZeRO, and their picture.
#include <string>
#include <vector>

#include "support/pictures/plot.h"

namespace tutorial {

/// What one rank holds.
struct StageBytes {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  double sum() const { return static_cast<double>(parameters + gradients + optimizer); }
};

/// Bytes a parameter by the paper's formulas with K = 12; stage 0 is plain data parallelism.
double bytes_each(int stage, double ranks);

/// GB of a rank for 7.5 billion parameters, over the number of ranks.
class StageCurves {
 public:
  void add(int stage, int ranks, double gigabytes);
  /// Measured points on the lines of the formulas.
  void draw(const std::string& folder) const;

 private:
  Values ranks_[4], gigabytes_[4];
};

/// A bar for each stage of ZeRO, of its parameters, gradients and optimizer states one on another.
void draw_stage_bars(const std::vector<StageBytes>& stages, const std::string& folder);

}  // namespace tutorial
