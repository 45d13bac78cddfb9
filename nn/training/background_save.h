#pragma once
// Saving a checkpoint while the program continues to train; internal to the Checkpointers of nn and
// dist.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hero/core/safetensors.h>

namespace hero::nn {

/// Replaces each array by one in host memory whose values nothing else can change: a copy, or the
/// array itself if nothing else holds it. Copies from a device are in page-locked memory. Copies
/// are charged to MemoryTag::other; their memory comes from the allocator's cache and returns
/// there, so that every save uses the same memory.
void take_copies(std::vector<core::NamedArray>& arrays);

/// Work on a thread of its own. A process that ends by exit() first tells the work to hurry and
/// waits for it. A forked child has no such thread, so there is nothing to wait for and the work
/// counts as done; what it holds stays in the child's memory until the child ends.
class BackgroundWork {
 public:
  /// True if the work should end without waiting for what others still have to do.
  using Hurried = std::function<bool()>;
  using Work = std::function<void(const Hurried& hurried)>;

  /// Begins the work. The work and everything it holds are destroyed when wait() returns. Throws an
  /// Error of `op` if no thread can be started.
  BackgroundWork(const char* op, Work work);
  /// Waits for the work.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  /// Waits for the end. Returns the message of what the work threw, or "".
  std::string wait();
  /// False in a forked child.
  bool is_mine() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hero::nn
