#pragma once
// Which cores of the machine a thread runs on.
#include <vector>

namespace hero::core {

/// The numbers of the cores on which the calling thread may run, ascending. While an OnCore of this
/// thread lives, they are the cores from before it.
std::vector<int> usable_cores();

/// While it lives, the thread that made it runs on one core only, whichever one the system would
/// choose. Threads that the pool starts meanwhile may run on all usable cores. A thread can have
/// one at a time. Throws an Error if the system refuses.
class OnCore {
 public:
  explicit OnCore(int core);
  ~OnCore();
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
  std::vector<int> before_;
};

/// Lets the calling thread, which has just started, run on these cores; does nothing if the list is
/// empty.
void run_on(const std::vector<int>& cores) noexcept;
/// The list of cores with which threads that the calling thread starts have to call run_on(): empty
/// if the thread has no OnCore.
std::vector<int> cores_for_started();

}  // namespace hero::core
