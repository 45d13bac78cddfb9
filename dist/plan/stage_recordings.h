#pragma once
// StageRecordings: the recording of a strategy's pipeline, assembled from few recordings: equal
// stages are recorded once, and so are equal micro-batches.
#include <cstdint>

#include <hero/dist/plan.h>
#include <hero/dist/simulation/timeline.h>

namespace hero::dist {

/// Recordings of a strategy with at least two stages: of the first stage, of the last one, and of
/// one or a few between them, which stand for all others between. Each has three kinds of
/// micro-batches: a first one, with whose forward parameters are gathered; a last one, with whose
/// backward gradients are averaged; and those between, of which one stands for all. The stages and
/// micro-batches for which they stand have the same passes in another order, which follows from the
/// schedule. If units are freed after each pass, two passes are alike only if they also follow the
/// same kind of pass (both of their own chunk or both of another one), and if the last forward pass
/// before them was of their own chunk for both or for neither; so more micro-batches and stages are
/// recorded, to contain all these cases. A stage stands only for stages whose ranks lie on hosts in
/// the same way, since reductions over hosts are made in two levels (Call::two_levels()).
class StageRecordings {
 public:
  StageRecordings(const PlanRequest& request, const Strategy& strategy);

  /// How many micro-batches are recorded.
  static int64_t recorded(const Strategy& strategy);
  /// Whether of() is what the stages do: there are at least three micro-batches, and two for each
  /// stage where units are freed; all kinds of passes with this number of micro-batches were
  /// recorded, and they depend on other passes in the same way as in the recording.
  bool has(int64_t micro_batches) const;
  /// The Recording of the first rank of every stage with this number of micro-batches: calls, their
  /// times and peaks of memory. Names of units and traffic are those of the recorded stages. Throws
  /// an Error unless has(micro_batches).
  Recording of(int64_t micro_batches) const;

 private:
  Strategy strategy_;
  Recording recorded_;
  int64_t tokens_of_one_;  // bytes of a micro-batch; all of a step's are allocated at its beginning
  bool are_alike_ = true;
};

}  // namespace hero::dist
