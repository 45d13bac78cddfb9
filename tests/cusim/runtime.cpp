// The runtime's devices, errors and memory, which is the host's.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "streams.h"
#include <cusim_device.h>

namespace {

using cusim::said;
using cusim::world;

// Which of this machine's four GPUs the process sees, digits with commas between; empty: all.
const std::string visible = [] {
  const char* text = std::getenv("HERO_CUSIM_DEVICES");
  return std::string(text ? text : "");
}();
int devices = visible.empty() ? 4 : static_cast<int>(visible.size() / 2 + 1);
size_t memory = size_t{80} << 30;
thread_local int current = 0;
std::atomic<uint64_t> used = 0;  // a bit each device
thread_local cudaError_t last = cudaSuccess;

constexpr int kPageable = -2, kPinned = -1;  // else the device

struct Block {
  size_t bytes;
  int place;
};
std::map<const char*, Block>& blocks() {
  static auto* all = new std::map<const char*, Block>;
  return *all;
}
size_t held[64] = {};
std::atomic<int64_t> attributes = 0;
std::atomic<bool> late = false;  // memory comes when its device is idle

struct Found {
  int place = kPageable;
  bool inside = true;  // all of the bytes are in the block
};
Found find(const void* at, size_t bytes) {
  const std::lock_guard lock(world());
  const char* first = static_cast<const char*>(at);
  auto block = blocks().upper_bound(first);
  if (block == blocks().begin()) return {};
  --block;
  if (first >= block->first + block->second.bytes) return {};
  return {block->second.place, first + bytes <= block->first + block->second.bytes};
}

cudaError_t make(void** result, size_t bytes, int place) {
  cusim::use_current();
  const std::lock_guard lock(world());
  *result = nullptr;
  if (cusim::forbidden_by_capture()) return said(cudaErrorStreamCaptureUnsupported);
  if (bytes == 0) return cudaSuccess;
  if (late) cusim::drain_device(current);
  if (place >= 0 && held[place] + bytes > memory) return said(cudaErrorMemoryAllocation);
  // exactly so many bytes, so that the address sanitizer sees the first one beyond
  if (posix_memalign(result, 256, bytes) != 0) return said(cudaErrorMemoryAllocation);
  std::memset(*result, 0xFF, bytes);  // NaN to whoever reads it unwritten
  blocks()[static_cast<const char*>(*result)] = {bytes, place};
  if (place >= 0) held[place] += bytes;
  return cudaSuccess;
}

// All work of its device is done first, as the runtime has it; of pinned memory, that of all.
cudaError_t unmake(void* at, bool on_device) {
  cusim::use_current();
  const std::lock_guard lock(world());
  if (!at) return cudaSuccess;
  if (cusim::forbidden_by_capture()) return said(cudaErrorStreamCaptureUnsupported);
  const auto block = blocks().find(static_cast<const char*>(at));
  if (block == blocks().end() || (block->second.place >= 0) != on_device) {
    return said(cudaErrorInvalidValue);
  }
  if (on_device) cusim::drain_device(block->second.place);
  if (!on_device) cusim::drain_all();
  if (on_device) held[block->second.place] -= block->second.bytes;
  blocks().erase(block);
  std::free(at);
  return cudaSuccess;
}

}  // namespace

void cusim::use_current() { used |= uint64_t{1} << current; }
bool cusim::has_context(int device) { return (used >> device & 1) != 0; }
void cusim::forget_contexts() { used = 0; }
std::vector<int> cusim::contexts() {
  std::vector<int> all;
  for (int device = 0; device < devices; ++device) {
    if (has_context(device)) all.push_back(device);
  }
  return all;
}
void cusim::set_device_count(int count) { devices = count; }
void cusim::set_memory(size_t bytes) { memory = bytes; }
void cusim::allocate_late(bool value) { late = value; }
bool cusim::allocates_late() { return late; }
int64_t cusim::attributes_set() { return attributes; }
size_t cusim::live_blocks() {
  const std::lock_guard lock(world());
  return blocks().size();
}

cudaError_t cusim::said(cudaError_t status) {
  if (status != cudaSuccess) last = status;
  return status;
}

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
  cusim::use_current();
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {"cusim", {}, memory, 4, 9, 0};
  properties->uuid.bytes[15] =
      visible.empty() ? static_cast<char>('0' + device) : visible[2 * static_cast<size_t>(device)];
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute != cudaDevAttrMaxSharedMemoryPerBlockOptin) return cudaErrorInvalidValue;
  *value = 227 * 1024;  // what cusim::launch allows
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t status) {
#define CUSIM_NAME(error) \
  case error:             \
    return #error;
  switch (status) {
    CUSIM_NAME(cudaSuccess)
    CUSIM_NAME(cudaErrorInvalidValue)
    CUSIM_NAME(cudaErrorMemoryAllocation)
    CUSIM_NAME(cudaErrorNoDevice)
    CUSIM_NAME(cudaErrorInvalidDevice)
    CUSIM_NAME(cudaErrorNotReady)
    CUSIM_NAME(cudaErrorIllegalAddress)
    CUSIM_NAME(cudaErrorStreamCaptureUnsupported)
    CUSIM_NAME(cudaErrorStreamCaptureInvalidated)
    CUSIM_NAME(cudaErrorStreamCaptureUnjoined)
    CUSIM_NAME(cudaErrorCapturedEvent)
    CUSIM_NAME(cudaErrorGraphExecUpdateFailure)
  }
#undef CUSIM_NAME
  return "an error without a name";
}
const char* cudaGetErrorString(cudaError_t status) { return cudaGetErrorName(status); }
cudaError_t cudaGetLastError() {
  const cudaError_t status = cudaPeekAtLastError();
  last = cudaSuccess;
  return status;
}
cudaError_t cudaPeekAtLastError() { return last != cudaSuccess ? last : cusim::broken(); }

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const bool right = kernel != nullptr &&
                     attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value > 0 &&
                     value <= 227 * 1024;
  if (!right) return said(cudaErrorInvalidValue);
  ++attributes;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** block, size_t bytes) { return make(block, bytes, current); }
cudaError_t cudaFree(void* block) { return unmake(block, true); }
cudaError_t cudaMallocHost(void** block, size_t bytes) { return make(block, bytes, kPinned); }
cudaError_t cudaFreeHost(void* block) { return unmake(block, false); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  cusim::use_current();
  const std::lock_guard lock(world());
  *total = memory;
  *free = memory - held[current];
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  cusim::use_current();
  const Found source = find(from, bytes), target = find(to, bytes);
  if (!source.inside || !target.inside) return said(cudaErrorInvalidValue);
  const bool from_device = source.place >= 0, to_device = target.place >= 0;
  if (kind != cudaMemcpyDefault &&
      (from_device != (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) ||
       to_device != (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice))) {
    return said(cudaErrorInvalidValue);
  }
  const bool pageable = source.place == kPageable || target.place == kPageable;
  if (cusim_graph* graph = cusim::captured_by(stream); graph && pageable) {
    graph->failed = true;
    return said(cudaErrorStreamCaptureUnsupported);
  }
  if (cusim::is_deferred() && source.place == kPageable) {
    // what the host does to the source afterwards does not matter
    const auto* first = static_cast<const char*>(from);
    cusim::enqueue("copy", stream, [to, staged = std::vector<char>(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  } else {
    cusim::enqueue("copy", stream, [=] { std::memmove(to, from, bytes); });
  }
  if (target.place == kPageable) cusim::drain(stream);
  return said(cusim::broken());
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  if (find(to, bytes).place != to_device || find(from, bytes).place != from_device) {
    return said(cudaErrorInvalidDevice);
  }
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  cusim::use_current();
  if (const Found target = find(to, bytes); target.place == kPageable || !target.inside) {
    return said(cudaErrorInvalidValue);
  }
  cusim::enqueue("memset", stream, [=] { std::memset(to, value, bytes); });
  return said(cusim::broken());
}
