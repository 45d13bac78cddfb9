// The part of MpiProgress that finds out whether all ranks have made the same call, and who has
// not.
#include <algorithm>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/mpi/progress.h>

namespace hero::dist {
namespace {

constexpr int kTags = 32768;  // what every MPI has

}  // namespace

// [note: how processes agree]
// A rank's statement becomes a digest, and ranks exchange what they know of the digests of all
// (agreement.h). Only where these differ does every rank state its call in full, and the first of
// the parties names the difference; statements reach it by the tree of the parties, along the ways
// of the summaries. Who is missing nobody knows at once, as most summaries speak for several ranks:
// see the note in wait.cpp.
void MpiProgress::tell_call(MpiCall& call) {
  const int tag = next_tag_;
  next_tag_ = (next_tag_ + 2) % kTags;
  call.told_at = Clock::now();
  const int parties = static_cast<int>(call.parties.size());
  agreements_[{call.key, call.me}].state(call.me, parties, digest_of(call.call),
                                         balance_of(call.call, call.me),
                                         carried_by(call.call, call.me, parties, tag));
}

void MpiProgress::send_summary(const MpiCall& call, int party, int stage,
                               const StatementSummary& summary) {
  if (call.to_oneself()) return agreements_[{call.key, party}].hear(stage, summary);
  Packet packet = note(Note::summary);
  packet.put(call.key).put(party).put(stage);
  put_summary(packet, summary);
  tell(call.parties[static_cast<size_t>(party)], packet);
  ++told_;
}

void MpiProgress::receive_summary(Packet& packet) {
  ++heard_;
  const auto key = packet.take<CallKey>();
  const int party = packet.take<int>();
  const int stage = packet.take<int>();
  agreements_[{key, party}].hear(stage, take_summary(packet));
}

void MpiProgress::find_agreement(MpiCall& call) {
  const auto found = agreements_.find({call.key, call.me});
  const bool done =
      found->second.advance([&](int party, int stage, const StatementSummary& summary) {
        send_summary(call, party, stage, summary);
      });
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
  statements_[call.key][call.me] = call.call;
  pass_statements(call);
}

void MpiProgress::hear_statements(Packet& packet) {
  ++heard_;
  const auto key = packet.take<CallKey>();
  std::map<int, Call>& said = statements_[key];
  for (auto left = packet.take<size_t>(); left > 0; --left) {
    const int party = packet.take<int>();
    said[party] = take_call(packet);
  }
  const MpiCall* const mine = find(key);
  if (mine != nullptr && mine->disagrees) pass_statements(*mine);
}

void MpiProgress::pass_statements(const MpiCall& call) {
  const RankTree tree(call.me, static_cast<int>(call.parties.size()));
  const std::map<int, Call>& said = statements_[call.key];
  if (static_cast<int>(said.size()) < tree.part()) return;
  if (call.me > 0) {
    Packet packet = note(Note::statement);
    packet.put(call.key).put(said.size());
    for (const auto& [party, statement] : said) put_call(packet.put(party), statement);
    tell(call.parties[static_cast<size_t>(tree.parent(call.me))], packet);
    ++told_;
    return;
  }
  std::vector<Call> calls;
  for (const auto& [unused, statement] : said) calls.push_back(statement);
  const std::string line = disagreement(calls, call.parties);
  fail({-1, call.where() + ": " + (line.empty() ? "ranks disagree on what is to be moved" : line) +
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
  return finals_->has(call.key, call.to_oneself() ? 1 : static_cast<int>(call.parties.size()));
}

// As far as is known: the ranks that rank 0 has not heard of, or the one whose summary comes next.
std::vector<int> MpiProgress::absent(const MpiCall& call) const {
  const auto agreement = agreements_.find({call.key, call.me});
  if (agreement == agreements_.end() || agreement->second.waits_for() < 0) return {};
  if (call.missing) return *call.missing;
  return {call.parties[static_cast<size_t>(agreement->second.waits_for())]};
}

}  // namespace hero::dist
