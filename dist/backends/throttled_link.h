#pragma once
// ThrottledLink: a simulated slow network. It delays the calls of ranks on one machine, so that you
// can see how long a step would take on a network.
#include <chrono>
#include <mutex>
#include <span>
#include <vector>

#include <hero/dist/backends/call.h>

namespace hero::dist {

/// Every rank has one outgoing link of `rate` bytes per second. The bytes that a rank sends (see
/// Traffic) leave one call after the other, in the order in which the last ranks of the calls
/// arrived.
class ThrottledLink {
 public:
  using Clock = std::chrono::steady_clock;

  /// `rate` 0: no link; everything leaves at once.
  ThrottledLink(int ranks, double rate);

  /// Called when the last rank of a call has arrived, with the statements of all its ranks. Returns
  /// the time at which the last byte of the call will have left its rank. `ranks[i]` is the world
  /// rank of calls[i].
  Clock::time_point leave(std::span<const Call> calls, std::span<const int> ranks);

 private:
  const double rate_;
  std::mutex mutex_;
  // The time at which each rank's outgoing link is free again.
  std::vector<Clock::time_point> free_;
};

}  // namespace hero::dist
