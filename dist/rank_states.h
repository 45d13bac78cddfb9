#pragma once
// RankStates: what every rank has of its own between two steps, for checkpoints.
#include <hero/optim/optimizer.h>

namespace hero::dist {

/// State that differs from rank to rank, such as the errors that compressed sums carry on. A
/// Checkpointer saves each rank's beside the rest and gives it back where as many ranks go on;
/// where they are others it begins anew, and rank 0 says so on stderr.
class RankStates {
 public:
  virtual ~RankStates() = default;
  /// Copies of this rank's own.
  virtual optim::StateDict rank_state_dict() const = 0;
  /// Takes them over; an Error leaves everything as it was.
  virtual void load_rank_state_dict(const optim::StateDict& dict) = 0;
  /// As it was before the first step.
  virtual void reset_rank_state() = 0;
};

}  // namespace hero::dist
