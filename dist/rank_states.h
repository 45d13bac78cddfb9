#pragma once
// RankStates: state that differs from rank to rank, for checkpoints.
#include <hero/optim/optimizer.h>

namespace hero::dist {

/// The interface of state that differs from rank to rank between two steps, such as the error
/// feedback of compressed reductions. A Checkpointer saves each rank's state beside the rest and
/// restores it if as many ranks resume; otherwise it is reset, and rank 0 says so on stderr.
class RankStates {
 public:
  virtual ~RankStates() = default;
  /// Returns copies of this rank's state.
  virtual optim::StateDict rank_state_dict() const = 0;
  /// Restores the state. Throws an Error, and changes nothing, if it does not fit.
  virtual void load_rank_state_dict(const optim::StateDict& dict) = 0;
  /// Resets the state to its value before the first step.
  virtual void reset_rank_state() = 0;
};

}  // namespace hero::dist
