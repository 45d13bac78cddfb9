#pragma once
// The watch over all that a rank's communicators were asked for, until it is done.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <hero/core/device.h>
#include <hero/dist/backends/nccl/watchdog.h>
#include <hero/dist/backends/timeouts.h>

namespace hero::dist::nccl {

class Comm;

/// [note: watched to the end] A call that all ranks have asked for may still never be done: a link
/// goes down, a GPU stops, and no host hears of it. So the watchdog looks at each call until the
/// event behind it is reached, and at what NCCL's own threads say of the communicator. Where a call
/// could have been done for as long as its time-out, or NCCL reports an error, or another rank has
/// failed and the calls do not end for seconds, all communicators of the rank are aborted: at once,
/// each by a thread of its own, since an abort gives memory back and so waits for the device, on
/// which another communicator's call may stand still. That frees the streams, and what they then
/// hold is no result: so check() throws the reason, with the oldest call that was not done, in
/// whatever the rank does next, and behind every wait of the host for the device that was under way
/// (cuda/runtime/before_wait.cuh).
class RankWatch final : public Watched {
 public:
  /// `who`: the rank, for the line that tells of a time-out. `failed`: whether a rank of the world
  /// has failed; any thread may ask; or empty.
  RankWatch(Device device, std::string who, const Timeouts& timeouts, std::function<bool()> failed);
  ~RankWatch() override { end(); }

  void add(Comm& comm);
  /// Returns when no thread uses the communicator any more.
  void remove(Comm& comm);
  /// A number for the rank's next call.
  uint64_t next() { return next_++; }

  /// Any thread: an Error with the reason where the communicators were given up.
  void check() const;
  bool given_up() const { return given_up_; }
  /// Returns when all calls are done for which all ranks have asked; throws as check().
  void wait_until_done();
  /// The rank itself gives up: aborts all, at once, when the calls are done for which all ranks
  /// have asked, or at the latest at `deadline`.
  void abort_all(std::chrono::steady_clock::time_point deadline) noexcept;

 private:
  bool in_vain(Clock::time_point now) override;
  void abort() override;
  bool holds(int) const override { return false; }
  /// Returns when of no communicator `left` is true, at the latest at `deadline`, or when they are
  /// given up.
  void wait_while(bool (*left)(Comm&), Clock::time_point deadline);

  const Device device_;
  const std::string who_;
  const Timeouts timeouts_;
  const std::function<bool()> failed_;
  std::atomic<uint64_t> next_ = 1;
  std::mutex mutex_;  // of the list, and of the use of what is in it
  std::vector<Comm*> comms_;
  std::optional<Clock::time_point> failed_since_;
  mutable std::mutex reason_mutex_;
  std::string reason_;
  std::atomic<bool> given_up_ = false;
};

}  // namespace hero::dist::nccl
