#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include <hero/core/error.h>
#include <hero/core/threads/at_fork.h>
#include <hero/core/threads/pause.h>
#include <hero/dist/backends/local/group.h>
#include <hero/dist/backends/local/world.h>

namespace hero::dist {
namespace {

// [note: how a rank waits] A rank that cannot continue first pauses for about 20 us, since waking a
// sleeping thread costs 50 us; then it yields, so that ranks on the same core run; then it sleeps
// until an event. If there are more ranks than cores, it does not pause, which would only keep
// another rank from the core. On a machine that is busy with other programs a yield gives them
// whole time slices, while a sleeping thread is woken first: so no rank yields for longer than
// kYieldTime.
constexpr int kPauses = 500;
constexpr int kYields = 200;
constexpr auto kYieldTime = std::chrono::microseconds(200);
constexpr auto kNap = std::chrono::milliseconds(20);  // between two looks at the time-out
constexpr int kNapRanks = 16;  // more of them look less often, or they would do nothing else

int core_count() {
  static const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return count;
}
[[maybe_unused]] const bool kCoresAtFork =
    core::at_fork([] { core_count(); });  // see [note: forks]

}  // namespace

LocalWorld::LocalWorld(int size, const Timeouts& timeouts, double link)
    : timeouts_(timeouts), link_(size, link), ranks_(static_cast<size_t>(size)) {}

void LocalWorld::notify(std::span<const int> ranks) {
  for (const int rank : ranks) rank_of(rank).events.fetch_add(1);
  if (sleepers_.load() == 0) return;
  { const std::lock_guard<std::mutex> lock(mutex_); }
  for (const int rank : ranks) rank_of(rank).changed.notify_one();
}

void LocalWorld::notify_all() {
  std::vector<int> everyone(ranks_.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  notify(everyone);
}

// `patience` lasts for a whole wait: a long one must not spin again after each event.
bool LocalWorld::spin(int rank, uint64_t seen, int& patience) const {
  const std::atomic<uint64_t>& events = rank_of(rank).events;
  if (size() > core_count()) patience = std::max(patience, kPauses);
  for (; patience < kPauses; ++patience) {
    if (events.load() != seen) return true;
    core::pause();
  }
  const auto start = std::chrono::steady_clock::now();
  for (; patience < kPauses + kYields; ++patience) {
    if (events.load() != seen) return true;
    std::this_thread::yield();
    if (std::chrono::steady_clock::now() - start > kYieldTime) patience = kPauses + kYields;
  }
  return events.load() != seen;
}

void LocalWorld::sleep(int rank, uint64_t seen, std::function<std::string()> text) {
  Rank& me = rank_of(rank);
  std::unique_lock<std::mutex> lock(mutex_);
  me.asleep = true;
  me.seen = seen;
  me.waiting = std::move(text);
  sleepers_.fetch_add(1);
  if (!failed() && deadlocked()) {
    set_failure(-1, deadlock_text());
    for (Rank& other : ranks_) {
      other.events.fetch_add(1);
      other.changed.notify_one();
    }
  }
  const auto nap = kNap * std::max(1, size() / kNapRanks);
  me.changed.wait_for(lock, nap, [&] { return me.events.load() != seen; });
  sleepers_.fetch_sub(1);
  me.asleep = false;
  me.waiting = nullptr;
}

void LocalWorld::wait_until(ThrottledLink::Clock::time_point time, int rank, uint64_t seen) {
  Rank& me = rank_of(rank);
  std::unique_lock<std::mutex> lock(mutex_);
  sleepers_.fetch_add(1);
  me.changed.wait_until(lock, time, [&] { return me.events.load() != seen; });
  sleepers_.fetch_sub(1);
}

// [note: when nobody can go on]
// Only ranks make events. If every rank that has not ended is asleep and has seen its last event,
// none will ever come, and there is no need to wait for the time-out to say so.
bool LocalWorld::deadlocked() const {
  bool waiting = false;
  for (const Rank& rank : ranks_) {
    if (rank.finished.load()) continue;
    if (!rank.asleep || rank.seen != rank.events.load()) return false;
    waiting = true;
  }
  return waiting;
}

std::string LocalWorld::deadlock_text() const {
  constexpr int kShown = 8;
  std::string line = "deadlock: every rank waits";
  int shown = 0;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].finished.load()) continue;
    line += shown == 0 ? ": " : "; ";
    if (shown == kShown) return line + "and further ranks";
    line += "rank " + std::to_string(rank) + " in " + ranks_[rank].waiting();
    ++shown;
  }
  return line + "; every rank must make the same calls in the same order";
}

void LocalWorld::set_failure(int rank, const std::string& line) {
  failed_rank_ = rank;
  failure_ = line;
  failed_.store(true);
  ended_.notify_all();
}

void LocalWorld::end(int rank) {
  rank_of(rank).finished.store(true);
  finished_.fetch_add(1);
  ended_.notify_all();
}

std::vector<int> LocalWorld::wait_for_end(double seconds_after_failure) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto all_ended = [this] { return finished_.load() == size(); };
  ended_.wait(lock, [&] { return all_ended() || failed(); });
  ended_.wait_for(lock, std::chrono::duration<double>(seconds_after_failure), all_ended);
  std::vector<int> left;
  for (int rank = 0; rank < size(); ++rank) {
    if (!finished(rank)) left.push_back(rank);
  }
  return left;
}

void LocalWorld::fail_all(const std::string& line) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failed()) set_failure(-1, line);
  }
  notify_all();
}

void LocalWorld::fail_rank(int rank, const std::string& message) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failed()) set_failure(rank, message);
    end(rank);
  }
  notify_all();
}

int LocalWorld::first_failed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failed() ? failed_rank_ : -1;
}

void LocalWorld::raise(int rank, const std::string& where) const {
  std::string line;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    line = failure_;
    if (failed_rank_ >= 0) {
      line = where + ": rank " + std::to_string(failed_rank_) + " failed, rank " +
             std::to_string(rank) + " cannot go on: " + failure_;
    }
  }
  throw Error(line);
}

void LocalWorld::finish(int rank) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    end(rank);
  }
  notify_all();
}

std::string LocalWorld::waiting(int rank) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Rank& it = rank_of(rank);
  return it.asleep ? it.waiting() : "";
}

std::shared_ptr<LocalGroup> LocalWorld::group(const GroupKey& key,
                                              const std::vector<int>& world_ranks,
                                              const std::string& axis) {
  const std::lock_guard<std::mutex> lock(groups_mutex_);
  NewGroup& made = new_groups_[key];
  if (!made.group) made.group = std::make_shared<LocalGroup>(world_ranks, axis);
  const std::shared_ptr<LocalGroup> group = made.group;
  if (++made.asked == world_ranks.size()) new_groups_.erase(key);
  return group;
}

}  // namespace hero::dist
