#pragma once
// Chapter 18: runs that began, or resumed, on different numbers of ranks, as pictures.
#include <string>
#include <vector>

#include "support/pictures/plot.h"

namespace tutorial {

/// The losses of a run from step `first` on, and what one of its ranks holds, in bytes.
struct RunCurve {
  std::string name;
  int ranks;
  int64_t first;
  std::vector<double> losses = {};
  int64_t parameters = 0, optimizer = 0;
};

/// Draws the losses of the first run as a line, those of the others as points on it, of which they
/// take turns, and where they resumed, at step `saved`. Into folder/18_gpt_fsdp_loss; means over
/// `every` steps.
void draw_run_losses(const std::vector<RunCurve>& runs, int64_t saved, int64_t every,
                     const std::string& folder);

/// Draws the bytes of a rank of each run as stacked bars. Into folder/18_gpt_fsdp_memory.
void draw_run_memory(const std::vector<RunCurve>& runs, const std::string& folder);

}  // namespace tutorial
