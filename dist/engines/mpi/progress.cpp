#include <algorithm>
#include <thread>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/engines/mpi/progress.h>

namespace hero::dist {
namespace {

constexpr int kTags = 32768;  // what every MPI has

size_t index_of(int i) { return static_cast<size_t>(i); }

}  // namespace

MpiProgress::MpiProgress(MpiWorld& world, Transport& transport)
    : world_(world),
      transport_(transport),
      watch_(world.size_),
      finished_(index_of(world.size_)),
      ended_(index_of(world.size_)) {}

void MpiProgress::run() {
  try {
    while (!over_ || !transport_.told()) {
      bool moved = take_posted();
      moved = hear_all() || moved;
      moved = transport_.poll() || moved;
      moved = advance_calls() || moved;
      look_at_time();
      rest(moved);
    }
    for (auto& [from, text] : early_) transport_.keep(from, std::move(text));
  } catch (const std::exception& error) {
    die({world_.rank(), error.what()});
  }
}

// [note: how the thread of progress waits]
// MPI has nothing to sleep on, so one looks again and again: at first yielding, as the next message
// is often near, then with pauses that grow. Where the ranks and their threads are more than the
// cores, it soon sleeps, and whoever has work gets the core. What the own rank begins wakes it.
void MpiProgress::rest(bool moved) {
  static const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (moved) {
    idle_ = 0;
    return;
  }
  const int yields = 2 * transport_.local_size() > cores ? 20 : 200;
  if (++idle_ <= yields) return std::this_thread::yield();
  const bool busy = !calls_.empty() || (told_end_ && !over_);
  const auto most = std::chrono::microseconds(busy ? 500 : 2000);
  const auto pause =
      std::min<std::chrono::microseconds>(most, std::chrono::microseconds(20) * (idle_ - yields));
  std::unique_lock<std::mutex> lock(world_.mutex_);
  world_.work_.wait_for(lock, pause, [&] {
    return !world_.posted_.empty() || world_.threw_ || (world_.ended_ && !told_end_);
  });
}

bool MpiProgress::take_posted() {
  std::vector<std::shared_ptr<MpiCall>> posted;
  std::optional<std::string> threw, ended_with;
  bool ended = false;
  {
    const std::lock_guard<std::mutex> lock(world_.mutex_);
    posted.swap(world_.posted_);
    threw.swap(world_.threw_);
    ended = world_.ended_ && !told_end_;
    ended_with = world_.ended_with_;
  }
  for (const auto& call : posted) begin(call);
  if (threw) fail({world_.rank(), *threw});
  if (ended) tell_end(ended_with);
  return !posted.empty() || threw || ended;
}

void MpiProgress::begin(const std::shared_ptr<MpiCall>& call) {
  calls_.push_back(call);
  if (!call->after) tell_call(*call);
}

void MpiProgress::tell_call(MpiCall& call) {
  call.tag = next_tag_;
  next_tag_ = (next_tag_ + 2) % kTags;
  Packet packet = note(Note::call);
  packet.put(call.group).put(call.lane.first).put(call.lane.second).put(call.sequence);
  packet.put(call.me).put(call.tag);
  put_call(packet, call.call);
  for (const int party : call.parties) {
    if (party == world_.rank()) continue;
    tell(party, packet);
    ++told_;
  }
  rounds_[key_of(call)].said[call.me] = {call.call, call.tag};
}

// Whether the others know of the call: they are told when the one before it is complete, unless
// this rank has said that it begins no more (see the note on failure).
bool MpiProgress::follows(MpiCall& call) {
  if (!call.after) return true;
  const bool never = call.after->state.load() == MpiCall::kFailed;
  if (never || (failed_ && finals_are_in())) complete(call, MpiCall::kFailed);
  if (never || failed_ || call.after->state.load() != MpiCall::kDone) return false;
  call.after = nullptr;
  tell_call(call);
  return true;
}

Packet MpiProgress::note(Note kind) const {
  Packet packet;
  packet.put(world_.number()).put(kind);
  return packet;
}

void MpiProgress::tell(int to, const Packet& packet) { transport_.tell(to, packet.bytes()); }

void MpiProgress::tell_all(const Packet& packet) {
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank != world_.rank()) tell(rank, packet);
  }
}

bool MpiProgress::hear_all() {
  bool any = false;
  int from = 0;
  std::string text;
  while (!over_ && transport_.hear(from, text)) {
    Packet packet(std::move(text));
    const auto number = packet.take<uint64_t>();
    if (number > world_.number()) early_.emplace_back(from, packet.bytes());
    if (number != world_.number()) continue;
    const Note kind = packet.take<Note>();
    hear(from, kind, packet);
    any = any || kind != Note::query;
  }
  return any;
}

void MpiProgress::hear(int from, Note kind, Packet& packet) {
  const auto failure = [&packet] {
    const int rank = packet.take<int>();
    return Failure{rank, packet.take<std::string>()};
  };
  const auto blocked = [&packet] {
    Blocked state;
    state.blocked = packet.take<bool>();
    state.ended = packet.take<bool>();
    state.told = packet.take<uint64_t>();
    state.heard = packet.take<uint64_t>();
    state.text = packet.take<std::string>();
    return state;
  };
  switch (kind) {
    case Note::call:
      return hear_call(packet);
    case Note::finished:
      ++heard_;
      finished_[index_of(from)] = true;
      return;
    case Note::fail: {
      const Failure failed = failure();
      const auto missing = packet.take_list<int>();
      return hear_failure(failed, missing, packet.take<std::string>());
    }
    case Note::verdict:
      return adopt(failure());
    case Note::final:
      ++finals_;
      return;
    case Note::status:
      return watch_.report(from, blocked());
    case Note::query:
      return answer(packet.take<uint64_t>());
    case Note::answer: {
      const auto number = packet.take<uint64_t>();
      if (watch_.answer(from, number, blocked()))
        hear_failure({-1, watch_.deadlock_text()}, {}, {});
      return;
    }
    case Note::end: {
      const bool threw = packet.take<bool>();
      const auto message = packet.take<std::string>();
      return hear_end(from, threw ? std::optional<std::string>(message) : std::nullopt);
    }
    case Note::result: {
      const bool failed = packet.take<bool>();
      const Failure outcome = failure();
      return finish(failed ? std::optional<Failure>(outcome) : std::nullopt);
    }
    case Note::ready:
      return hear_ready(packet);
    case Note::make: {
      const auto id = packet.take<uint64_t>();
      return transport_.make_group(id, packet.take_list<int>());
    }
  }
}

void MpiProgress::hear_call(Packet& packet) {
  ++heard_;
  RoundKey key{};
  key.group = packet.take<uint64_t>();
  key.lane.first = packet.take<int>();
  key.lane.second = packet.take<int>();
  key.sequence = packet.take<uint64_t>();
  const int party = packet.take<int>();
  const int tag = packet.take<int>();
  rounds_[key].said[party] = {take_call(packet), tag};
}

bool MpiProgress::advance_calls() {
  bool any = false;
  for (size_t i = 0; i < calls_.size(); ++i) {
    advance(*calls_[i]);
    any = any || calls_[i]->state.load() != MpiCall::kBegun;
  }
  if (any) {
    calls_.erase(
        std::remove_if(calls_.begin(), calls_.end(),
                       [](const auto& call) { return call->state.load() != MpiCall::kBegun; }),
        calls_.end());
  }
  return any;
}

void MpiProgress::advance(MpiCall& call) {
  if (!follows(call)) return;
  if (!call.agreed && !call.disagrees) {
    const Round& round = rounds_[key_of(call)];
    if (round.said.size() == call.parties.size()) {
      compare(call, round);
    } else if (!failed_ && !failing_) {
      check_finished(call);
    }
  }
  if (!call.agreed) {
    if (failed_ && finals_are_in()) complete(call, MpiCall::kFailed);
    return;
  }
  if (!call.call.moves) return complete(call, MpiCall::kDone);
  if (!call.transfer) {
    if (call.call.order == Order::native && call.call.reduces() && !group_is_ready(call)) return;
    call.transfer = begin_transfer(transport_, call.group, *call.agreed);
  }
  if (call.transfer->advance()) complete(call, MpiCall::kDone);
}

// All ranks read the same statements, so they come to the same line.
void MpiProgress::compare(MpiCall& call, const Round& round) {
  std::vector<Call> calls;
  Agreed agreed{call.call, call.parties, {}, call.me};
  for (const auto& [party, statement] : round.said) {
    calls.push_back(statement.call);
    agreed.tags.push_back(statement.tag);
  }
  const std::string line = disagreement(calls, call.parties);
  if (line.empty()) {
    call.agreed = std::move(agreed);
  } else {
    call.disagrees = true;
    fail({-1, describe(calls.front(), call.sequence, call.axis) + ": " + line +
                  "; every rank must make the same calls in the same order"});
  }
  // a message to oneself is two calls of this rank
  const bool to_oneself = call.lane.first >= 0 && call.lane.first == call.lane.second;
  Round& read = rounds_[key_of(call)];
  if (++read.compared == (to_oneself ? 2 : 1)) rounds_.erase(key_of(call));
}

std::vector<int> MpiProgress::absent(const MpiCall& call) const {
  std::vector<int> ranks;
  const auto round = rounds_.find(key_of(call));
  if (call.agreed || round == rounds_.end()) return ranks;
  for (size_t i = 0; i < call.parties.size(); ++i) {
    if (round->second.said.count(static_cast<int>(i)) == 0) ranks.push_back(call.parties[i]);
  }
  return ranks;
}

void MpiProgress::check_finished(const MpiCall& call) {
  for (const int other : absent(call)) {
    if (!finished_[index_of(other)]) continue;
    return fail({-1, call.where() + ": rank " + std::to_string(other) +
                         " has finished without this call; every rank must make the same calls in "
                         "the same order"});
  }
}

void MpiProgress::complete(MpiCall& call, MpiCall::State state) {
  call.transfer.reset();
  call.agreed.reset();
  if (state == MpiCall::kFailed) rounds_.erase(key_of(call));
  const std::lock_guard<std::mutex> lock(world_.mutex_);
  call.state.store(state);
  world_.completed_.notify_all();
}

// [note: who makes a group's communicator]
// MPI makes one only while all members wait for each other. Rank 0 decides in which order that
// happens: two groups with the same members would otherwise wait for each other's.
bool MpiProgress::group_is_ready(const MpiCall& call) {
  if (transport_.has_group(call.group)) return true;
  if (!asked_.insert(call.group).second) return false;
  Packet packet = note(Note::ready);
  packet.put(call.group).put(call.parties);
  if (world_.rank() != 0) {
    tell(0, packet);
  } else {
    packet.take<uint64_t>();
    packet.take<Note>();
    hear_ready(packet);
  }
  return transport_.has_group(call.group);
}

void MpiProgress::hear_ready(Packet& packet) {
  const auto id = packet.take<uint64_t>();
  const auto members = packet.take_list<int>();
  if (++ready_[id] < static_cast<int>(members.size())) return;
  Packet make = note(Note::make);
  make.put(id).put(members);
  bool mine = false;
  for (const int member : members) {
    if (member == world_.rank()) {
      mine = true;
    } else {
      tell(member, make);
    }
  }
  if (mine) transport_.make_group(id, members);
}

}  // namespace hero::dist
