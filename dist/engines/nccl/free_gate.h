#pragma once
// [note: memory goes back when no rank is waited for] The driver takes memory back when the device
// is done, and lets no other call of the process through meanwhile. A device whose NCCL call waits
// for a rank of this process, a thread, would wait for ever for that rank's own call. So a rank
// gives memory back only once all others have asked for the calls that it has asked for: the cache,
// which goes back because memory ran out or at the program's wish, waits for that; what is not
// cached (HERO_CUDA_CACHE=0, the memory of a graph that is gone) stays until a later call. A
// communicator that is destroyed gives its memory back, too, and waits as the cache does.
#include <thread>
#include <vector>

#include <hero/cuda/runtime/device_memory.cuh>

namespace hero::dist::nccl {

/// A rank of this process while it lives, registered by the thread that makes it.
class FreeGate {
 public:
  explicit FreeGate(int device);
  virtual ~FreeGate();
  FreeGate(const FreeGate&) = delete;
  FreeGate& operator=(const FreeGate&) = delete;
  /// Whether the other ranks have asked for what this one has: `until_known` waits for them, and is
  /// false where they never will; `none` is false, too, while that is not known.
  virtual bool others_have_asked(cuda::FreeWait wait) noexcept = 0;
  /// Before the rank's thread waits for its GPU: as Engine::confirm().
  virtual void confirm() = 0;

 private:
  friend std::vector<FreeGate*> gates_of_thread(int device);
  const int device_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

/// The calling thread's, of ranks on that device, or on any (-1).
std::vector<FreeGate*> gates_of_thread(int device);
/// Asks those.
bool all_have_asked(int device, cuda::FreeWait wait) noexcept;

}  // namespace hero::dist::nccl
