#pragma once
// The CPU's caching allocator: freed blocks are kept and reused, so that only the first training
// step has page faults.
#include <cstdint>

namespace hero::core {

/// Every block is aligned to this many bytes, the size of a cache line and of an AVX-512 register.
inline constexpr int64_t kAlignment = 64;

/// Allocates an uninitialised block of at least `bytes` bytes. Throws an Error if memory is
/// exhausted even after the caches were emptied.
void* allocate(int64_t bytes);

/// Frees a block; `bytes` is the number that was given to allocate(). It allocates nothing.
void deallocate(void* block, int64_t bytes) noexcept;

/// Throws an Error that begins with `op` if `count` tensors, or objects of a tensor's size, cannot
/// fit into memory. For callers that would otherwise fill the memory one by one.
void check_room(const char* op, int64_t count);

/// A source of host memory other than the system, such as page-locked memory.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  /// Allocates a block; bytes > 0.
  virtual void* allocate(int64_t bytes) = 0;
  /// Frees a block, on any thread. Returns false if the block is not from this source. It must be
  /// fast, since it is called for every block of the process.
  virtual bool deallocate(void* block) noexcept = 0;
};

/// While it lives, allocate() on this thread takes blocks from `memory`, which must live as long as
/// the process and be the only HostMemory in use; deallocate() frees these blocks like all others.
class HostMemoryScope {
 public:
  explicit HostMemoryScope(HostMemory& memory);
  ~HostMemoryScope();
  HostMemoryScope(const HostMemoryScope&) = delete;
  HostMemoryScope& operator=(const HostMemoryScope&) = delete;
};

/// The bytes in free blocks of at least 4 KiB that are kept for reuse.
int64_t cached_bytes();

/// Returns all these free blocks to the system.
void empty_cache();

}  // namespace hero::core
