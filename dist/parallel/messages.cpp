#include <algorithm>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/parallel/messages.h>

namespace hero::dist {
namespace {

using Kind = Action::Kind;

}  // namespace

MessagePlan::MessagePlan(std::vector<std::vector<Action>> actions, int chunks)
    : actions_(std::move(actions)),
      ranks_(static_cast<int>(actions_.size())),
      stages_(chunks * ranks_) {}

bool MessagePlan::has_input(int rank, const Action& action) const {
  const int at = stage(rank, action.chunk);
  if (action.kind == Kind::weights) return false;  // what they need the backward has had
  return action.kind == Kind::forward ? at > 0 : at + 1 < stages_;
}

bool MessagePlan::has_output(int rank, const Action& action) const {
  const int at = stage(rank, action.chunk);
  if (action.kind == Kind::weights) return false;
  return action.kind == Kind::forward ? at + 1 < stages_ : at > 0;
}

Message MessagePlan::output(int rank, const Action& action) const {
  if (!has_output(rank, action)) {
    fail("pipeline: nobody waits for ", to_string(action), " of rank ", rank);
  }
  const int to = stage(rank, action.chunk) + (action.kind == Kind::forward ? 1 : -1);
  return {{action.kind, to / ranks_, action.micro}, rank, to % ranks_};
}

std::vector<std::vector<Message>> MessagePlan::receives(int rank) const {
  std::vector<std::vector<Message>> from(actions_.size());  // in the order of each sender
  for (int sender = 0; sender < ranks_; ++sender) {
    if (sender == rank) continue;
    for (const Action& action : actions(sender)) {
      if (!has_output(sender, action)) continue;
      const Message message = output(sender, action);
      if (message.to == rank) from[static_cast<size_t>(sender)].push_back(message);
    }
  }
  const std::vector<Action>& mine = actions(rank);
  std::vector<std::vector<Message>> posts(mine.size());
  std::vector<size_t> posted(from.size(), 0);
  const auto post = [&](size_t before, const Action& action) {
    for (size_t sender = 0; sender < from.size(); ++sender) {
      const std::vector<Message>& list = from[sender];
      const auto found = std::find_if(list.begin(), list.end(),
                                      [&](const Message& m) { return m.action == action; });
      if (found == list.end()) continue;
      const auto end = static_cast<size_t>(found - list.begin()) + 1;
      for (; posted[sender] < end; ++posted[sender]) {
        posts[before].push_back(list[posted[sender]]);
      }
    }
  };
  for (size_t i = 0; i < mine.size(); ++i) {
    if (i == 0) post(0, mine[0]);
    if (i + 1 < mine.size()) post(i, mine[i + 1]);
  }
  return posts;
}

}  // namespace hero::dist
