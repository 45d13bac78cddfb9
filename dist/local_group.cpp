#include <hero/dist/local_group.h>

namespace hero::dist {

std::shared_ptr<LocalRound> LocalGroup::arrive(LaneKey key, uint64_t sequence, size_t parties,
                                               size_t me, Call call) {
  const std::lock_guard<std::mutex> lock(mutex);
  Lane& lane = lanes[key];
  const auto place = static_cast<size_t>(sequence - lane.first);
  while (lane.open.size() <= place) lane.open.push_back(std::make_shared<LocalRound>(parties));
  std::shared_ptr<LocalRound> round = lane.open[place];
  round->calls[me] = std::move(call);
  round->stages[me].store(LocalRound::kArrived);
  // Each party comes to the rounds of a lane in order, so the oldest is complete first.
  if (round->arrived.fetch_add(1) + 1 == round->parties()) {
    lane.open.pop_front();
    ++lane.first;
  }
  return round;
}

}  // namespace hero::dist
