#pragma once
// What a communicator's stream was asked for and has not done.
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <hero/core/exchange.h>
#include <hero/dist/backends/call.h>

namespace hero::dist::nccl {

/// A call of which NCCL was asked for this rank's part.
struct DeviceCall {
  uint64_t number = 0;                             ///< of the rank's calls, in the order asked for
  std::string where;                               ///< "all_reduce (call 3 of 'world', unit 'fc1')"
  Phase phase = Phase::step;                       ///< by which its time-out goes
  std::shared_ptr<core::DeviceEvent> ready, done;  ///< before and behind it in the stream
  FlightEntry flight = {};                         ///< which is told when it begins and ends there
};

/// The calls of one communicator that are not known to be done, oldest first. Any thread.
class DeviceCalls {
 public:
  void add(DeviceCall call);
  /// All ranks have asked for the call of that number, and so for those before it.
  void agree(uint64_t number);

  /// The oldest call that is not done.
  struct Oldest {
    uint64_t number = 0;
    std::string where;
    Phase phase = Phase::step;
    double seconds = 0.0;  ///< in which it could have been done: see look()
  };
  /// Looks at the device. A call could be done from the first look on that found the call before it
  /// done, its own place in the stream reached, and that all ranks have asked for it.
  std::optional<Oldest> look();
  /// Whether a call for which all ranks have asked is not done. Looks at the device.
  bool agreed_left();

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    DeviceCall call;
    bool agreed = false, begun = false;
    std::optional<Clock::time_point> since = {};
  };
  void forget_done();  // under the mutex
  std::mutex mutex_;
  std::deque<Open> open_;
};

}  // namespace hero::dist::nccl
