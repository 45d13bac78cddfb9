#pragma once
#include <atomic>
#include <cstdint>

namespace hero::detail {

/// A mutex of one byte, which every tensor has: threads that run backward through shared leaves
/// take turns at each leaf. A waiting thread sleeps.
class LeafLock {
 public:
  LeafLock() = default;
  LeafLock(const LeafLock&) = delete;
  LeafLock& operator=(const LeafLock&) = delete;

  void lock() {
    uint8_t seen = kFree;
    if (!state_.compare_exchange_strong(seen, kHeld, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) [[unlikely]]
      state_.notify_one();
  }

 private:
  static constexpr uint8_t kFree = 0, kHeld = 1, kWaitedFor = 2;

  void wait() {
    // Who was asleep cannot know whether others still are, so it leaves the word for them.
    while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree) {
      state_.wait(kWaitedFor, std::memory_order_relaxed);
    }
  }

  std::atomic<uint8_t> state_ = kFree;
};

/// Holds the lock while it lives.
class LeafTurn {
 public:
  explicit LeafTurn(LeafLock& lock) : lock_(lock) { lock_.lock(); }
  ~LeafTurn() { lock_.unlock(); }
  LeafTurn(const LeafTurn&) = delete;
  LeafTurn& operator=(const LeafTurn&) = delete;

 private:
  LeafLock& lock_;
};

}  // namespace hero::detail
