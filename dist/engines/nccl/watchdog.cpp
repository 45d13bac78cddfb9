#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <hero/dist/engines/nccl/watchdog.h>

namespace hero::dist::nccl {

using Clock = std::chrono::steady_clock;

class Watchdog {
 public:
  // Never freed: its thread lives as long as the process.
  static Watchdog& get() {
    static auto& only = *new Watchdog;
    return only;
  }

  void add(Watch* watch) {
    const std::lock_guard lock(mutex_);
    open_.push_back(watch);
  }

  bool remove(Watch* watch) {
    std::unique_lock lock(mutex_);
    aborted_.wait(lock, [&] { return watch->state_ != Watch::State::aborting; });
    std::erase(open_, watch);
    if (watch->state_ == Watch::State::open) watch->state_ = Watch::State::ended;
    return watch->state_ == Watch::State::aborted;
  }

 private:
  // Nobody wakes the thread: that would cost every call more than the looks of all cost together.
  static constexpr auto kLook = std::chrono::milliseconds(20);

  Watchdog() {
    std::thread([this] {
      for (;; std::this_thread::sleep_for(kLook)) look();
    }).detach();
  }

  void look() {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto late = std::find_if(open_.begin(), open_.end(), [now = Clock::now()](Watch* w) {
        return w->state_ == Watch::State::open && w->in_vain(now);
      });
      if (late == open_.end()) return;
      Watch* const watch = *late;
      watch->state_ = Watch::State::aborting;
      lock.unlock();  // it may take a while, and other communicators' calls go on
      watch->library_.CommAbort(watch->comm_);
      lock.lock();
      watch->state_ = Watch::State::aborted;
      aborted_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable aborted_;
  std::vector<Watch*> open_;
};

Watch::Watch(const Library& library, ncclComm_t comm, const Terms& terms)
    : library_(library),
      comm_(comm),
      terms_(terms),
      deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(terms.timeout))) {
  Watchdog::get().add(this);
}

bool Watch::end() { return Watchdog::get().remove(this); }

}  // namespace hero::dist::nccl
