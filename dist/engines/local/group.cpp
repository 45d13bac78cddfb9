#include <hero/dist/engines/local/group.h>

namespace hero::dist {

std::shared_ptr<LocalRound> LocalGroup::arrive(LaneKey key, uint64_t sequence,
                                               std::span<const int> parties, size_t me, Call call,
                                               Link& link) {
  const std::lock_guard<std::mutex> lock(mutex);
  Lane& lane = lanes[key];
  const auto place = static_cast<size_t>(sequence - lane.first);
  while (lane.open.size() <= place) {
    lane.open.push_back(std::make_shared<LocalRound>(parties.size()));
  }
  std::shared_ptr<LocalRound> round = lane.open[place];
  round->calls[me] = std::move(call);
  round->stages[me].store(LocalRound::kArrived);
  const bool last = round->arrived.load() + 1 == round->parties();
  if (last) round->due = link.leave(round->calls, parties);
  round->arrived.fetch_add(1);
  // Each party comes to the rounds of a lane in order, so the oldest is complete first.
  if (last) {
    lane.open.pop_front();
    ++lane.first;
  }
  return round;
}

}  // namespace hero::dist
