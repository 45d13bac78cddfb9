#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <hero/cuda/runtime/device_memory.cuh>
#include <hero/dist/backends/nccl/rank_watch.h>
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
    decided_.wait(lock, [&] {
      return watched->state_ != State::looked_at && watched->state_ != State::aborting;
    });
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
      const cuda::Uncaptured looks;  // while another thread captures
      for (;; std::this_thread::sleep_for(kLook)) look();
    }).detach();
  }

  // Calls of other communicators come and go meanwhile: the device may take a while to answer.
  void look() {
    std::unique_lock lock(mutex_);
    const std::vector<Watched*> all = open_;
    for (Watched* const watched : all) {
      const bool there = std::find(open_.begin(), open_.end(), watched) != open_.end();
      if (!there || watched->state_ != State::open) continue;
      watched->state_ = State::looked_at;
      lock.unlock();
      const bool in_vain = watched->in_vain(Clock::now());
      lock.lock();
      watched->state_ = in_vain ? State::aborting : State::open;
      decided_.notify_all();
      if (!in_vain) continue;
      lock.unlock();
      try {
        std::thread([this, watched] { abort(watched); }).detach();
      } catch (const std::system_error&) {
        abort(watched);  // there is no thread to be had
      }
      lock.lock();
    }
  }

  void abort(Watched* watched) {
    watched->abort();
    const std::lock_guard lock(mutex_);
    watched->state_ = State::aborted;
    decided_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable decided_;
  std::vector<Watched*> open_;
};

void Watched::begin() { Watchdog::get().add(this); }
bool Watched::end() { return Watchdog::get().remove(this); }

Watch::Watch(const Library& library, ncclComm_t comm, const Terms& terms, Phase phase)
    : library_(library),
      comm_(comm),
      terms_(terms),
      deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(terms.timeouts.of(phase)))) {
  begin();
}

bool Watch::in_vain(Clock::time_point now) {
  return deadline_ < now || (terms_.failed && terms_.failed()) || terms_.watch->given_up();
}

void Watch::abort() { library_.CommAbort(comm_); }

CallWatch::CallWatch(std::shared_ptr<Pending> statement, Comm& comm, uint64_t number)
    : statement_(std::move(statement)), comm_(comm), number_(number) {
  begin();
}

bool CallWatch::in_vain(Clock::time_point) {
  if (!statement_->complete()) return statement_->in_vain(since_);
  comm_.calls().agree(number_);  // whether or not the rank's thread ever asks
  return false;
}

void wait_until_known(int device) {
  while (Watchdog::get().holds(device)) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace hero::dist::nccl
