#pragma once
// [note: memory goes back when no rank is waited for] The driver takes memory back when the device
// is done, and lets no other call of the process through meanwhile. A device whose work waits for a
// rank of this process, a thread, would wait for ever for that rank's own call. So memory goes back
// through a gate, whichever thread gives it back: the gate of a device is closed from before the
// device is asked for such work until it is known that all ranks have asked for theirs, and while a
// thread is in the gate nobody asks for more. What does not get through stays: cached memory in its
// cache, what is not cached (HERO_CUDA_CACHE=0, the memory of a graph that is gone) until a later
// call. Where memory has run out, and before a communicator is destroyed, which gives its memory
// back, too, a thread waits until the gate is open, but not longer than a step may take.
#include <functional>
#include <mutex>

namespace hero::cuda {

/// Stands beside work of a device that waits for other ranks, and closes the device's gate; made
/// before the device is asked for the work. The gate is open again when this is gone, or earlier.
class AwaitedWork {
 public:
  /// As opens_when(), where that is known already.
  explicit AwaitedWork(int device, std::function<bool()> agreed = {});
  ~AwaitedWork();
  AwaitedWork(const AwaitedWork&) = delete;
  AwaitedWork& operator=(const AwaitedWork&) = delete;
  /// The gate is open when `agreed` says that all ranks have asked for their part, or that the work
  /// has been given up. Any thread calls it, in the gate: it returns at once, and neither waits for
  /// a gate nor frees memory of a device.
  void opens_when(std::function<bool()> agreed);

 private:
  friend class InFreeGate;
  bool closes(int device) const;
  const int device_;
  std::function<bool()> agreed_;
};

/// The calling thread in the gate of a device (-1: of all, for which memory of the host is locked):
/// false where the gate is closed. Returns at once unless another thread is in a gate.
class InFreeGate {
 public:
  explicit InFreeGate(int device);
  explicit operator bool() const { return lock_.owns_lock(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

/// What a thread waits for before it gives memory back: for the calls of its own ranks, as far as
/// they wait for others, or until the gate is open.
enum class FreeWait { own_calls, open };
/// Called without a lock held. Returns false where what it waits for never comes; there the gate
/// may still be open.
using BeforeFree = bool (*)(int device, FreeWait wait) noexcept;
void set_before_free(BeforeFree wait);
bool before_free(int device, FreeWait wait) noexcept;

}  // namespace hero::cuda
