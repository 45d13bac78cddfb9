#pragma once
// An upstream of the caching allocator over the host's memory, with streams whose work the test
// says is done.
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <hero/cuda/runtime/caching_allocator.h>

namespace hero_test {

/// What tests of the allocator call with, for `using namespace`.
namespace on_host {

inline constexpr int64_t kMiB = 1 << 20;
inline int streams[3];
inline const hero::cuda::StreamId kA = &streams[0], kB = &streams[1];

}  // namespace on_host

class HostUpstream final : public hero::cuda::Upstream {
 public:
  explicit HostUpstream(int64_t limit = int64_t{1} << 40) : limit_(limit) {}

  void* allocate(int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (held_ + bytes > limit_) return nullptr;
    void* segment = std::aligned_alloc(512, static_cast<size_t>((bytes + 511) / 512 * 512));
    segments_[static_cast<std::byte*>(segment)] = bytes;
    held_ += bytes;
    return segment;
  }
  bool free(void* segment) noexcept override {
    const std::lock_guard lock(mutex_);
    if (!may_free) return false;
    const auto found = segments_.find(static_cast<std::byte*>(segment));
    held_ -= found->second;
    segments_.erase(found);
    owners_.erase(segment);
    std::free(segment);
    return true;
  }
  hero::cuda::EventId record(hero::cuda::StreamId stream) noexcept override {
    const std::lock_guard lock(mutex_);
    ++events_;
    return new Event{stream, ++clocks_[stream].asked};
  }
  bool passed(hero::cuda::EventId event) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto* e = static_cast<Event*>(event);
    return clocks_[e->stream].done >= e->at;
  }
  void wait(hero::cuda::EventId event) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto* e = static_cast<Event*>(event);
    Clock& clock = clocks_[e->stream];
    if (!may_free) return;
    if (clock.done < e->at) clock.done = e->at;
  }
  void drop(hero::cuda::EventId event) noexcept override {
    const std::lock_guard lock(mutex_);
    --events_;
    delete static_cast<Event*>(event);
  }
  bool before_free() noexcept override {
    if (opens) may_free = closes_again-- <= 0;
    return may_free || opens;
  }
  std::string describe() override { return "host (a test)"; }

  bool may_free = true;
  bool opens = false;    // to whoever waits for it
  int closes_again = 0;  // so many times before he has freed anything

  /// The stream has done all that it was asked for.
  void finish(hero::cuda::StreamId stream) {
    const std::lock_guard lock(mutex_);
    clocks_[stream].done = clocks_[stream].asked;
  }
  int64_t asked(hero::cuda::StreamId stream) {
    const std::lock_guard lock(mutex_);
    return clocks_[stream].asked;
  }
  int64_t done(hero::cuda::StreamId stream) {
    const std::lock_guard lock(mutex_);
    return clocks_[stream].done;
  }
  int64_t held() {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  int64_t events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  /// Whether all bytes lie in one segment, and its first user was this stream, too.
  bool belongs(const void* block, int64_t bytes, hero::cuda::StreamId stream) {
    const std::lock_guard lock(mutex_);
    auto* at = static_cast<const std::byte*>(block);
    auto segment = segments_.upper_bound(const_cast<std::byte*>(at));
    if (segment == segments_.begin()) return false;
    --segment;
    if (at + bytes > segment->first + segment->second) return false;
    return owners_.emplace(segment->first, stream).first->second == stream;
  }

 private:
  struct Event {
    hero::cuda::StreamId stream;
    int64_t at;
  };
  struct Clock {
    int64_t asked = 0, done = 0;
  };
  std::mutex mutex_;
  int64_t limit_, held_ = 0, events_ = 0;
  std::map<std::byte*, int64_t> segments_;
  std::map<void*, hero::cuda::StreamId> owners_;
  std::map<hero::cuda::StreamId, Clock> clocks_;
};

}  // namespace hero_test
