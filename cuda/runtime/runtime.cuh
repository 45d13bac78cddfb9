#pragma once
// Helpers for the CUDA runtime: errors with the operation's name, and the device and stream of the
// calling thread.
#include <new>

#include <cuda_runtime.h>

#include <hero/core/array.h>
#include <hero/core/error.h>

namespace hero::cuda {

using core::Array;
using core::Compute;
using core::ComputeOf;

/// Throws an Error "op: " with the runtime's text; for an asynchronous error of a kernel, with the
/// names of the operations that may have caused it.
[[noreturn]] void fail_cuda(cudaError_t status, const char* op);

/// Throws an Error if `status` is an error.
inline void check_cuda(cudaError_t status, const char* op) {
  if (status == cudaSuccess) [[likely]]
    return;
  fail_cuda(status, op);
}

/// Makes the device the calling thread's own, which is current wherever no DeviceGuard says
/// otherwise, and that of the threads that work for it.
void use_device(int index);

/// The device whose context a call takes that is of no device, as for memory of the host: the
/// current one, or one that this process uses already where it does not use that.
int device_in_use();

/// Makes a device the calling thread's current one while it lives. Then it is the former one again,
/// if this process uses that: to go back to a device makes a context there, half a gigabyte of a
/// GPU that may be another process's. Else the device stays the current one.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index);
  /// For code that may run while the process ends, when the runtime may be shut down.
  DeviceGuard(int index, std::nothrow_t) noexcept;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

/// The calling thread's current stream on its current device: that of the innermost StreamScope,
/// else the thread's own.
cudaStream_t current_stream();

/// True with HERO_CUDA_SYNC=1: the host waits for every kernel, so that an error names its
/// operation.
bool synchronous();

/// Remembers that this thread launched `op` (a literal) since it last waited for the device.
void note_launch(const char* op);

/// Bytes of dynamic shared memory that a launch may use without allow_shared().
inline constexpr size_t kSharedByDefault = 48 * 1024;
/// Permits `kernel` this many bytes on the current device. The driver's call takes a microsecond
/// and a lock, and is made once for each kernel and device.
void allow_shared(const char* op, const void* kernel, size_t bytes);

/// Makes the host wait for the calling thread's current stream. Every function that returns values
/// to the host calls it. Throws an Error while the stream is captured, since a captured step cannot
/// wait.
void wait_for_stream(const char* op);

/// Throws an Error if the calling thread is capturing a graph: "op: `what`, which a captured step
/// cannot".
void refuse_capture(const char* op, const char* what);

/// Set by the capture of a graph.
bool& capturing();

}  // namespace hero::cuda
