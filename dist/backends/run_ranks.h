#pragma once
#include <exception>
#include <functional>
#include <vector>

#include <hero/dist/backends/timeouts.h>
#include <hero/dist/launch.h>

namespace hero::dist {

/// How a run ended: `error` is null when all ranks ended well; `rank` is -1 for an error that all
/// ranks share.
struct Outcome {
  std::exception_ptr error;
  int rank = -1;
};

/// The options' time-outs, or those of the environment, or 600 seconds.
Timeouts timeouts_of(const RunOptions& options);

/// What to do about ranks that have not ended so long after the first failure: a thread that hangs
/// outside of a call cannot be stopped. `tell` gets the failure and these ranks.
struct Stuck {
  double seconds = 60;
  std::function<void(const Outcome& outcome, const std::vector<int>& ranks)> tell = {};
};

/// run_ranks() without throwing what the ranks threw.
Outcome run_outcome(int ranks, const RankProgram& program, const RunOptions& options,
                    const Stuck& stuck = {});

}  // namespace hero::dist
