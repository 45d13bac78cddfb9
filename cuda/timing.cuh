#pragma once
// How long work takes on the current stream, by the device's clock.
#include <algorithm>

#include <hero/cuda/runtime.cuh>

namespace hero::cuda {

/// An event that has a time.
class TimedEvent {
 public:
  explicit TimedEvent(const char* op) : op_(op) {
    check_cuda(cudaEventCreateWithFlags(&event_, 0), op);
  }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record() { check_cuda(cudaEventRecord(event_, current_stream()), op_); }
  /// Milliseconds from `begin`; waits for both.
  float since(const TimedEvent& begin) const {
    float milliseconds = 0.0f;
    check_cuda(cudaEventSynchronize(event_), op_);
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.event_, event_), op_);
    return milliseconds;
  }

 private:
  const char* op_;
  cudaEvent_t event_ = nullptr;
};

/// Times are the least of so many, since clocks rise and other work comes between.
inline constexpr int kTimedRounds = 2;

/// Milliseconds of four runs.
template <class Run>
float time_of(const char* op, const Run& run) {
  TimedEvent begin(op), end(op);
  begin.record();
  for (int i = 0; i < 4; ++i) run();
  end.record();
  return end.since(begin);
}

/// The least time_of() after one run that does not count.
template <class Run>
float least_time(const char* op, const Run& run) {
  run();
  float least = time_of(op, run);
  for (int round = 1; round < kTimedRounds; ++round) least = std::min(least, time_of(op, run));
  return least;
}

}  // namespace hero::cuda
