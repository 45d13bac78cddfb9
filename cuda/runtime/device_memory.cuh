#pragma once
// The devices' caching allocators.
#include <cuda_runtime.h>

#include <hero/core/memory/allocator.h>
#include <hero/cuda/runtime/caching_allocator.h>

namespace hero::cuda {

/// The events of an upstream, which are those of CUDA, and the way of its memory through the gate
/// of a device (-1: of all).
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
  /// Gives a segment to the driver.
  virtual void give_back(void* segment) noexcept = 0;

 private:
  const int gate_;
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
/// Applies empty_cache() to all that exist.
void empty_device_caches();

}  // namespace hero::cuda
