// The part of MpiProgress that finds out whether all ranks have made the same call, and who has
// not.
#include <algorithm>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/engines/mpi/progress.h>

namespace hero::dist {
namespace {

constexpr int kTags = 32768;                              // what every MPI has
constexpr auto kStalled = std::chrono::milliseconds(25);  // who waits for as long says so

}  // namespace

// [note: how processes agree]
// A rank's statement becomes a digest, and ranks exchange what they know of the digests of all
// (agreement.h). Only where these differ does every rank state its call in full, to the first of
// the parties, which names the difference. Who has waited for a while says so to the first of the
// parties too, which tells all who have come who has not: nobody else knows, as most ballots speak
// for several ranks.
void MpiProgress::tell_call(MpiCall& call) {
  const int tag = next_tag_;
  next_tag_ = (next_tag_ + 2) % kTags;
  call.told_at = Clock::now();
  const int parties = static_cast<int>(call.parties.size());
  agreements_[{call.key, call.me}].state(call.me, parties, digest_of(call.call),
                                         balance_of(call.call, call.me),
                                         carried_by(call.call, call.me, parties, tag));
}

void MpiProgress::send_ballot(const MpiCall& call, int party, int stage, const Ballot& ballot) {
  if (call.to_oneself()) return agreements_[{call.key, party}].hear(stage, ballot);
  Packet packet = note(Note::ballot);
  packet.put(call.key).put(party).put(stage);
  put_ballot(packet, ballot);
  tell(call.parties[static_cast<size_t>(party)], packet);
  ++told_;
}

void MpiProgress::hear_ballot(Packet& packet) {
  ++heard_;
  const auto key = packet.take<CallKey>();
  const int party = packet.take<int>();
  const int stage = packet.take<int>();
  agreements_[{key, party}].hear(stage, take_ballot(packet));
}

void MpiProgress::find_agreement(MpiCall& call) {
  const auto found = agreements_.find({call.key, call.me});
  const bool done = found->second.advance(
      [&](int party, int stage, const Ballot& ballot) { send_ballot(call, party, stage, ballot); });
  if (!done) return;
  Agreement agreement = std::move(found->second);
  agreements_.erase(found);
  if (agreement.agree()) {
    call.agreed = {call.call, call.parties, call.me, std::move(agreement)};
  } else {
    state_in_full(call);
  }
}

void MpiProgress::state_in_full(MpiCall& call) {
  call.disagrees = true;
  const int first = call.parties.front();
  if (first == world_.rank()) return hear_statement(call.key, call.me, call.call);
  Packet packet = note(Note::statement);
  packet.put(call.key).put(call.me);
  put_call(packet, call.call);
  tell(first, packet);
  ++told_;
}

void MpiProgress::hear_statement(const CallKey& key, int party, Call statement) {
  std::map<int, Call>& said = statements_[key];
  said[party] = std::move(statement);
  const MpiCall* const mine = find(key);
  if (mine == nullptr || said.size() < mine->parties.size()) return;
  std::vector<Call> calls;
  for (const auto& [unused, call] : said) calls.push_back(call);
  const std::string line = disagreement(calls, mine->parties);
  fail({-1, describe(calls.front(), key.sequence, mine->axis) + ": " +
                (line.empty() ? "ranks disagree on what is to be moved" : line) +
                "; every rank must make the same calls in the same order"});
}

MpiCall* MpiProgress::find(const CallKey& key) {
  const auto found = std::find_if(calls_.begin(), calls_.end(),
                                  [&](const auto& call) { return call->key == key; });
  return found == calls_.end() ? nullptr : found->get();
}

Told MpiProgress::told() const {
  Told told{begun_, {}};
  for (const auto& call : calls_) {
    if (call->after) told.never.push_back(call->key);
  }
  return told;
}

// Then it will be complete: what is still to be said of it comes from those who make progress.
bool MpiProgress::told_by_all(const MpiCall& call) const {
  return std::all_of(call.parties.begin(), call.parties.end(), [&](int rank) {
    return rank == world_.rank() || finals_[static_cast<size_t>(rank)]->has(call.key);
  });
}

void MpiProgress::check_finished(const MpiCall& call) {
  for (const int other : call.parties) {
    const auto& finished = finished_[static_cast<size_t>(other)];
    if (other == world_.rank() || !finished || finished->has(call.key)) continue;
    return fail({-1, call.where() + ": rank " + std::to_string(other) +
                         " has finished without this call; every rank must make the same calls in "
                         "the same order"});
  }
}

// As far as is known: the ranks that the first of the parties misses, or the one whose ballot comes
// next.
std::vector<int> MpiProgress::absent(const MpiCall& call) const {
  const auto agreement = agreements_.find({call.key, call.me});
  if (agreement == agreements_.end() || agreement->second.waits_for() < 0) return {};
  if (call.missing) return *call.missing;
  return {call.parties[static_cast<size_t>(agreement->second.waits_for())]};
}

void MpiProgress::call_rolls(Clock::time_point now) {
  for (const auto& call : calls_) {
    const bool waits = !call->after && !call->agreed && !call->disagrees;
    if (waits && !call->hailed && now - call->told_at >= kStalled) hail(*call);
  }
  for (auto& [key, roll] : rolls_) {
    if (roll.news && now - roll.told >= kStalled) tell_absent(key, roll);
  }
}

void MpiProgress::hail(MpiCall& call) {
  call.hailed = true;
  if (call.parties.size() == 2) return;  // it is the other one
  if (call.parties.front() == world_.rank()) {
    return hear_here(world_.rank(), call.key, call.parties);
  }
  Packet packet = note(Note::here);
  packet.put(call.key).put(call.parties);
  tell(call.parties.front(), packet);
  ++told_;
}

void MpiProgress::hear_here(int from, const CallKey& key, std::vector<int> parties) {
  const auto begun = begun_.find(key.lane);
  const bool mine = begun != begun_.end() && key.sequence < begun->second;
  if (mine && find(key) == nullptr) return;  // by now all have come
  const auto [roll, first] = rolls_.try_emplace(key);
  if (first) roll->second.told = Clock::now();
  roll->second.parties = std::move(parties);
  roll->second.here.insert(from);
  roll->second.news = true;
}

void MpiProgress::tell_absent(const CallKey& key, Roll& roll) {
  std::vector<int> missing;
  for (const int rank : roll.parties) {
    if (roll.here.count(rank) == 0) missing.push_back(rank);
  }
  Packet packet = note(Note::absent);
  packet.put(key).put(missing);
  for (const int rank : roll.here) {
    if (rank == world_.rank()) {
      find(key)->missing = missing;
    } else {
      tell(rank, packet);
      ++told_;
    }
  }
  roll.news = false;
  roll.told = Clock::now();
}

// Whether everybody knows by now what can be known of who is missing.
bool MpiProgress::rolls_are_called() const {
  const auto silent = [](const auto& call) { return !call->after && !call->hailed; };
  return std::none_of(calls_.begin(), calls_.end(), silent) &&
         std::none_of(rolls_.begin(), rolls_.end(),
                      [](const auto& roll) { return roll.second.news; });
}

}  // namespace hero::dist
