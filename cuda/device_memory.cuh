#pragma once
// The devices' caching allocators.
#include <hero/cuda/caching_allocator.h>

namespace hero::cuda {

/// The events of an upstream: those of CUDA.
class CudaUpstream : public Upstream {
 public:
  EventId record(StreamId stream) noexcept override;
  bool passed(EventId event) noexcept override;
  void wait(EventId event) noexcept override;
  void drop(EventId event) noexcept override;
};

/// Whether blocks are kept for reuse: not with HERO_CUDA_CACHE=0.
bool caches();

/// The allocator of a device; lives as long as the process.
CachingAllocator& device_memory(int index);
/// True when the calling thread is capturing: then the page-locked block that it frees is kept for
/// the graph, which copies from or to it in every replay.
bool keep_for_graph(void* pinned_block);
/// Gives a page-locked block back to its cache.
void free_pinned(void* block) noexcept;
/// Applies empty_cache() to all that exist.
void empty_device_caches();

}  // namespace hero::cuda
