#pragma once
// A throttled link, to see on one machine what a network would leave of a step: it delays, it does
// not compute.
#include <chrono>
#include <mutex>
#include <span>
#include <vector>

#include <hero/dist/backends/call.h>

namespace hero::dist {

/// Every rank has one way out, `rate` bytes per second wide: the bytes that it sends (see Traffic)
/// leave one after the other, in the order in which its calls have found all their ranks.
class Link {
 public:
  using Clock = std::chrono::steady_clock;

  /// `rate` 0: no link; everything leaves at once.
  Link(int ranks, double rate);

  /// Called when the last party of a call has arrived, with all their statements: when the last
  /// byte of any of them will have left. `ranks[i]` is the world's number of the rank of calls[i].
  Clock::time_point leave(std::span<const Call> calls, std::span<const int> ranks);

 private:
  const double rate_;
  std::mutex mutex_;
  std::vector<Clock::time_point> free_;  // when each rank's way out is free again
};

}  // namespace hero::dist
