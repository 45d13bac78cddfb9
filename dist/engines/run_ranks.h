#pragma once
#include <exception>

#include <hero/dist/engines/timeouts.h>
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

/// run_ranks() without throwing what the ranks threw.
Outcome run_outcome(int ranks, const RankProgram& program, const RunOptions& options);

}  // namespace hero::dist
