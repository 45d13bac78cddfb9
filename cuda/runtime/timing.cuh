#pragma once
// The time of work on the current stream, by the device's clock.
#include <algorithm>

#include <hero/cuda/cuda.h>
#include <hero/cuda/runtime/per_device.cuh>

namespace hero::cuda {

/// A time is the least of this many measurements, since the clock rate rises and other work
/// interferes.
inline constexpr int kTimedRounds = 2;

/// The milliseconds of four runs.
template <class Run>
double time_of(const char* op, const Run& run) {
  const Stream stream = Stream::current(current_cuda(op));
  Event begin(true), end(true);
  begin.record(stream);
  for (int i = 0; i < 4; ++i) run();
  end.record(stream);
  end.synchronize();
  return end.elapsed_ms(begin);
}

/// The least time_of() after one warm-up run.
template <class Run>
double least_time(const char* op, const Run& run) {
  run();
  double least = time_of(op, run);
  for (int round = 1; round < kTimedRounds; ++round) least = std::min(least, time_of(op, run));
  return least;
}

}  // namespace hero::cuda
