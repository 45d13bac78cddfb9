// The part of MpiProgress that knows which ranks wait, for which ranks and how long, and whether
// all wait.
#include <algorithm>
#include <mutex>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/mpi/progress.h>

namespace hero::dist {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds kStalled{1};       // who waits for as long says so, where the time-out is long
constexpr Seconds kUnanswered{2};    // and after as long without an answer one more rank is told
constexpr Seconds kTogether{0.025};  // news of several ranks, or of several calls, are one message

}  // namespace

// [note: who is missing]
// Who has waited for a second says so to the rank above it in the tree of ranks, which says so for
// all below it, and so on up to rank 0. Rank 0 tells those who wait in a call, the same way down,
// who waits there, and who has ended without that call: so each knows who is missing among its
// parties. A call whose ranks come within a second costs no message beside its summaries, and one
// that stands still one of few bytes for each edge of the tree, as ranks that say the same are
// told together. A rank above that does not answer is left out: the one above that is told too.
bool MpiProgress::is_stalled(const MpiCall& call, Clock::time_point now) const {
  const Seconds timeout(world_.timeouts_.of(call.call.phase));
  const bool waits = !call.after && !call.agreed && !call.disagrees;
  return waits && now - call.told_at >= std::min(kStalled, timeout / 8);
}

WaitReport MpiProgress::own_report(Clock::time_point now) const {
  const std::vector<int> me = {world_.rank()};
  WaitReport own;
  for (const auto& call : calls_) {
    if (is_stalled(*call, now)) own.here[call->key] = me;
  }
  const Seconds timeout(world_.timeouts_.step);
  if (told_end_) {
    const bool long_ago = now - ended_at_ >= std::min(kStalled, timeout / 8);
    if (ended_well_ && long_ago) own.finished = {{told(), me}};
    return own;
  }
  std::string text;
  if (blocked(now, text)) own.blocked[text] = me;
  return own;
}

void MpiProgress::report_waiting(Clock::time_point now) {
  WaitReport own = own_report(now);
  if (own != own_) {
    own_ = std::move(own);
    if (!std::exchange(changed_, true)) changed_at_ = now;
  }
  if (changed_ && now - changed_at_ >= kTogether) send_report();
  for (const auto& call : calls_) {
    const bool asks = call->parties.size() > 2 && is_stalled(*call, now) && !call->missing;
    if (asks) tell_further_up(*call, now);
  }
  if (world_.rank() == 0 && search_.asks(all_wait_ && !changed_)) hear_query(search_.number());
}

void MpiProgress::send_report() {
  changed_ = false;
  WaitReport all = own_;
  for (const auto& [unused, report] : reports_) all.add(report);
  if (all == sent_) return;
  sent_ = std::move(all);
  if (world_.rank() == 0) {
    all_wait_ = !sent_.blocked.empty() && sent_.standing() == world_.size();
    return tell_arrived();
  }
  Packet packet = note(Note::waiting);
  put_wait_report(packet, sent_);
  int up = world_.rank();
  for (int i = 0; i < above_ && up > 0; ++i) tell(up = tree_.parent(up), packet);
  if (sent_.empty()) above_ = 1;
}

// The longer the call waits for an answer the more ranks above have been told.
void MpiProgress::tell_further_up(const MpiCall& call, Clock::time_point now) {
  const Seconds timeout(world_.timeouts_.of(call.call.phase));
  const Seconds waited = now - call.told_at - std::min(kStalled, timeout / 8);
  const int due = 1 + static_cast<int>(waited / std::min(kUnanswered, timeout / 4));
  if (due <= above_) return;
  int up = world_.rank();
  for (int i = 0; i < above_ && up > 0; ++i) up = tree_.parent(up);
  if (up <= 0) return;
  ++above_;
  Packet packet = note(Note::waiting);
  put_wait_report(packet, sent_);
  tell(tree_.parent(up), packet);
}

void MpiProgress::hear_waiting(int from, Packet& packet) {
  WaitReport report = take_wait_report(packet);
  if (report.empty()) {
    reports_.erase(from);
  } else {
    reports_[from] = std::move(report);
  }
  if (!std::exchange(changed_, true)) changed_at_ = Clock::now();
}

// Of the two ends of a message each knows who is missing.
void MpiProgress::tell_arrived() {
  std::map<CallKey, Arrived> told;
  for (const auto& [key, ranks] : sent_.here) {
    Arrived arrived = {ranks, sent_.finished_without(key)};
    if (key.lane.from >= 0 && arrived.finished.empty()) continue;
    const auto before = arrived_.find(key);
    if (before == arrived_.end() || before->second != arrived) {
      Packet packet = note(Note::arrived);
      put_ranks(packet.put(key), arrived.here);
      put_ranks(packet, arrived.finished);
      spread_arrived(key, arrived, packet);
    }
    told[key] = std::move(arrived);
  }
  arrived_.swap(told);
}

void MpiProgress::hear_arrived(Packet& packet) {
  const auto key = packet.take<CallKey>();
  std::vector<int> here = take_ranks(packet);
  spread_arrived(key, {std::move(here), take_ranks(packet)}, packet);
}

void MpiProgress::spread_arrived(const CallKey& key, const Arrived& arrived, const Packet& packet) {
  for (const auto& [rank, report] : reports_) {
    if (report.here.count(key) > 0) tell(rank, packet);
  }
  MpiCall* const call = find(key);
  if (call == nullptr || call->after || call->agreed || call->disagrees) return;
  const auto among = [](const std::vector<int>& ranks, int rank) {
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  };
  if (call->parties.size() > 2) {
    call->missing.emplace();
    for (const int party : call->parties) {
      if (!among(arrived.here, party)) call->missing->push_back(party);
    }
  }
  for (const int party : call->parties) {
    if (party == world_.rank() || !among(arrived.finished, party)) continue;
    return fail({-1, call->where() + ": rank " + std::to_string(party) +
                         " has finished without this call; every rank must make the same calls in "
                         "the same order"});
  }
}

// Whether this rank can only go on when a message comes, and what its thread waits in; "" where its
// program has ended.
bool MpiProgress::blocked(Clock::time_point now, std::string& text) const {
  for (const auto& call : calls_) {
    if (!call->after && !is_stalled(*call, now)) return false;  // or its bytes are under way
  }
  const std::lock_guard<std::mutex> lock(world_.mutex_);
  if (!world_.posted_.empty() || world_.threw_) return false;
  if (world_.ended_) return told_end_;
  if (world_.waiting_ == nullptr || world_.waiting_->state.load() != MpiCall::kBegun) return false;
  const MpiCall& call = *world_.waiting_;
  const std::vector<int> missing = absent(call);
  text = call.where() + (missing.empty() ? "" : " for " + rank_list(missing));
  return true;
}

void MpiProgress::hear_query(uint64_t number) {
  question_ = {number, tree_.children().size(), {}};
  Packet packet = note(Note::query);
  tell_down(packet.put(number));
  if (question_.missing == 0) pass_answer();
}

void MpiProgress::hear_answer(uint64_t number, const WaitAnswer& answer) {
  if (number != question_.number) return;
  question_.answer.add(answer);
  if (--question_.missing == 0) pass_answer();
}

void MpiProgress::pass_answer() {
  WaitAnswer own;
  std::string text;
  own.blocked = !failing_ && !failed_ && blocked(Clock::now(), text);
  own.told = told_;
  own.heard = heard_;
  if (!text.empty()) own.in[world_.rank()] = text;
  question_.answer.add(own);
  if (world_.rank() > 0) {
    Packet packet = note(Note::answer);
    put_wait_answer(packet.put(question_.number), question_.answer);
    return tell_up(packet);
  }
  if (search_.answer(question_.answer)) {
    hear_failure({-1, DeadlockSearch::text(question_.answer)}, {}, {});
  }
}

// The call that the rank's thread waits in, and for whom; empty while it computes.
std::string MpiProgress::waits() const {
  const std::lock_guard<std::mutex> lock(world_.mutex_);
  if (world_.waiting_ == nullptr) return {};
  const MpiCall& call = *world_.waiting_;
  const std::vector<int> missing = absent(call), slow = transport_.unfinished();
  if (!missing.empty()) return call.where() + " for " + rank_list(missing);
  return call.where() + (slow.empty() ? "" : " for bytes from and to " + rank_list(slow));
}

}  // namespace hero::dist
