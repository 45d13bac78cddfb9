// The runtime's calls: memory is the host's, and what is asked of a stream is done at once.
#include <cstdlib>
#include <mutex>

#include <cuda_runtime.h>

struct cusim_stream {};
struct cusim_event {};

namespace {

int devices = 2;
thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;

cudaError_t said(cudaError_t status) {
  if (status != cudaSuccess) last = status;
  return status;
}

}  // namespace

void cusim::set_device_count(int count) { devices = count; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices;
  return said(devices > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices) return said(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
  }
  return "an error without a name";
}
const char* cudaGetErrorString(cudaError_t status) { return cudaGetErrorName(status); }
cudaError_t cudaGetLastError() {
  const cudaError_t status = last;
  last = cudaSuccess;
  return status;
}
cudaError_t cudaPeekAtLastError() { return last; }

cudaError_t cudaMalloc(void** block, size_t bytes) {
  *block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!*block) return said(cudaErrorMemoryAllocation);
  std::memset(*block, 0xFF, bytes);  // NaN to whoever reads it unwritten
  return cudaSuccess;
}
cudaError_t cudaFree(void* block) {
  std::free(block);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** block, size_t bytes) { return cudaMalloc(block, bytes); }
cudaError_t cudaFreeHost(void* block) { return cudaFree(block); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{80} << 30;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new cusim_stream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new cusim_event;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
