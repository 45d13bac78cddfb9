#pragma once
// Work on several threads at once, whose errors reach the test.
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace hero::test {

/// Calls work(0) ... work(count - 1), each on a thread of its own; all begin together. Throws what
/// one of them threw.
template <class Work>
void on_threads(int count, const Work& work) {
  std::atomic<int> missing = count;
  std::mutex mutex;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      --missing;
      while (missing.load() > 0) std::this_thread::yield();
      try {
        work(i);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace hero::test
