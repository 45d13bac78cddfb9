#pragma once
// MessagePlan: the messages that a pipeline's schedule needs, and when a rank posts its receives.
// Stage s of the model is chunk s / p of rank s % p.
#include <vector>

#include <hero/dist/pipeline_schedule.h>

namespace hero::dist {

/// The input of `action` that comes from another stage: activations for a forward, or the gradient
/// of a stage's output for a backward. Chunks are those of the receiver.
struct Message {
  Action action;
  int from = 0, to = 0;

  friend bool operator==(const Message&, const Message&) = default;
};

/// The actions of all ranks of a pipeline, and the messages between them.
class MessagePlan {
 public:
  /// `actions`: the actions of each rank, in order; they may be forwards only.
  MessagePlan(std::vector<std::vector<Action>> actions, int chunks);

  const std::vector<Action>& actions(int rank) const { return actions_[static_cast<size_t>(rank)]; }
  /// Whether an action needs an input from another stage, on another rank or on the same.
  bool has_input(int rank, const Action& action) const;
  /// Whether another stage needs the output of an action.
  bool has_output(int rank, const Action& action) const;
  /// The receiver of an action's output: its rank and its action.
  Message output(int rank, const Action& action) const;
  /// The receives that a rank posts before each of its actions: the inputs of that action and of
  /// the next one, after all messages that the same sender sends earlier, since messages between
  /// two ranks are matched in the order of the sends. Inputs from the same rank need no message.
  std::vector<std::vector<Message>> receives(int rank) const;

 private:
  int stage(int rank, int chunk) const { return chunk * ranks_ + rank; }

  std::vector<std::vector<Action>> actions_;
  int ranks_, stages_;
};

}  // namespace hero::dist
