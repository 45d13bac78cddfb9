#pragma once
// The loss of a batch, computed from those of its micro-batches.
#include <limits>
#include <vector>

#include <hero/optim/accumulator.h>

namespace hero::dist {

/// The mean of the losses or, if the numbers of targets are given over which each loss is the mean,
/// the mean over all targets. NaN if there is no target at all, as the loss of such a batch.
inline double mean_of_losses(const std::vector<double>& losses, std::vector<double> targets = {}) {
  if (targets.empty()) targets.assign(losses.size(), 1.0);
  const std::vector<double> weights = optim::target_weights(targets);
  double sum = 0.0;
  bool any = false;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (targets[i] == 0.0) continue;  // the mean of nothing is not a number
    sum += losses[i] * weights[i];
    any = true;
  }
  if (!any) return std::numeric_limits<double>::quiet_NaN();
  return sum / static_cast<double>(losses.size());
}

}  // namespace hero::dist
