#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <hero/dist/engines/mpi/watch.h>
#include <hero/dist/engines/mpi/wire.h>
#include <hero/dist/engines/mpi/world.h>

namespace hero::dist {

/// While it lives, SIGTERM is seen by the thread of progress, which says where the rank was.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  static bool came();
  /// Reports where the rank was, and ends the process as the signal would have.
  [[noreturn]] static void obey(const MpiWorld::Report& report, int rank, const std::string& where);

 private:
  bool ours_ = false, pipes_ = false;  // what was the default before
};

/// The thread of a process that makes progress, and alone uses the transport: it tells the others
/// what its rank begins, compares what they say, moves bytes, and spreads failure.
class MpiProgress {
 public:
  MpiProgress(MpiWorld& world, Transport& transport);
  /// Until the run is over on all ranks.
  void run();

 private:
  using Clock = std::chrono::steady_clock;

  // What has been heard of one collective or message.
  struct Statement {
    Call call;
    int tag = 0;
  };
  struct RoundKey {
    uint64_t group;
    std::pair<int, int> lane;
    uint64_t sequence;
    bool operator<(const RoundKey& other) const {
      return std::tie(group, lane, sequence) < std::tie(other.group, other.lane, other.sequence);
    }
  };
  struct Round {
    std::map<int, Statement> said;  // by party
    int compared = 0;               // calls of this rank that have read it
  };
  static RoundKey key_of(const MpiCall& call) { return {call.group, call.lane, call.sequence}; }

  /// \name What the rank's thread has left
  /// \{
  bool take_posted();
  void begin(const std::shared_ptr<MpiCall>& call);
  void tell_call(MpiCall& call);
  void tell_end(const std::optional<std::string>& thrown);
  /// \}

  /// \name Messages
  /// \{
  Packet note(Note kind) const;
  void tell(int to, const Packet& packet);
  void tell_all(const Packet& packet);
  bool hear_all();
  void hear(int from, Note kind, Packet& packet);
  void hear_call(Packet& packet);
  /// \}

  /// \name Calls
  /// \{
  bool advance_calls();
  void advance(MpiCall& call);
  bool follows(MpiCall& call);
  void compare(MpiCall& call, const Round& round);
  bool group_is_ready(const MpiCall& call);
  void hear_ready(Packet& packet);
  void check_finished(const MpiCall& call);
  void complete(MpiCall& call, MpiCall::State state);
  std::vector<int> absent(const MpiCall& call) const;
  /// \}

  /// \name Failure and the end
  /// \{
  // `missing`: ranks of which rank 0 may know what they wait in, which goes before `tail`.
  void fail(const Failure& failure, const std::vector<int>& missing = {},
            const std::string& tail = {});
  void hear_failure(Failure failure, const std::vector<int>& missing, const std::string& tail);
  void adopt(const Failure& failure);
  void look_at_time();
  void check_overdue(const MpiCall& call);
  void check_patience();
  [[noreturn]] void die(const Failure& failure);
  void hear_end(int from, const std::optional<std::string>& thrown);
  void finish(const std::optional<Failure>& outcome);
  bool finals_are_in() const { return finals_ == world_.size() - 1; }
  Blocked blocked() const;
  std::string waits() const;
  void report_blocked(Clock::time_point now);
  void answer(uint64_t number);
  void check_signal();
  /// \}

  void rest(bool moved);

  MpiWorld& world_;
  Transport& transport_;
  MpiWatch watch_;
  StopSignal signal_;
  std::vector<std::shared_ptr<MpiCall>> calls_;  // under way, oldest first
  std::map<RoundKey, Round> rounds_;
  std::vector<std::pair<int, std::string>> early_;  // messages of the next run
  std::map<uint64_t, int> ready_;  // rank 0: members that need a group's communicator
  std::set<uint64_t> asked_;       // groups whose communicator this rank has asked for
  int next_tag_ = 0;
  std::vector<bool> finished_;
  uint64_t told_ = 0, heard_ = 0;   // messages that can let a rank go on
  std::optional<Failure> failing_;  // told to rank 0
  std::optional<Failure> failed_;   // everybody's
  Clock::time_point failing_since_, failed_since_, looked_;
  int finals_ = 0;
  bool timed_out_ = false;  // this rank has waited for the whole time-out
  Blocked seen_, reported_blocked_;
  Clock::time_point seen_since_;
  bool told_end_ = false;
  std::vector<bool> ended_;  // rank 0
  std::optional<Failure> thrown_;
  bool reported_ = false;
  bool over_ = false;
  int idle_ = 0;  // rounds without progress
};

}  // namespace hero::dist
