#pragma once
// A thread with a small stack, on which whatever recurses for each level of its input ends.
#include <exception>
#include <functional>
#include <stdexcept>

#include "support/sanitized.h"
#include <pthread.h>

namespace hero_test {

/// Runs `body` on a thread with a stack of 256 KiB, or 2 MiB where a sanitizer makes frames larger;
/// what it throws is thrown again here.
inline void on_small_stack(const std::function<void()>& body) {
  struct Call {
    const std::function<void()>& body;
    std::exception_ptr error;
  } call{body, nullptr};
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kIsSanitized ? 2 << 20 : 256 << 10);
  pthread_t thread{};
  const int failed = ::pthread_create(
      &thread, &attributes,
      [](void* argument) -> void* {
        auto& given = *static_cast<Call*>(argument);
        try {
          given.body();
        } catch (...) {
          given.error = std::current_exception();
        }
        return nullptr;
      },
      &call);
  ::pthread_attr_destroy(&attributes);
  if (failed != 0) throw std::runtime_error("no thread");
  ::pthread_join(thread, nullptr);
  if (call.error) std::rethrow_exception(call.error);
}

}  // namespace hero_test
