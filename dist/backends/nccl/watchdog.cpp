#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <hero/dist/backends/nccl/watchdog.h>

namespace hero::dist::nccl {

using Clock = std::chrono::steady_clock;

class Watchdog {
 public:
  // Never freed: its thread lives as long as the process.
  static Watchdog& get() {
    static auto& only = *new Watchdog;
    return only;
  }

  void add(Watched* watched) {
    const std::lock_guard lock(mutex_);
    watched->state_ = State::open;
    open_.push_back(watched);
  }

  bool remove(Watched* watched) {
    std::unique_lock lock(mutex_);
    decided_.wait(lock, [&] { return watched->state_ != State::aborting; });
    std::erase(open_, watched);
    if (watched->state_ == State::open) watched->state_ = State::ended;
    return watched->state_ == State::aborted;
  }

  bool holds(int device) {
    const std::lock_guard lock(mutex_);
    return std::any_of(open_.begin(), open_.end(), [device](const Watched* watched) {
      return watched->state_ != State::aborted && watched->holds(device);
    });
  }

 private:
  using State = Watched::State;
  // Nobody wakes the thread: that would cost every call more than the looks of all cost together.
  static constexpr auto kLook = std::chrono::milliseconds(20);

  Watchdog() {
    std::thread([this] {
      for (;; std::this_thread::sleep_for(kLook)) look();
    }).detach();
  }

  void look() {
    std::unique_lock lock(mutex_);
    std::vector<Watched*> late;
    for (Watched* const watched : open_) {
      if (watched->state_ != State::open || !watched->in_vain(Clock::now())) continue;
      watched->state_ = State::aborting;
      late.push_back(watched);
    }
    for (Watched* const watched : late) {
      lock.unlock();  // it may take a while, and other communicators' calls go on
      const bool aborted = watched->abort();
      lock.lock();
      watched->state_ = aborted ? State::aborted : State::open;
      decided_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable decided_;
  std::vector<Watched*> open_;
};

void Watched::begin() { Watchdog::get().add(this); }
bool Watched::end() { return Watchdog::get().remove(this); }

Watch::Watch(const Library& library, ncclComm_t comm, const Terms& terms)
    : library_(library),
      comm_(comm),
      terms_(terms),
      deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(terms.timeouts.step))) {
  begin();
}

bool Watch::abort() {
  library_.CommAbort(comm_);
  return true;
}

CallWatch::CallWatch(std::shared_ptr<Pending> statement, Comm& comm)
    : statement_(std::move(statement)), comm_(comm) {
  begin();
}

void wait_until_known(int device) {
  while (Watchdog::get().holds(device)) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace hero::dist::nccl
