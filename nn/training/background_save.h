#pragma once
// What a Checkpointer does while its program trains on; internal to the Checkpointers of nn and
// dist.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hero/core/safetensors.h>

namespace hero::nn {

/// Makes each array one in the host's memory whose values nobody else can change: a copy, or the
/// array itself where nobody else holds it. What comes from a device lies in page-locked memory.
/// The copies are charged to MemoryTag::other; their memory comes from the allocator's cache and
/// goes back there, so that save after save uses the same.
void take_copies(std::vector<core::NamedArray>& arrays);

/// Work on a thread of its own. A process that ends by exit() waits for it first, after a word to
/// the work that it should hurry. In a forked child, which has no such thread, there is nothing to
/// wait for and the work counts as done; what it holds stays the child's until its end.
class BackgroundWork {
 public:
  /// Whether the work should end without what others have yet to do.
  using Hurried = std::function<bool()>;
  using Work = std::function<void(const Hurried& hurried)>;

  /// Begins. The work and all it holds are gone when wait() returns. An Error of `op` where no
  /// thread can be started.
  BackgroundWork(const char* op, Work work);
  /// Waits.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  /// Tells the work to hurry.
  void hurry();
  /// Waits for the end; what the work threw, or "".
  std::string wait();
  /// False in a forked child.
  bool is_mine() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hero::nn
