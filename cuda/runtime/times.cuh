#pragma once
// Where the GPU's time goes: a pair of events around whatever is launched, and ranges for NVIDIA's
// profilers.
#include <atomic>

#include <hero/cuda/runtime/runtime.cuh>

namespace hero::cuda {

/// What stands around each launch: HERO_CUDA_TIMES=1 asks for the first, HERO_CUDA_NVTX=1 for the
/// second.
inline constexpr unsigned kEvents = 1, kRanges = 2;
extern std::atomic<unsigned> watched_launches;

/// Whoever draws ranges: null where nobody does.
struct Ranges {
  void (*open)(const char* name) = nullptr;
  void (*close)() = nullptr;
};
/// Replaces NVTX's, for tests.
void set_ranges(const Ranges& ranges);

/// Stands around the calls that give an operation's work to the current stream: the operation is
/// noted for errors that come later, and its time is taken where that was asked for. Work that is
/// captured is timed in its replay, as a whole.
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
