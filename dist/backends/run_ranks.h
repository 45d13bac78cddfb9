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

/// The time-outs that the options give; where they give none, those of the environment; otherwise
/// 600 seconds.
Timeouts timeouts_of(const RunOptions& options);

/// What to do about ranks that have not ended `seconds` after the first failure, since a thread
/// that hangs outside of a call cannot be stopped: `tell` is called with the failure and these
/// ranks.
struct Stuck {
  double seconds = 60;
  std::function<void(const Outcome& outcome, const std::vector<int>& ranks)> tell = {};
};

/// Does what run_ranks() does, but returns the ranks' error instead of throwing it.
Outcome run_outcome(int ranks, const RankProgram& program, const RunOptions& options,
                    const Stuck& stuck = {});

}  // namespace hero::dist
