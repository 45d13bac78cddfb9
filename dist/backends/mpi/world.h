#pragma once
// A run of the mpi backend in one process: its rank's thread and the thread that makes progress.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hero/core/array.h>
#include <hero/dist/backends/call.h>
#include <hero/dist/backends/mpi/transfer.h>
#include <hero/dist/backends/mpi/transport.h>
#include <hero/dist/backends/mpi/wire.h>
#include <hero/dist/backends/timeouts.h>

namespace hero::dist {

/// One rank's part in a collective or message. The rank's thread makes it and gives it away with
/// MpiWorld::post(); it is its own again when `state` is no longer kBegun.
struct MpiCall {
  enum State : int { kBegun, kDone, kFailed };

  Call call;
  CallKey key;
  std::string axis;
  std::vector<int> parties;  // world ranks
  int me = 0;                // among them
  core::Array input, output;
  std::shared_ptr<MpiCall> after;  // the others are told when that one is complete; null: at once
  std::atomic<int> state{kBegun};
  std::atomic<bool> overdue{false};  // its rank has waited for longer than the time-out

  std::string where() const { return describe(call, key.sequence, axis); }
  bool to_oneself() const { return key.lane.from >= 0 && key.lane.from == key.lane.to; }

  /// \name For who makes progress
  /// \{
  std::chrono::steady_clock::time_point told_at;
  std::optional<std::vector<int>> missing;  // as rank 0 has told
  bool disagrees = false;
  std::optional<Agreed> agreed;
  std::unique_ptr<MpiTransfer> transfer;
  /// \}
};

/// What went wrong: `rank` is -1 for what no single rank has thrown.
struct Failure {
  int rank = -1;
  std::string line;
};

class MpiProgress;

/// [note: failure between processes] in failure.cpp says how a failure becomes everybody's.
class MpiWorld {
 public:
  /// `report` prints a failure on rank 0 (elsewhere only when rank 0 is lost).
  using Report = std::function<void(const Failure&)>;
  MpiWorld(Transport& transport, const Timeouts& timeouts, Report report);
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  uint64_t number() const { return number_; }
  /// Whether the failure of a rank is known here; any thread may ask.
  bool has_failed() const { return failed_.load(); }

  /// \name For the rank's thread
  /// \{
  /// Begins a call; an Error when the world has failed.
  void post(const std::shared_ptr<MpiCall>& call);
  /// Any thread: the rank's program has let go of that group, and makes no call of it any more.
  void leave(uint64_t group);
  /// Ends the process with an Error where the thread that makes progress has been in MPI for longer
  /// than the time-out of joining; any thread that does not make progress asks.
  void watch_library() const;
  /// Returns when the call is complete; throws when it never will be.
  void wait(MpiCall& call);
  /// Any thread: notes whether the time-out of the call is over, for which its rank has waited from
  /// `since` on.
  void look_at_time(MpiCall& call, std::chrono::steady_clock::time_point since) const;
  /// Returns when none of the calls is under way any more.
  void wait_until_complete(const std::vector<std::shared_ptr<MpiCall>>& calls);
  /// Throws what a rank has to know that makes the call `where` in a world that has failed.
  [[noreturn]] void raise(const std::string& where) const;
  /// This rank's program threw `message`.
  void fail_rank(const std::string& message);
  /// This rank's program has ended; `thrown`: the message with which it did, null where it ended
  /// well. Returns when all have, with the failure of the run if there was one.
  std::optional<Failure> end(const std::string* thrown);
  /// \}

 private:
  friend class MpiProgress;

  using Clock = std::chrono::steady_clock;
  // What waits for other processes within MPI.
  struct InLibrary {
    std::string where;
    std::vector<int> ranks;
    Clock::time_point since;
  };
  class LibraryScope;
  void run();
  void pause(int idle) const;
  void watch_driver(std::optional<Clock::time_point>& stopped) const;

  const int rank_, size_;
  const Timeouts timeouts_;
  const uint64_t number_;
  const Report report_;
  const int yields_, thread_yields_;  // of the rank's thread and the other before they sleep

  mutable std::mutex mutex_;
  std::timed_mutex drive_;           // held by whoever makes progress
  std::atomic<bool> driven_{false};  // by the rank's thread
  std::atomic<bool> failed_{false};
  std::atomic<bool> in_library_{false};
  std::condition_variable work_;       // for the thread of progress
  std::condition_variable completed_;  // for the rank's thread
  // under mutex_
  std::vector<std::shared_ptr<MpiCall>> posted_;
  std::vector<uint64_t> left_;        // groups, not yet told
  std::optional<std::string> threw_;  // not yet told
  bool ended_ = false;
  bool ending_ = false;  // not yet told
  std::optional<std::string> ended_with_;
  MpiCall* waiting_ = nullptr;
  std::optional<InLibrary> library_;
  std::optional<Failure> failure_;
  bool over_ = false;
  std::optional<Failure> outcome_;

  std::unique_ptr<MpiProgress> progress_;
  std::thread thread_;
};

/// While it lives, the thread that makes progress is in a call of MPI in which those ranks wait for
/// each other.
class MpiWorld::LibraryScope {
 public:
  LibraryScope(MpiWorld& world, std::string where, std::vector<int> ranks);
  ~LibraryScope();
  LibraryScope(const LibraryScope&) = delete;
  LibraryScope& operator=(const LibraryScope&) = delete;

 private:
  MpiWorld& world_;
};

/// The world that runs in this process, for what must happen when the process ends before it does.
void end_with_process();

}  // namespace hero::dist
