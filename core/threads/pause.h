#pragma once
#include <thread>

namespace hero::core {

/// Stops a busy-waiting thread for some dozens of cycles, so that it takes less from the other
/// thread of its core and from the memory that it polls.
inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on processors with one thread a core
#else
  std::this_thread::yield();
#endif
}

}  // namespace hero::core
