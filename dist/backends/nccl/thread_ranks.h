#pragma once
// The ranks of a thread, which are told before it waits for a GPU or gives memory back
// ([note: memory goes back when no rank is waited for] in cuda/runtime/free_gate.h).
#include <functional>
#include <thread>
#include <vector>

namespace hero::dist::nccl {

/// A rank of this process while it lives, registered by the thread that makes it.
class ThreadRank {
 public:
  /// `timeout`: of a step, in seconds; a thread without a rank has the longest of the process.
  ThreadRank(int device, double timeout);
  virtual ~ThreadRank();
  ThreadRank(const ThreadRank&) = delete;
  ThreadRank& operator=(const ThreadRank&) = delete;
  /// Returns when the other ranks have asked for what this one has, and `open` is true, too; false
  /// where that never comes, or cannot while the rank is about to ask.
  virtual bool wait_for_others(const std::function<bool()>& open) noexcept = 0;
  /// Before the rank's thread waits for its GPU: as Backend::confirm().
  virtual void confirm() = 0;
  /// Any thread, behind a wait of the host: an Error where what the GPU was asked for was given up
  /// meanwhile.
  virtual void check_waited() = 0;

 private:
  friend std::vector<ThreadRank*> ranks_of_thread(int device);
  friend double longest_timeout();
  friend void check_all_waited(int device);
  const int device_;
  const double timeout_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

/// The calling thread's, on that device or on any (-1).
std::vector<ThreadRank*> ranks_of_thread(int device);
/// ThreadRank::check_waited() of all ranks of the process on that device, or on any (-1).
void check_all_waited(int device);
/// Of all ranks of the process; 0 where there are none.
double longest_timeout();

}  // namespace hero::dist::nccl
