#pragma once
// How the processor time of some work grows with its size: of lists that are searched or copied for
// each of their items. What costs less than that, and every cost in instructions, is what
// tests/bench/growth measures.
#include <algorithm>
#include <ctime>
#include <functional>

namespace hero_test {

inline constexpr double kLinear = 40.0;

/// Seconds of the processor that the work takes on this thread: other programs on the machine do
/// not count.
inline double thread_seconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

/// How many times as long the work of 8 n takes as that of n, in the fastest of three runs, fewer
/// where one is linear: 8 where it is linear, 64 where it is quadratic. kLinear leaves what it
/// costs that the larger one does not fit into caches. `prepare` makes what the work needs, which
/// is not measured.
inline double growth_to_eightfold(int n,
                                  const std::function<std::function<void()>(int size)>& prepare) {
  const auto few = prepare(n);
  double small = thread_seconds(few);
  for (int i = 0; i < 4; ++i) small = std::min(small, thread_seconds(few));
  const auto many = prepare(8 * n);
  double growth = thread_seconds(many) / small;
  for (int i = 0; i < 2 && growth >= kLinear; ++i) {
    growth = std::min(growth, thread_seconds(many) / small);
  }
  return growth;
}

}  // namespace hero_test
