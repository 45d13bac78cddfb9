#include <hero/core/error.h>
#include <hero/dist/simulation/rendezvous.h>

namespace hero::dist {

namespace {

constexpr std::pair<int, int> kAll = {-1, -1};  // not a lane of messages: a group's collectives

}  // namespace

AllRendezvous::AllRendezvous(const Recording& recording)
    : recording_(recording), ways_(recording.ranks.size()) {
  for (size_t i = 0; i < recording.ranks.size(); ++i) places_[recording.ranks[i].rank] = i;
  for (const GroupRecord& group : recording.groups) {
    size_t played = 0;
    for (const int rank : group.ranks) played += places_.count(rank);
    played_.push_back(played);
  }
}

const std::vector<int>& AllRendezvous::members(const TimelineEvent& call) const {
  return recording_.groups[static_cast<size_t>(call.group)].ranks;
}

// The lane of a rank's calls of this kind, looked up at the first of them.
AllRendezvous::Way& AllRendezvous::way(size_t rank, const TimelineEvent& begin) {
  const bool sends = begin.op == Collective::send, message = sends || begin.op == Collective::recv;
  const int peer = message ? begin.peer : -1;
  for (Way& known : ways_[rank]) {
    if (known.group == begin.group && known.peer == peer && known.sends == sends) return known;
  }
  const int me = recording_.ranks[rank].rank;
  const int other = message ? members(begin)[static_cast<size_t>(peer)] : me;
  const auto ends = message ? std::pair(sends ? me : other, sends ? other : me) : kAll;
  const auto [place, is_new] = lane_of_.try_emplace({begin.group, ends}, lanes_.size());
  if (is_new) {
    const size_t both = other == me ? 2 : 1 + places_.count(other);
    lanes_.push_back({message ? both : played_[static_cast<size_t>(begin.group)], {}});
  }
  return ways_[rank].emplace_back(Way{begin.group, peer, sends, place->second});
}

size_t AllRendezvous::alone(double complete) {
  Rendezvous& rendezvous = all_.emplace_back();
  rendezvous.known = true;
  rendezvous.complete = complete;
  return all_.size() - 1;
}

size_t AllRendezvous::meet(size_t rank, const TimelineEvent& begin) {
  Way& mine = way(rank, begin);
  Lane& lane = lanes_[mine.lane];
  const Collective op = begin.op == Collective::recv ? Collective::send : begin.op;
  if (mine.calls == lane.all_rendezvous.size()) {
    lane.all_rendezvous.push_back(all_.size());
    Rendezvous& rendezvous = all_.emplace_back();
    rendezvous.op = op;
    rendezvous.group = begin.group;
    rendezvous.expected = lane.expected;
  }
  const size_t number = lane.all_rendezvous[mine.calls++];
  const Rendezvous& rendezvous = all_[number];
  check(rendezvous.op == op, "replay: call ", mine.calls, " on '",
        recording_.groups[static_cast<size_t>(begin.group)].axis, "' is ", name(op), " of rank ",
        recording_.ranks[rank].rank, " and ", name(rendezvous.op), " of others");
  return number;
}

}  // namespace hero::dist
