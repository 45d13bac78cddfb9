#pragma once
// MpiWorld: a run of the mpi backend in one process, with the rank's thread and the progress
// thread.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
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

/// One rank's part in a collective or message. The rank's thread makes it and passes it to
/// MpiWorld::post(); the rank's thread may use it again when `state` is no longer kBegun.
struct MpiCall {
  enum State : int { kBegun, kDone, kFailed };

  Call call;
  CallKey key;
  std::string axis;
  std::vector<int> parties;  // world ranks
  int me = 0;                // this rank's index in `parties`
  core::Array input, output;
  std::shared_ptr<MpiCall> after;  // announced when that call is complete; null: at once
  std::atomic<int> state{kBegun};
  std::atomic<bool> overdue{false};  // true: its rank has waited for longer than the time-out

  std::string where() const { return describe(call, key.sequence, axis); }
  bool to_oneself() const { return key.lane.from >= 0 && key.lane.from == key.lane.to; }

  /// \name For who makes progress
  /// \{
  std::chrono::steady_clock::time_point told_at;
  std::optional<std::vector<int>> missing;  // received from rank 0
  bool disagrees = false;
  std::optional<Agreed> agreed;
  std::unique_ptr<MpiTransfer> transfer;
  /// \}
};

/// A failure of the run; `rank` is the rank that threw, -1 if it is not the failure of a single
/// rank.
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
  /// As Transport::hosts().
  std::span<const int> hosts() const { return hosts_; }
  /// Whether the failure of a rank is known here; any thread may ask.
  bool has_failed() const { return failed_.load(); }

  /// \name For the rank's thread
  /// \{
  /// Begins a call. Throws an Error if the world has failed.
  void post(const std::shared_ptr<MpiCall>& call);
  /// Called by any thread when the rank's program has released a group and makes no more calls on
  /// it.
  void leave(uint64_t group);
  /// Ends the process with an Error if the progress thread has been inside MPI for longer than the
  /// time-out of joining. Called by any other thread.
  void watch_library() const;
  /// Waits until the call is complete; throws an Error if it cannot become complete.
  void wait(MpiCall& call);
  /// Called by any thread: marks the call as overdue if its rank has waited since `since` for
  /// longer than the time-out.
  void look_at_time(MpiCall& call, std::chrono::steady_clock::time_point since) const;
  /// Waits until none of the calls is under way any more.
  void wait_until_complete(const std::vector<std::shared_ptr<MpiCall>>& calls);
  /// Throws the Error of the failed world for a rank that makes the call `where`.
  [[noreturn]] void raise(const std::string& where) const;
  /// Records that this rank's program threw `message`.
  void fail_rank(const std::string& message);
  /// Called when this rank's program has ended; `thrown` is the message of its exception, null if
  /// there was none. Waits until all ranks have ended, and returns the failure of the run, if any.
  std::optional<Failure> end(const std::string* thrown);
  /// \}

 private:
  friend class MpiProgress;

  using Clock = std::chrono::steady_clock;
  // A call of MPI that waits for other processes.
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
  const std::span<const int> hosts_;
  const Timeouts timeouts_;
  const uint64_t number_;
  const Report report_;
  // Yields of the rank's thread and of the progress thread before they sleep.
  const int yields_, thread_yields_;

  mutable std::mutex mutex_;
  std::timed_mutex drive_;           // held by whoever makes progress
  std::atomic<bool> driven_{false};  // true: the rank's thread makes progress
  std::atomic<bool> failed_{false};
  std::atomic<bool> in_library_{false};
  std::condition_variable work_;       // the progress thread waits for it
  std::condition_variable completed_;  // the rank's thread waits for it
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

/// While it lives, the progress thread is in a call of MPI in which these ranks wait for each
/// other.
class MpiWorld::LibraryScope {
 public:
  LibraryScope(MpiWorld& world, std::string where, std::vector<int> ranks);
  ~LibraryScope();
  LibraryScope(const LibraryScope&) = delete;
  LibraryScope& operator=(const LibraryScope&) = delete;

 private:
  MpiWorld& world_;
};

/// Ends the world that runs in this process if the process ends first.
void end_with_process();

}  // namespace hero::dist
