#include <algorithm>

#include <hero/core/error.h>
#include <hero/dist/backends/throttled_link.h>
#include <hero/dist/traffic.h>

namespace hero::dist {

ThrottledLink::ThrottledLink(int ranks, double rate)
    : rate_(rate), free_(static_cast<size_t>(ranks)) {
  check(rate >= 0, "run_ranks: a negative rate of the link: ", rate);
}

ThrottledLink::Clock::time_point ThrottledLink::leave(std::span<const Call> calls,
                                                      std::span<const int> ranks) {
  Clock::time_point due{};
  if (rate_ == 0) return due;
  const std::lock_guard<std::mutex> lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (size_t i = 0; i < calls.size(); ++i) {
    const int64_t bytes = bytes_sent(calls[i], static_cast<int>(i), static_cast<int>(calls.size()));
    if (bytes == 0) continue;
    const std::chrono::duration<double> seconds(static_cast<double>(bytes) / rate_);
    Clock::time_point& free = free_[static_cast<size_t>(ranks[i])];
    free = std::max(free, now) + std::chrono::ceil<Clock::duration>(seconds);
    due = std::max(due, free);
  }
  return due;
}

}  // namespace hero::dist
