#include <algorithm>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/mpi/progress.h>

namespace hero::dist {
MpiProgress::MpiProgress(MpiWorld& world, Transport& transport)
    : world_(world), transport_(transport), tree_(world.rank_, world.size_) {}

bool MpiProgress::step() {
  try {
    bool moved = take_posted();
    moved = hear_all() || moved;
    moved = transport_.poll() || moved;
    moved = advance_calls() || moved;
    look_at_time();
    return moved;
  } catch (const std::exception& error) {
    die(failed_ ? *failed_ : failing_.value_or(Failure{world_.rank(), error.what()}));
  }
}

void MpiProgress::keep_early() {
  for (auto& [from, text] : early_) transport_.keep(from, std::move(text));
}

bool MpiProgress::take_posted() {
  std::vector<std::shared_ptr<MpiCall>> posted;
  std::vector<uint64_t> left;
  std::optional<std::string> threw, ended_with;
  bool ended = false;
  {
    const std::lock_guard<std::mutex> lock(world_.mutex_);
    posted.swap(world_.posted_);
    left.swap(world_.left_);
    threw.swap(world_.threw_);
    ended = std::exchange(world_.ending_, false);
    ended_with = world_.ended_with_;
  }
  for (const auto& call : posted) begin(call);
  leaving_.insert(left.begin(), left.end());
  tell_left();
  if (threw) fail({world_.rank(), *threw});
  if (ended) tell_end(ended_with);
  return !posted.empty() || threw || ended;
}

void MpiProgress::begin(const std::shared_ptr<MpiCall>& call) {
  calls_.push_back(call);
  uint64_t& begun = begun_[call->key.lane];
  begun = std::max(begun, call->key.sequence + 1);
  if (!call->after) tell_call(*call);
}

// Whether the call is announced to the other ranks: that happens when the call `after` which it
// begins is complete, unless this rank has declared that it begins no further calls (see the note
// on failure).
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

void MpiProgress::tell_up(const Packet& packet) { tell(tree_.parent(world_.rank()), packet); }

void MpiProgress::tell_down(const Packet& packet) {
  for (const int child : tree_.children()) tell(child, packet);
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
  switch (kind) {
    case Note::summary:
      return receive_summary(packet);
    case Note::statement:
      return hear_statements(packet);
    case Note::waiting:
      return hear_waiting(from, packet);
    case Note::arrived:
      return hear_arrived(packet);
    case Note::fail:
      return hear_fail(packet);
    case Note::verdict:
      tell_down(packet);
      return adopt(take_failure(packet));
    case Note::final:
      return hear_final(take_told_by_all(packet));
    case Note::finals:
      tell_down(packet);
      finals_ = take_told_by_all(packet);
      return;
    case Note::query:
      return hear_query(packet.take<uint64_t>());
    case Note::answer: {
      const auto number = packet.take<uint64_t>();
      return hear_answer(number, take_wait_answer(packet));
    }
    case Note::threw:
      return hear_threw(packet.take<std::string>());
    case Note::end:
      return count_end();
    case Note::result: {
      tell_down(packet);
      const bool failed = packet.take<bool>();
      const Failure outcome = take_failure(packet);
      return finish(failed ? std::optional<Failure>(outcome) : std::nullopt);
    }
    case Note::ready:
      return hear_ready(packet);
    case Note::make: {
      const auto id = packet.take<uint64_t>();
      return make_group(id, packet.take_list<int>());
    }
    case Note::left:
      return hear_left(packet);
    case Note::release: {
      const auto id = packet.take<uint64_t>();
      return free_group(id);
    }
  }
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
  if (!call.agreed && !call.disagrees) find_agreement(call);
  if (!call.agreed) {
    if (failed_ && finals_are_in() && (call.disagrees || !told_by_all(call))) {
      complete(call, MpiCall::kFailed);
    }
    return;
  }
  if (!call.call.moves) return complete(call, MpiCall::kDone);
  if (!call.transfer) {
    if (call.call.order == Order::native && call.call.reduces() && !group_is_ready(call)) return;
    call.transfer = begin_transfer(transport_, call.key.lane.group, std::move(*call.agreed));
  }
  if (call.transfer->advance()) complete(call, MpiCall::kDone);
}

void MpiProgress::complete(MpiCall& call, MpiCall::State state) {
  call.transfer.reset();
  call.agreed.reset();
  agreements_.erase({call.key, call.me});
  const std::lock_guard<std::mutex> lock(world_.mutex_);
  call.state.store(state);
  world_.completed_.notify_all();
}

}  // namespace hero::dist
