#pragma once
// What the stages of a strategy's pipeline do, from few recordings: stages that are alike are
// recorded once, and so are micro-batches that are alike.
#include <cstdint>

#include <hero/dist/plan.h>
#include <hero/dist/rehearsal/timeline.h>

namespace hero::dist {

/// Recordings of a strategy with at least two stages: of the first stage, of the last one, and of
/// one between them, which stands for all others between. Each has three micro-batches: a first
/// one, with whose forward parameters are gathered; a last one, with whose backward gradients are
/// averaged; and one that stands for all between. Stages and micro-batches that stand for others
/// have the same passes in another order, which the schedule knows.
class StageRecordings {
 public:
  static constexpr int64_t kRecorded = 3;  ///< micro-batches

  StageRecordings(const PlanRequest& request, const Strategy& strategy);

  /// False where a pass depends on the one before it, so that of() would not be what the stages do.
  bool are_alike() const { return are_alike_; }
  /// What recording the first rank of every stage would give with so many micro-batches, at least
  /// three: calls, their times and the most bytes held; names of units and traffic are those of the
  /// recorded stages.
  Recording of(int64_t micro_batches) const;

 private:
  Strategy strategy_;
  Recording recorded_;
  int64_t tokens_of_one_;  // bytes of a micro-batch, of which a step's are there from the beginning
  bool are_alike_ = true;
};

}  // namespace hero::dist
