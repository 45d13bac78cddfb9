#pragma once
// The CPU's caching allocator: freed blocks are kept and handed out again, so that a training step
// costs no page faults after the first.
#include <cstdint>

namespace hero::core {

/// Every block is aligned to this many bytes: one cache line, one AVX-512 register.
inline constexpr int64_t kAlignment = 64;

/// A block of at least `bytes` bytes, uninitialised. Throws hero::Error when memory is exhausted
/// even with all that the caches hold given back.
void* allocate(int64_t bytes);

/// Takes a block back; `bytes` is what allocate() was asked for. Needs no memory of its own.
void deallocate(void* block, int64_t bytes) noexcept;

/// An Error of `op` where `count` tensors, or things of a tensor's size, are more than fit into
/// memory, before they fill it one by one.
void check_room(const char* op, int64_t count);

/// Another source of the host's memory than the system (page-locked memory, for one).
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  /// bytes > 0
  virtual void* allocate(int64_t bytes) = 0;
  /// Takes a block back, from any thread; false when it is not its own. Quick: every block of the
  /// process is asked for.
  virtual bool deallocate(void* block) noexcept = 0;
};

/// While it lives the calling thread's blocks come from `memory`, which lives as long as the
/// process and is the only one of it; deallocate() takes them back as all others.
class HostMemoryScope {
 public:
  explicit HostMemoryScope(HostMemory& memory);
  ~HostMemoryScope();
  HostMemoryScope(const HostMemoryScope&) = delete;
  HostMemoryScope& operator=(const HostMemoryScope&) = delete;
};

/// Bytes held in free blocks of at least 4 KiB, ready to be handed out again.
int64_t cached_bytes();

/// Returns all those free blocks to the system.
void empty_cache();

}  // namespace hero::core
