#include <limits>
#include <numeric>

#include <hero/core/error.h>
#include <hero/dist/backends/hosts.h>
#include <hero/dist/backends/simulated/group.h>

namespace hero::dist {
namespace {

constexpr const char* kSame = "; every rank must make the same calls in the same order";

// The statement without its arrays, which no longer exist when it is compared.
Call statement_of(const Call& call) {
  Call kept = call;
  kept.after = nullptr;
  kept.ready = nullptr;
  kept.input = nullptr;
  kept.output = nullptr;
  // whose other ends are told by other ranks; see compare_counts()
  kept.send_counts = kept.recv_counts = {};
  return kept;
}

std::string disagreement_of(const Call& a, int rank_of_a, const Call& b, int rank_of_b) {
  std::vector<Call> calls = {a, b};
  for (Call& call : calls) call.send_counts = call.recv_counts = ChunkCounts::balanced(0, 2);
  const int ranks[] = {rank_of_a, rank_of_b};
  return disagreement(calls, ranks);
}

}  // namespace

void SimulatedGroup::collective(const Call& call, uint64_t place, int me) {
  if (place < calls_.size()) {
    compare(call, place, me);
  } else {
    if (first_rank_ != me) fail_absent(call, place, me, first_rank_);
    calls_.push_back(statement_of(call));
  }
  if (call.op == Collective::all_to_all) compare_counts(call, place, me);
}

void SimulatedGroup::compare(const Call& call, uint64_t place, int me) const {
  const Call& first = calls_[static_cast<size_t>(place)];
  const std::string line = disagreement_of(first, world_rank(first_rank_), call, world_rank(me));
  if (!line.empty()) fail(describe(first, place, axis), ": ", line, kSame);
}

void SimulatedGroup::compare_counts(const Call& call, uint64_t place, int me) {
  std::vector<Counts>& known = counts_[place];
  known.push_back({me, call.send_counts, call.recv_counts});
  const Counts mine = known.back();
  for (const Counts& other : known) {
    std::string line = count_disagreement(other.send, other.rank, mine.recv, me, world_ranks);
    if (line.empty()) {
      line = count_disagreement(mine.send, me, other.recv, other.rank, world_ranks);
    }
    if (!line.empty()) fail(describe(call, place, axis), ": ", line, kSame);
  }
  if (known.size() == world_ranks.size()) counts_.erase(place);
}

void SimulatedGroup::message(const Call& call, int me, bool other_ended) {
  const bool sends = call.op == Collective::send;
  const Lane lane = sends ? Lane{me, call.root} : Lane{call.root, me};
  const uint64_t number = numbers_[lane][sends ? 0 : 1]++;
  const auto open = open_.find({me, lane.first, lane.second});
  // of a lane to itself a rank is at both ends
  if (open == open_.end() || open->second.front().call.op == call.op) {
    if (other_ended) fail_absent(call, number, me, call.root);
    open_[{call.root, lane.first, lane.second}].push_back({statement_of(call), number});
    return;
  }
  const Call& other = open->second.front().call;
  const Call &sent = sends ? call : other, &received = sends ? other : call;
  const std::string line =
      disagreement_of(sent, world_rank(lane.first), received, world_rank(lane.second));
  if (!line.empty()) fail(describe(sent, number, axis), ": ", line, kSame);
  open->second.pop_front();
  if (open->second.empty()) open_.erase(open);
}

void SimulatedGroup::end(int me, uint64_t made) const {
  if (made < calls_.size()) {
    fail_absent(calls_[static_cast<size_t>(made)], made, first_rank_, me);
  }
  constexpr int kLeast = std::numeric_limits<int>::min();
  const auto awaited = open_.lower_bound({me, kLeast, kLeast});
  if (awaited == open_.end() || std::get<0>(awaited->first) != me) return;
  const auto& [key, messages] = *awaited;
  const Message& message = messages.front();
  const int by = message.call.op == Collective::send ? std::get<1>(key) : std::get<2>(key);
  fail_absent(message.call, message.number, by, me);
}

void SimulatedGroup::fail_absent(const Call& call, uint64_t number, int made_by, int absent) const {
  fail(describe(call, number, axis), " of rank ", world_rank(made_by), ": rank ",
       world_rank(absent), " has finished without this call", kSame);
}

SimulatedWorld::SimulatedWorld(int size, int per_host) : per_host_(per_host) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  everyone_ = make(ranks, "world");
}

std::shared_ptr<SimulatedGroup> SimulatedWorld::make(const std::vector<int>& world_ranks,
                                                     const std::string& axis) const {
  std::vector<int> hosts;
  for (const int rank : world_ranks) hosts.push_back(per_host_ > 0 ? rank / per_host_ : 0);
  return std::make_shared<SimulatedGroup>(world_ranks, axis, ranks_of_host(hosts));
}

std::shared_ptr<SimulatedGroup> SimulatedWorld::group(const SimulatedGroup& parent, uint64_t made,
                                                      const std::vector<int>& world_ranks,
                                                      const std::string& axis) {
  auto& group = groups_[{&parent, made, world_ranks}];
  if (!group) group = make(world_ranks, axis);
  return group;
}

}  // namespace hero::dist
