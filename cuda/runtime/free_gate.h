#pragma once
// [note: memory goes back when no rank is waited for] The driver frees memory only when the device
// is idle, and blocks all other calls of the process meanwhile. If the device's work waits for
// another rank of this process (a thread), that rank's own call would be blocked, and both would
// wait for ever. So threads free memory only through a gate: the gate of a device is closed from
// before such work is queued until it is known that all ranks have queued theirs, and while a
// thread is in the gate no such work is queued. Memory that does not get through the gate is kept:
// cached memory in its cache, other memory (HERO_CUDA_CACHE=0, the memory of a destroyed graph)
// until a later call. If memory has run out, a thread waits until the gate is open, but not longer
// than a step may take. Communicators, whose end frees memory, too, are put by until it is
// ([note: communicators are destroyed when no rank is waited for] in dist/backends/nccl/comm.h).
//
// [note: calls for which the driver may wait] Where ranks of a process share a GPU, the driver may
// wait for it, and so for another rank, in calls that cannot be put off, too: those that allocate
// memory of a device or page-locked memory of the host, make a stream or a library's handle, or
// instantiate a graph. There NCCL is asked for a collective when all its ranks have begun it, and a
// rank about to make such a call first asks for what it has begun ([note: calls of ranks that share
// a GPU] in dist/backends/nccl/backend.h): so the gate opens without any later call of the rank,
// which waits for that and makes the call within it. What needs no gate: events, which are made and
// destroyed without the device; a graph that is destroyed while it runs, whose resources go back
// later; kernels, which are loaded before (rendezvous.cpp). Where each rank has a GPU, that waits
// for calls of the rank itself, for which the others come whatever its host waits for, and no gate
// is needed, as long as the driver waits for no device but the current one. A thread that captures
// a graph asks NCCL for nothing meanwhile, and makes such calls as they come.
#include <functional>
#include <mutex>
#include <optional>

namespace hero::cuda {

/// Lives while a device has work that waits for other ranks, and closes the device's gate; made
/// before the device is given the work. The gate opens when the object is destroyed, or earlier by
/// opens_when().
class AwaitedWork {
 public:
  /// Takes `agreed` as opens_when() does, if it is known already.
  explicit AwaitedWork(int device, std::function<bool()> agreed = {});
  ~AwaitedWork();
  AwaitedWork(const AwaitedWork&) = delete;
  AwaitedWork& operator=(const AwaitedWork&) = delete;
  /// Lets the gate open once `agreed` returns true: all ranks have queued their part of the work,
  /// or it has been given up. Any thread may call `agreed` while it is in the gate, so `agreed`
  /// must return at once, and neither wait for a gate nor free memory of a device.
  void opens_when(std::function<bool()> agreed);

 private:
  friend class InFreeGate;
  bool closes(int device) const;
  const int device_;
  std::function<bool()> agreed_;
};

/// While it lives, the calling thread is in the gate of a device (-1: of all devices, for
/// page-locked host memory), unless the gate is closed: then it converts to false. The constructor
/// returns at once unless another thread is in a gate.
class InFreeGate {
 public:
  explicit InFreeGate(int device);
  explicit operator bool() const { return lock_.owns_lock(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

/// While one lives, ranks of this process share GPUs.
class GpusShared {
 public:
  GpusShared();
  ~GpusShared();
  GpusShared(const GpusShared&) = delete;
  GpusShared& operator=(const GpusShared&) = delete;
};

/// Stands around a call for which the driver may wait for a device (-1: for all), and which cannot
/// be put off. While ranks of the process share GPUs, the constructor returns in the gate, when it
/// is open, or outside it where it never will be; else at once. The thread holds no lock that a
/// rank needs on its way to its calls, and frees no memory of a device meanwhile.
class InCallGate {
 public:
  explicit InCallGate(int device);

 private:
  std::optional<InFreeGate> here_;
};

/// What a thread waits for before it frees memory: for its own ranks' calls that wait for other
/// ranks, or until the gate is open.
enum class FreeWait { own_calls, open };
/// A function that waits; called without a lock held. Returns false if the wait would never end;
/// the gate may be open even so.
using BeforeFree = bool (*)(int device, FreeWait wait) noexcept;
void set_before_free(BeforeFree wait);
bool before_free(int device, FreeWait wait) noexcept;

}  // namespace hero::cuda
