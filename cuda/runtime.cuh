#pragma once
// The CUDA runtime as this room uses it: errors with the operation's name, the device and stream
// of the calling thread.
#include <cuda_runtime.h>

#include <hero/core/array.h>
#include <hero/core/error.h>

namespace hero::cuda {

using core::Array;

/// Throws when `status` is an error: "op: what the runtime says".
inline void check_cuda(cudaError_t status, const char* op) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // the error is ours now
  fail(op, ": CUDA reports: ", cudaGetErrorString(status));
}

/// Makes a device the calling thread's current one while it lives.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_;
};

/// The stream to which the calling thread gives the work of its current device; every thread has
/// one of its own, and a thread that chose none uses the device's default stream of threads.
cudaStream_t current_stream();

/// True when HERO_CUDA_SYNC=1: every kernel is waited for, so that an error names its operation.
bool synchronous();

}  // namespace hero::cuda
