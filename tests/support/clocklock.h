#pragma once
// The thread sanitizer of g++ 12 does not know pthread_mutex_clocklock(), by which the standard
// library locks a timed_mutex for a while: it takes what such a lock guards for a race. Where it
// looks on, programs that include this lock by pthread_mutex_timedlock(), which it knows.
#if defined(__SANITIZE_THREAD__)
#include <cstdint>
#include <ctime>

#include <pthread.h>

extern "C" inline __attribute__((used)) int pthread_mutex_clocklock(pthread_mutex_t* mutex,
                                                                    clockid_t clock,
                                                                    const timespec* end) noexcept {
  constexpr int64_t kSecond = 1'000'000'000;
  timespec there{}, here{};
  ::clock_gettime(clock, &there);
  ::clock_gettime(CLOCK_REALTIME, &here);
  const int64_t time = (end->tv_sec - there.tv_sec + here.tv_sec) * kSecond + end->tv_nsec -
                       there.tv_nsec + here.tv_nsec;
  const timespec until{time / kSecond, time % kSecond};
  return ::pthread_mutex_timedlock(mutex, &until);
}
#endif
