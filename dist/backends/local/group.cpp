#include <hero/dist/backends/local/group.h>

namespace hero::dist {

bool LocalRound::agreed(std::span<const int> ranks) {
  if (arrived.load() < parties()) return false;
  std::call_once(compared, [&] { disagreement = dist::disagreement(calls, ranks); });
  return disagreement.empty();
}

std::shared_ptr<LocalRound> LocalGroup::round(LaneKey key, uint64_t sequence, size_t parties) {
  const std::lock_guard<std::mutex> lock(mutex);
  Lane& lane = lanes[key];
  const auto place = static_cast<size_t>(sequence - lane.first);
  while (lane.open.size() <= place) lane.open.push_back(std::make_shared<LocalRound>(parties));
  return lane.open[place];
}

void LocalGroup::arrive(LaneKey key, LocalRound& round, std::span<const int> parties, size_t me,
                        Call call, ThrottledLink& link) {
  const std::lock_guard<std::mutex> lock(mutex);
  round.calls[me] = std::move(call);
  round.stages[me].store(LocalRound::kArrived);
  if (round.arrived.load() + 1 == round.parties()) round.due = link.leave(round.calls, parties);
  round.arrived.fetch_add(1);
  // A rank that begins a call holds its round; the lane may drop a round at which all ranks have
  // arrived.
  Lane& lane = lanes[key];
  while (!lane.open.empty() && lane.open.front()->arrived.load() == lane.open.front()->parties()) {
    lane.open.pop_front();
    ++lane.first;
  }
}

}  // namespace hero::dist
