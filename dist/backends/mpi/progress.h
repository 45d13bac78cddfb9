#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <hero/dist/backends/mpi/rank_tree.h>
#include <hero/dist/backends/mpi/waiting.h>
#include <hero/dist/backends/mpi/wire.h>
#include <hero/dist/backends/mpi/world.h>

namespace hero::dist {

/// While it lives, the progress thread handles SIGTERM and reports where the rank was.
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
  bool ours_ = false, pipes_ = false;  // true: the handler was the default one before
};

/// The progress engine of a process, which alone uses the transport: it sends the statements of
/// calls that its rank begins, finds out whether the ranks agree, moves bytes, and spreads
/// failures. See [note: who makes progress] in world.cpp.
class MpiProgress {
 public:
  MpiProgress(MpiWorld& world, Transport& transport);
  /// Polls everything once. Returns true if there was progress. One thread at a time.
  bool step();
  /// True when the run has ended on all ranks and all messages have been sent.
  bool over() const { return over_ && transport_.told(); }
  /// Whether a call is under way.
  bool busy() const { return !calls_.empty() || (told_end_ && !over_); }
  /// Keeps messages that belong to the next run for that run.
  void keep_early();

 private:
  using Clock = std::chrono::steady_clock;

  // This rank's part in an agreement; a message to itself has two.
  using End = std::pair<CallKey, int>;
  // What rank 0 tells the ranks that wait in a call.
  struct Arrived {
    std::vector<int> here;      // ranks that wait in it
    std::vector<int> finished;  // ranks whose programs have ended without it
    friend bool operator==(const Arrived&, const Arrived&) = default;
  };

  // A group that has, or will have, a communicator of the MPI library.
  struct LibraryGroup {
    std::vector<int> members;
    int ready = 0;  // number of members that need it
    int left = 0;   // number of members that no longer need it
  };

  /// \name What the rank's thread has left
  /// \{
  bool take_posted();
  void begin(const std::shared_ptr<MpiCall>& call);
  void tell_end(const std::optional<std::string>& thrown);
  /// \}

  /// \name Messages
  /// \{
  Packet note(Note kind) const;
  void tell(int to, const Packet& packet);
  void tell_up(const Packet& packet);
  void tell_down(const Packet& packet);
  bool hear_all();
  void hear(int from, Note kind, Packet& packet);
  /// \}

  /// \name Agreement, in agree.cpp
  /// \{
  void tell_call(MpiCall& call);
  void send_summary(const MpiCall& call, int party, int stage, const StatementSummary& summary);
  void receive_summary(Packet& packet);
  void find_agreement(MpiCall& call);
  void state_in_full(MpiCall& call);
  void hear_statements(Packet& packet);
  void pass_statements(const MpiCall& call);
  MpiCall* find(const CallKey& key);
  Told told() const;
  bool told_by_all(const MpiCall& call) const;
  std::vector<int> absent(const MpiCall& call) const;
  /// \}

  /// \name Who waits, in wait.cpp
  /// \{
  bool is_stalled(const MpiCall& call, Clock::time_point now) const;
  WaitReport own_report(Clock::time_point now) const;
  void report_waiting(Clock::time_point now);
  void send_report();
  void tell_further_up(const MpiCall& call, Clock::time_point now);
  void hear_waiting(int from, Packet& packet);
  void tell_arrived();
  void hear_arrived(Packet& packet);
  void spread_arrived(const CallKey& key, const Arrived& arrived, const Packet& packet);
  bool blocked(Clock::time_point now, std::string& text) const;
  void hear_query(uint64_t number);
  void hear_answer(uint64_t number, const WaitAnswer& answer);
  void pass_answer();
  std::string waits() const;
  /// \}

  /// \name Calls
  /// \{
  bool advance_calls();
  void advance(MpiCall& call);
  bool follows(MpiCall& call);
  void complete(MpiCall& call, MpiCall::State state);
  /// \}

  /// \name Groups of the library, in groups.cpp
  /// \{
  bool group_is_ready(const MpiCall& call);
  void tell_rank_0(Packet packet, void (MpiProgress::*there)(Packet&));
  void tell_members(const Packet& packet, const std::vector<int>& members);
  void hear_ready(Packet& packet);
  void make_group(uint64_t id, const std::vector<int>& members);
  void tell_left();
  void hear_left(Packet& packet);
  void free_group(uint64_t id);
  void free_groups();
  /// \}

  /// \name Failure and the end
  /// \{
  // `missing`: ranks for which rank 0 adds what they wait in, if it knows, before `tail`.
  void fail(const Failure& failure, const std::vector<int>& missing = {},
            const std::string& tail = {});
  void hear_failure(Failure failure, const std::vector<int>& missing, const std::string& tail);
  void adopt(const Failure& failure);
  void look_at_time();
  void check_overdue(const MpiCall& call);
  void check_patience();
  [[noreturn]] void die(const Failure& failure);
  void hear_fail(Packet& packet);
  void hear_final(const ToldByAll& told);
  void hear_threw(const std::string& message);
  void count_end();
  void finish(const std::optional<Failure>& outcome);
  bool finals_are_in() const { return finals_.has_value(); }
  void check_signal();
  /// \}

  MpiWorld& world_;
  Transport& transport_;
  const RankTree tree_;
  StopSignal signal_;
  std::vector<std::shared_ptr<MpiCall>> calls_;  // under way, oldest first
  std::map<Lane, uint64_t> begun_;               // number of calls begun by this rank
  std::map<End, Agreement> agreements_;
  // At the first party: full statements, by party.
  std::map<CallKey, std::map<int, Call>> statements_;
  std::vector<std::pair<int, std::string>> early_;   // messages of the next run
  std::map<uint64_t, LibraryGroup> library_groups_;  // rank 0
  // Groups whose communicators this rank asked for, with members.
  std::map<uint64_t, std::vector<int>> asked_;
  std::set<uint64_t> leaving_;  // groups that this rank's program has released
  int next_tag_ = 0;
  std::map<int, WaitReport> reports_;  // reports of ranks below in the tree, by sender
  WaitReport own_, sent_;  // the report of this rank; the report last sent for all of these
  bool changed_ = false;   // reports have changed since `sent_`
  Clock::time_point changed_at_;
  int above_ = 1;                       // to how many of the ranks above reports are sent
  bool all_wait_ = false;               // rank 0
  std::map<CallKey, Arrived> arrived_;  // received from rank 0
  WaitQuestion question_;
  DeadlockSearch search_;           // rank 0
  uint64_t told_ = 0, heard_ = 0;   // messages sent and received that can let a rank continue
  std::optional<Failure> failing_;  // the failure reported to rank 0
  std::optional<Failure> failed_;   // the failure of the whole run
  Clock::time_point failing_since_, failed_since_, looked_;
  std::optional<Packet> fail_;  // the report to rank 0, to be sent a second time
  bool passed_fail_ = false, passed_threw_ = false;
  ToldByAll final_;         // the combined final statements of this rank and the parts below
  size_t final_parts_ = 0;  // number of parts in final_
  std::optional<ToldByAll> finals_;
  bool timed_out_ = false;  // this rank has waited for the whole time-out
  bool told_end_ = false;
  bool ended_well_ = false;
  Clock::time_point ended_at_;
  size_t ended_ = 0;  // number of those that have ended: this rank and the parts below
  std::optional<Failure> thrown_;
  bool reported_ = false;
  bool over_ = false;
};

}  // namespace hero::dist
