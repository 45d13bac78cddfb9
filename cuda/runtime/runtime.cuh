#pragma once
// The CUDA runtime as cuda/ uses it: errors with the operation's name, the device and stream
// of the calling thread.
#include <new>

#include <cuda_runtime.h>

#include <hero/core/array.h>
#include <hero/core/error.h>

namespace hero::cuda {

using core::Array;
using core::Compute;
using core::ComputeOf;

/// Throws "op: what the runtime says"; for errors that kernels leave behind, with the names of
/// those that may have been it.
[[noreturn]] void fail_cuda(cudaError_t status, const char* op);

/// Throws when `status` is an error.
inline void check_cuda(cudaError_t status, const char* op) {
  if (status == cudaSuccess) [[likely]]
    return;
  fail_cuda(status, op);
}

/// Makes a device the calling thread's current one while it lives.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index);
  /// For those that may run while the process ends and the runtime is gone.
  DeviceGuard(int index, std::nothrow_t) noexcept;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

/// The stream to which the calling thread gives the work of its current device: that of the
/// innermost StreamScope, else one that is the thread's own.
cudaStream_t current_stream();

/// True when HERO_CUDA_SYNC=1: every kernel is waited for, so that an error names its operation.
bool synchronous();

/// Remembers that this thread launched `op` (a literal) since it last waited for the device.
void note_launch(const char* op);

/// Bytes of shared memory that a launch may ask for without a word before.
inline constexpr size_t kSharedByDefault = 48 * 1024;
/// Lets `kernel` have so many on the current device. The driver, which takes a microsecond and a
/// lock for that, is asked once a kernel and device.
void allow_shared(const char* op, const void* kernel, size_t bytes);

/// The host waits for the calling thread's current stream. Whatever gives values to the host calls
/// this: it is what a captured step cannot do, and then an error says so.
void wait_for_stream(const char* op);

/// Throws when the calling thread is capturing a graph: "op: `what`, which a captured step cannot".
void refuse_capture(const char* op, const char* what);

/// Set by who captures.
bool& capturing();

}  // namespace hero::cuda
