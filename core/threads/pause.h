#pragma once
#include <thread>

namespace hero::core {

/// Lets a thread that waits awake do nothing for some dozens of cycles, so that its neighbour on
/// the same core, and the memory it looks at, have rest from it.
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
