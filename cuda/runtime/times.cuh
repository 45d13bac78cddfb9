#pragma once
// Where the GPU's time goes: a pair of events around every launch, and ranges for NVIDIA's
// profilers.
#include <atomic>

#include <hero/cuda/runtime/runtime.cuh>

namespace hero::cuda {

/// What is recorded around each launch: events with HERO_CUDA_TIMES=1, ranges with
/// HERO_CUDA_NVTX=1.
inline constexpr unsigned kEvents = 1, kRanges = 2;
extern std::atomic<unsigned> watched_launches;

/// The object that makes ranges; null if there is none.
struct Ranges {
  void (*open)(const char* name) = nullptr;
  void (*close)() = nullptr;
};
/// Replaces the one of NVTX, for tests.
void set_ranges(const Ranges& ranges);

/// Lives around the calls that queue an operation's work in the current stream: the operation is
/// noted for errors that come later, and its time is measured if that is on. Captured work is timed
/// as a whole in its replay.
class Launching {
 public:
  explicit Launching(const char* op) {
    note_launch(op);
    if (watched_launches.load(std::memory_order_relaxed) != 0) [[unlikely]]
      open(op);
  }
  ~Launching() {
    if (mark_ || ranges_ > 0) [[unlikely]]
      close();
  }
  Launching(const Launching&) = delete;
  Launching& operator=(const Launching&) = delete;

 private:
  struct Mark;
  friend struct LaunchTimes;
  void open(const char* op);
  void close() noexcept;

  Mark* mark_ = nullptr;
  int ranges_ = 0;
};

}  // namespace hero::cuda
