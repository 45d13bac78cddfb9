#pragma once
// The devices' caching allocators.
#include <cuda_runtime.h>

#include <hero/core/allocator.h>
#include <hero/cuda/runtime/caching_allocator.h>

namespace hero::cuda {

/// The events of an upstream: those of CUDA.
class CudaUpstream : public Upstream {
 public:
  EventId record(StreamId stream) noexcept override;
  bool passed(EventId event) noexcept override;
  void wait(EventId event) noexcept override;
  void drop(EventId event) noexcept override;
};

/// While it lives the calling thread may ask the driver for what a capture forbids by default:
/// memory, and the events of its blocks, are no part of the work that is captured.
class Uncaptured {
 public:
  Uncaptured() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Uncaptured() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Uncaptured(const Uncaptured&) = delete;
  Uncaptured& operator=(const Uncaptured&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Whether blocks are kept for reuse: not with HERO_CUDA_CACHE=0.
bool caches();

/// The allocator of a device; lives as long as the process.
CachingAllocator& device_memory(int index);
/// True when the calling thread is capturing: then the page-locked block that it frees is kept for
/// the graph, which copies from or to it in every replay.
bool keep_for_graph(void* pinned_block);
/// The page-locked memory of the host; lives as long as the process.
core::HostMemory& pinned_memory();
/// Gives a page-locked block back to its cache.
void free_pinned(void* block) noexcept;
/// Asked before memory of a device (-1: of all) goes back to the driver, which waits for the
/// device: whether that wait will end; false keeps the memory. With `until_known` it may wait for
/// the answer.
enum class FreeWait { none, until_known };
using BeforeFree = bool (*)(int device, FreeWait wait) noexcept;
void set_before_free(BeforeFree ask);
bool may_free(int device, FreeWait wait) noexcept;
/// Applies empty_cache() to all that exist.
void empty_device_caches();

}  // namespace hero::cuda
