#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/engines/mpi/progress.h>
#include <hero/dist/engines/mpi/world.h>

namespace hero::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kNap = std::chrono::milliseconds(20);     // between two looks at the time-out
constexpr auto kStuck = std::chrono::milliseconds(250);  // less than from SIGTERM to SIGKILL

std::atomic<MpiWorld*> current_world{nullptr};

// Runs are numbered alike on all ranks: messages of one that is over are known by it.
uint64_t next_number() {
  static std::atomic<uint64_t> number{0};
  return ++number;
}

}  // namespace

MpiWorld::MpiWorld(Transport& transport, double timeout, Report report)
    : rank_(transport.rank()),
      size_(transport.size()),
      timeout_(timeout),
      number_(next_number()),
      report_(std::move(report)),
      progress_(std::make_unique<MpiProgress>(*this, transport)) {
  thread_ = std::thread([this] { progress_->run(); });
  current_world = this;
}

MpiWorld::~MpiWorld() {
  if (thread_.joinable()) thread_.join();
}

void MpiWorld::post(const std::shared_ptr<MpiCall>& call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    check(!over_, call->where(), ": the run has ended");
    if (!failure_) {
      posted_.push_back(call);
      work_.notify_one();
      return;
    }
  }
  raise(call->where());
}

void MpiWorld::wait(MpiCall& call) {
  const Clock::time_point start = Clock::now();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    waiting_ = &call;
    std::optional<Clock::time_point> stopped;
    while (call.state.load() == MpiCall::kBegun) {
      completed_.wait_for(lock, kNap);
      const std::chrono::duration<double> waited = Clock::now() - start;
      if (waited.count() >= timeout_) call.overdue.store(true);
      // The thread that makes progress answers, unless MPI does not come back to it: Open MPI asks
      // its mpirun to print something where a connection is reset, and waits.
      if (StopSignal::came() && !stopped) stopped = Clock::now();
      if (stopped && Clock::now() - *stopped > kStuck) {
        StopSignal::obey(report_, rank_, call.where() + ", where MPI hangs");
      }
    }
    waiting_ = nullptr;
  }
  if (call.state.load() == MpiCall::kFailed) raise(call.where());
}

void MpiWorld::wait_until_complete(const std::vector<std::shared_ptr<MpiCall>>& calls) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (const auto& call : calls) {
    completed_.wait(lock, [&] { return call->state.load() != MpiCall::kBegun; });
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
    ended_ = true;
    if (thrown != nullptr) ended_with_ = *thrown;
    work_.notify_one();
    completed_.wait(lock, [&] { return over_; });
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
