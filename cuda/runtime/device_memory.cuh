#pragma once
// The devices' caching allocators.
#include <cuda_runtime.h>

#include <hero/core/memory/allocator.h>
#include <hero/cuda/runtime/caching_allocator.h>

namespace hero::cuda {

/// The base of upstreams with CUDA's events, which free memory through the gate of a device (-1: of
/// all devices).
class CudaUpstream : public Upstream {
 public:
  explicit CudaUpstream(int gate) : gate_(gate) {}
  bool free(void* segment) noexcept final;
  bool before_free() noexcept final;
  EventId record(StreamId stream) noexcept override;
  bool passed(EventId event) noexcept override;
  void wait(EventId event) noexcept override;
  void drop(EventId event) noexcept override;

 protected:
  /// Returns a segment to the driver.
  virtual void give_back(void* segment) noexcept = 0;

 private:
  const int gate_;
};

/// While it lives, the calling thread may make calls of the driver that a capture forbids by
/// default: memory, and the events of its blocks, are no part of the captured work.
class Uncaptured {
 public:
  Uncaptured() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Uncaptured() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Uncaptured(const Uncaptured&) = delete;
  Uncaptured& operator=(const Uncaptured&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Whether freed blocks are kept for reuse: false with HERO_CUDA_CACHE=0.
bool caches();

/// The allocator of a device; lives as long as the process.
CachingAllocator& device_memory(int index);
/// True if the calling thread is capturing a graph: then the page-locked block that it frees is
/// kept for the graph, which copies from or to it in every replay.
bool keep_for_graph(void* pinned_block);
/// The page-locked memory of the host; lives as long as the process.
core::HostMemory& pinned_memory();
/// Frees a page-locked block into its cache.
void free_pinned(void* block) noexcept;
/// Calls empty_cache() of all allocators that exist.
void empty_device_caches();

}  // namespace hero::cuda
