#pragma once
// Which cores of the machine a thread runs on.
#include <vector>

namespace hero::core {

/// The numbers of the cores on which the calling thread may run, ascending. While an OnCore of this
/// thread lives, they are the cores from before it.
std::vector<int> usable_cores();

/// While it lives, the thread that made it runs on one core only, and no longer wherever the system
/// happens to wake it. Threads that the pool starts meanwhile may run on all usable cores. A thread
/// can have one at a time. Throws an Error if the system refuses.
class OnCore {
 public:
  explicit OnCore(int core);
  ~OnCore();
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
  std::vector<int> before_;
};

/// Lets a new thread run on these cores; none: where it may run already.
void run_on(const std::vector<int>& cores) noexcept;
/// What run_on() takes for threads that the calling thread starts: none where it is bound to no
/// core.
std::vector<int> cores_for_started();

}  // namespace hero::core
