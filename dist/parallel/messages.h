#pragma once
// Which messages a schedule makes, and when a rank posts the receives of its own. Stage s of the
// model is chunk s / p of rank s % p.
#include <vector>

#include <hero/dist/pipeline_schedule.h>

namespace hero::dist {

/// Activations for a forward, or the gradient of a stage's output for a backward: what `action`, as
/// its receiver counts chunks, waits for.
struct Message {
  Action action;
  int from = 0, to = 0;

  friend bool operator==(const Message&, const Message&) = default;
};

/// What the ranks of a pipeline do, and who waits for whom.
class MessagePlan {
 public:
  /// `actions`: those of each rank, in order; perhaps forwards alone.
  MessagePlan(std::vector<std::vector<Action>> actions, int chunks);

  const std::vector<Action>& actions(int rank) const { return actions_[static_cast<size_t>(rank)]; }
  /// Whether an action waits for something of another stage, on another rank or on its own.
  bool has_input(int rank, const Action& action) const;
  /// Whether another stage waits for what an action makes.
  bool has_output(int rank, const Action& action) const;
  /// The stage that waits for it: its rank and what it does there.
  Message output(int rank, const Action& action) const;
  /// The receives that a rank posts before each of its actions: what that action and the one behind
  /// it wait for, and before it what the same sender sends earlier. Messages between two ranks meet
  /// in the order of their sends, so receives from one rank are posted in that rank's order. What
  /// stays on the rank is no message.
  std::vector<std::vector<Message>> receives(int rank) const;

 private:
  int stage(int rank, int chunk) const { return chunk * ranks_ + rank; }

  std::vector<std::vector<Action>> actions_;
  int ranks_, stages_;
};

}  // namespace hero::dist
