#pragma once
// LocalWorld: the state that the rank threads of one process share in the local backend. See
// world.cpp for how ranks wait and how failure spreads.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hero/dist/backends/throttled_link.h>
#include <hero/dist/backends/timeouts.h>

namespace hero::dist {

struct LocalGroup;

class LocalWorld {
 public:
  /// `link`: rate of the simulated network in bytes per second; 0: none (see ThrottledLink).
  LocalWorld(int size, const Timeouts& timeouts, double link);

  int size() const { return static_cast<int>(ranks_.size()); }
  const Timeouts& timeouts() const { return timeouts_; }
  ThrottledLink& link() { return link_; }

  /// \name Events: anything that a rank may be waiting for. Each has a count of its own, so that
  /// what a group does wakes nobody else.
  /// \{
  uint64_t events(int rank) const { return rank_of(rank).events.load(); }
  /// Something happened that these ranks may be waiting for.
  void notify(std::span<const int> ranks);
  void notify_all();
  /// Returns soon after events(rank) differs from `seen`, or after a pause. `text` describes what
  /// the rank waits for. If every rank that has not ended waits and nothing is under way, that is a
  /// deadlock, and all ranks fail.
  template <class Text>
  void wait_for_event(int rank, uint64_t seen, int& patience, const Text& text) {
    if (spin(rank, seen, patience)) return;
    sleep(rank, seen, text);
  }
  /// Returns at `time`, or soon after events(rank) differs from `seen`. Such a wait ends by itself
  /// and never counts as a deadlock.
  void wait_until(ThrottledLink::Clock::time_point time, int rank, uint64_t seen);
  /// \}

  /// \name Failure: the first one is everybody's.
  /// \{
  bool failed() const { return failed_.load(); }
  /// Makes all ranks throw an Error with this line.
  void fail_all(const std::string& line);
  /// Records that `rank` has failed with this message.
  void fail_rank(int rank, const std::string& message);
  /// The rank that ended first with a message of its own, -1 if there is none.
  int first_failed() const;
  /// Throws the Error of the failed world for a rank that waits in, or begins, the call `where`.
  [[noreturn]] void raise(int rank, const std::string& where) const;
  /// \}

  void finish(int rank);
  /// Waits until all ranks have ended, but at most until this many seconds after the first failure.
  /// Returns the ranks that have not ended.
  std::vector<int> wait_for_end(double seconds_after_failure);
  bool any_finished() const { return finished_.load() > 0; }
  bool finished(int rank) const { return rank_of(rank).finished.load(); }
  /// The call in which the rank is waiting; "" if it does not wait.
  std::string waiting(int rank) const;

  /// The group that ranks have agreed on under this key; the first of them to call it makes the
  /// group. Each member calls it once; after the last one, the world no longer keeps the group.
  using GroupKey = std::pair<std::pair<const void*, uint64_t>, int>;
  std::shared_ptr<LocalGroup> group(const GroupKey& key, const std::vector<int>& world_ranks,
                                    const std::string& axis);

 private:
  struct alignas(64) Rank {
    std::atomic<uint64_t> events{0};
    std::atomic<bool> finished{false};
    std::condition_variable changed;  // its events
    bool asleep = false;              // mutex_ protects this member and the next two
    uint64_t seen = 0;
    // Evaluated when the text is printed, since others arrive meanwhile.
    std::function<std::string()> waiting;
  };
  Rank& rank_of(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& rank_of(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  bool spin(int rank, uint64_t seen, int& patience) const;
  void sleep(int rank, uint64_t seen, std::function<std::string()> text);
  bool deadlocked() const;
  std::string deadlock_text() const;
  void set_failure(int rank, const std::string& line);
  void end(int rank);

  const Timeouts timeouts_;
  ThrottledLink link_;
  std::vector<Rank> ranks_;
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> failed_{false};
  std::atomic<int> finished_{0};
  mutable std::mutex mutex_;
  std::condition_variable ended_;  // notified when a rank ends, or when the world fails
  int failed_rank_ = -1;           // under mutex_ until failed_ is set, then fixed
  std::string failure_;
  std::mutex groups_mutex_;
  struct NewGroup {
    std::shared_ptr<LocalGroup> group;
    size_t asked = 0;  // members
  };
  std::map<GroupKey, NewGroup> new_groups_;
};

}  // namespace hero::dist
