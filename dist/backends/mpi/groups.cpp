// The part of MpiProgress and MpiWorld for the communicators that MPI needs for its own reductions
// (Order::native).
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/mpi/progress.h>
#include <hero/dist/backends/notices.h>

namespace hero::dist {

// [note: who makes a group's communicator]
// MPI makes one only while all members wait for each other. Rank 0 decides in which order that
// happens: two groups with the same members would otherwise wait for each other's. It decides when
// they are freed, too, for the same reason: MPI lets the members wait for each other there. That is
// when the programs of all members have let go of the group and its calls are complete, or at the
// end of the run: by then every rank has heard of all that rank 0 has decided before, so each frees
// the same ones, in the order of their numbers.
bool MpiProgress::group_is_ready(const MpiCall& call) {
  const uint64_t id = call.key.lane.group;
  if (transport_.has_group(id)) return true;
  if (!asked_.try_emplace(id, call.parties).second) return false;
  Packet packet = note(Note::ready);
  packet.put(id).put(call.parties);
  tell_rank_0(std::move(packet), &MpiProgress::hear_ready);
  return transport_.has_group(id);
}

void MpiProgress::tell_rank_0(Packet packet, void (MpiProgress::*there)(Packet&)) {
  if (world_.rank() != 0) return tell(0, packet);
  packet.take<uint64_t>();
  packet.take<Note>();
  (this->*there)(packet);
}

void MpiProgress::tell_members(const Packet& packet, const std::vector<int>& members) {
  for (const int member : members) {
    if (member != world_.rank()) tell(member, packet);
  }
}

void MpiProgress::hear_ready(Packet& packet) {
  const auto id = packet.take<uint64_t>();
  LibraryGroup& group = library_groups_[id];
  group.members = packet.take_list<int>();
  if (++group.ready < static_cast<int>(group.members.size())) return;
  Packet make = note(Note::make);
  make.put(id).put(group.members);
  tell_members(make, group.members);
  const auto me = std::find(group.members.begin(), group.members.end(), world_.rank());
  if (me != group.members.end()) make_group(id, group.members);
}

void MpiProgress::make_group(uint64_t id, const std::vector<int>& members) {
  const auto waits = [id](const auto& call) { return call->key.lane.group == id; };
  const auto call = std::find_if(calls_.begin(), calls_.end(), waits);
  const MpiWorld::LibraryScope scope(world_, call == calls_.end() ? "mpi" : (*call)->where(),
                                     members);
  transport_.make_group(id, members);
}

void MpiProgress::tell_left() {
  if (failed_ || told_end_) return;
  for (auto id = leaving_.begin(); id != leaving_.end();) {
    const auto of_group = [&](const auto& call) { return call->key.lane.group == *id; };
    if (std::any_of(calls_.begin(), calls_.end(), of_group)) {
      ++id;
      continue;
    }
    if (transport_.has_group(*id)) {
      Packet packet = note(Note::left);
      packet.put(*id);
      tell_rank_0(std::move(packet), &MpiProgress::hear_left);
    }
    id = leaving_.erase(id);
  }
}

void MpiProgress::hear_left(Packet& packet) {
  const auto id = packet.take<uint64_t>();
  const auto group = library_groups_.find(id);
  if (++group->second.left < static_cast<int>(group->second.members.size())) return;
  const std::vector<int> members = std::move(group->second.members);
  library_groups_.erase(group);
  Packet release = note(Note::release);
  tell_members(release.put(id), members);
  if (std::find(members.begin(), members.end(), world_.rank()) != members.end()) free_group(id);
}

void MpiProgress::free_group(uint64_t id) {
  const auto asked = asked_.find(id);
  const MpiWorld::LibraryScope scope(world_, "mpi: the end of a group", asked->second);
  asked_.erase(asked);
  transport_.free_group(id);
}

void MpiProgress::free_groups() {
  while (!asked_.empty()) {
    const uint64_t id = asked_.begin()->first;
    if (transport_.has_group(id)) {
      free_group(id);
    } else {
      asked_.erase(id);  // not made before the run failed
    }
  }
}

MpiWorld::LibraryScope::LibraryScope(MpiWorld& world, std::string where, std::vector<int> ranks)
    : world_(world) {
  const std::lock_guard<std::mutex> lock(world_.mutex_);
  world_.library_ = {std::move(where), std::move(ranks), Clock::now()};
  world_.in_library_.store(true);
}

MpiWorld::LibraryScope::~LibraryScope() {
  world_.in_library_.store(false);
  const std::lock_guard<std::mutex> lock(world_.mutex_);
  world_.library_.reset();
}

void MpiWorld::leave(uint64_t group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!over_) left_.push_back(group);
}

// [note: a process that MPI waits for]
// MPI_Comm_create_group and MPI_Comm_free may return only when all members have come, and know no
// time-out. All have just asked for it; but one may have been stopped since, or its host cut off.
// The thread that is in MPI cannot say so, and no other may call MPI: the process ends, and the
// launcher ends the others.
void MpiWorld::watch_library() const {
  if (!in_library_.load()) return;
  InLibrary call;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!library_) return;
    // the first member says it for all, unless it is the one that does not come
    const double more = library_->ranks.front() == rank_ ? 0.0 : 5.0;
    const std::chrono::duration<double> waited = Clock::now() - library_->since;
    if (waited.count() < timeouts_.of(Phase::join) + more) return;
    call = *library_;
  }
  static std::atomic<bool> said{false};
  tell_late();
  if (!said.exchange(true)) {
    report_({-1, call.where + ": " + timeouts_.text(Phase::join) + ": MPI waits for a process of " +
                     rank_list(call.ranks) +
                     ", which share a communicator, and it does not answer" +
                     timeout_advice(Phase::join)});
  }
  std::_Exit(1);
}

}  // namespace hero::dist
