#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/mpi/progress.h>
#include <hero/dist/backends/mpi/world.h>

namespace hero::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kDriverNap = std::chrono::milliseconds(20);  // of a thread that another works for
constexpr auto kBusyPause = std::chrono::microseconds(500);
constexpr auto kIdlePause = std::chrono::microseconds(2000);
constexpr auto kStuck = std::chrono::milliseconds(250);  // less than from SIGTERM to SIGKILL

std::atomic<MpiWorld*> current_world{nullptr};

// Runs have the same numbers on all ranks, by which messages of a run that has ended are
// recognised.
uint64_t next_number() {
  static std::atomic<uint64_t> number{0};
  return ++number;
}

std::chrono::microseconds pause_after(int looks, std::chrono::microseconds most) {
  return std::min(most, std::chrono::microseconds(20) * looks);
}

// Whether so many threads of each rank of this host have cores of their own.
bool have_cores(const Transport& transport, int threads) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return transport.local_size() * threads <= cores;
}

}  // namespace

MpiWorld::MpiWorld(Transport& transport, const Timeouts& timeouts, Report report)
    : rank_(transport.rank()),
      size_(transport.size()),
      hosts_(transport.hosts()),
      timeouts_(timeouts),
      number_(next_number()),
      report_(std::move(report)),
      yields_(have_cores(transport, 1) ? 200 : 20),
      thread_yields_(have_cores(transport, 2) ? 200 : 20),
      progress_(std::make_unique<MpiProgress>(*this, transport)) {
  thread_ = std::thread([this] { run(); });
  current_world = this;
}

MpiWorld::~MpiWorld() {
  if (thread_.joinable()) thread_.join();
}

void MpiWorld::post(const std::shared_ptr<MpiCall>& call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (over_) fail(call->where(), ": the run has ended");
    if (!failure_) {
      posted_.push_back(call);
      if (!call->call.awaited) work_.notify_one();
      return;
    }
  }
  raise(call->where());
}

// [note: who makes progress]
// A rank's thread that waits makes progress itself: what is handed from one thread to another takes
// longer than a short message. The thread of progress does so while the rank computes, and sleeps
// else; but a call into MPI may not come back (Open MPI asks its mpirun to print something where a
// connection is reset, and waits), and then the other thread says so where the process is stopped.
void MpiWorld::run() {
  std::optional<Clock::time_point> stopped;
  for (int idle = 0;;) {
    if (driven_.load() || !drive_.try_lock()) {
      watch_driver(stopped);
      std::unique_lock<std::mutex> lock(mutex_);
      work_.wait_for(lock, kDriverNap, [&] { return !driven_.load(); });
      continue;
    }
    const bool moved = progress_->step();
    const bool busy = progress_->busy(), over = progress_->over();
    drive_.unlock();
    if (over) break;
    idle = moved ? 0 : idle + 1;
    if (idle <= thread_yields_) {
      if (!moved) std::this_thread::yield();
      continue;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    work_.wait_for(lock, pause_after(idle - thread_yields_, busy ? kBusyPause : kIdlePause),
                   [&] { return !posted_.empty() || threw_ || ending_; });
  }
  progress_->keep_early();
}

void MpiWorld::wait(MpiCall& call) {
  const Clock::time_point start = Clock::now();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_ = &call;
  }
  driven_.store(true);
  bool busy = false;
  {
    std::optional<Clock::time_point> stopped;
    std::unique_lock<std::timed_mutex> drive(drive_, std::defer_lock);
    while (!drive.try_lock_for(kDriverNap)) watch_driver(stopped);
    for (int idle = 0; call.state.load() == MpiCall::kBegun;) {
      const bool moved = progress_->step();
      look_at_time(call, start);
      idle = moved ? 0 : idle + 1;
      if (!moved) pause(idle);
    }
    busy = progress_->busy();
  }
  driven_.store(false);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_ = nullptr;
  }
  if (busy) work_.notify_one();
  if (call.state.load() == MpiCall::kFailed) raise(call.where());
}

void MpiWorld::look_at_time(MpiCall& call, Clock::time_point since) const {
  const std::chrono::duration<double> waited = Clock::now() - since;
  if (waited.count() >= timeouts_.of(call.call.phase)) call.overdue.store(true);
}

// [note: how one waits for messages]
// MPI has nothing to sleep on, so one looks again and again: at first yielding, as the next message
// is often near, then with pauses that grow. Where there are more ranks than cores
// one soon sleeps, and whoever has work gets the core. What the own rank begins wakes the thread of
// progress.
void MpiWorld::pause(int idle) const {
  if (idle <= yields_) return std::this_thread::yield();
  std::this_thread::sleep_for(pause_after(idle - yields_, kBusyPause));
}

// Says, for a thread that cannot make progress itself, where the process was stopped if who does
// does not say so.
void MpiWorld::watch_driver(std::optional<Clock::time_point>& stopped) const {
  watch_library();
  if (!StopSignal::came()) return;
  if (!stopped) stopped = Clock::now();
  if (Clock::now() - *stopped <= kStuck) return;
  std::string where;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_ != nullptr) where = waiting_->where() + ", where MPI hangs";
  }
  StopSignal::obey(report_, rank_, where);
}

void MpiWorld::wait_until_complete(const std::vector<std::shared_ptr<MpiCall>>& calls) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (const auto& call : calls) {
    const auto complete = [&] { return call->state.load() != MpiCall::kBegun; };
    while (!completed_.wait_for(lock, kDriverNap, complete)) {
      lock.unlock();
      watch_library();
      lock.lock();
    }
  }
}

void MpiWorld::raise(const std::string& where) const {
  std::string line;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    line = failure_->line;
    if (failure_->rank >= 0) {
      line = where + ": rank " + std::to_string(failure_->rank) + " failed, rank " +
             std::to_string(rank_) + " cannot go on: " + line;
    }
  }
  throw Error(line);
}

void MpiWorld::fail_rank(const std::string& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  threw_ = message;
  work_.notify_one();
}

std::optional<Failure> MpiWorld::end(const std::string* thrown) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_ = ending_ = true;
    if (thrown != nullptr) ended_with_ = *thrown;
    work_.notify_one();
    while (!completed_.wait_for(lock, kDriverNap, [&] { return over_; })) {
      lock.unlock();
      watch_library();
      lock.lock();
    }
  }
  thread_.join();
  current_world = nullptr;
  return outcome_;
}

// [note: a process that ends early]
// A program may call exit() in the middle of its run. Then this is called while the other ranks
// wait: they are told as if the program had thrown.
void end_with_process() {
  MpiWorld* const world = current_world.exchange(nullptr);
  if (world == nullptr) return;
  const std::string message = "the process exits before its program has ended";
  world->fail_rank(message);
  world->end(&message);
}

}  // namespace hero::dist
