#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include <hero/core/allocator.h>
#include <hero/core/error.h>
#include <hero/core/ledger.h>

namespace hero::core {

namespace {

// Address sanitizer must see every block come and go.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCaching = false;
#else
constexpr bool kCaching = true;
#endif

constexpr int64_t kSmallBytes = 4096;  // above: the shared cache; below: one list a thread and size
constexpr int64_t kHugeBytes = 4 << 20;
constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kCacheLimit = int64_t{4} << 30;  // free bytes kept in the shared cache

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Large sizes are rounded to eighths of a power of two: at most 12.5 % unused, few distinct sizes.
int64_t block_bytes(int64_t bytes) {
  if (bytes <= kSmallBytes) return round_up(bytes, kAlignment);
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  return round_up(bytes, power / 8);
}

void* system_block(int64_t bytes) {
  const int64_t alignment = bytes >= kHugeBytes ? kHugePage : kAlignment;
  void* block = std::aligned_alloc(static_cast<size_t>(alignment),
                                   static_cast<size_t>(round_up(bytes, alignment)));
  check(block != nullptr, "allocate: out of memory: ", bytes_text(bytes),
        " asked for; use smaller batches or release tensors");
  // Fewer page faults and TLB misses on long arrays; advice only, so failure changes nothing.
  if (bytes >= kHugeBytes) madvise(block, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return block;
}

struct SharedCache {
  std::mutex mutex;
  std::unordered_map<int64_t, std::vector<void*>> blocks;  // by size; order never matters here
  int64_t bytes = 0;

  void* take(int64_t size) {
    const std::lock_guard lock(mutex);
    const auto found = blocks.find(size);
    if (found == blocks.end() || found->second.empty()) return nullptr;
    void* block = found->second.back();
    found->second.pop_back();
    bytes -= size;
    return block;
  }
  bool give(void* block, int64_t size) {
    const std::lock_guard lock(mutex);
    if (bytes + size > kCacheLimit) return false;
    blocks[size].push_back(block);
    bytes += size;
    return true;
  }
};

SharedCache& shared_cache() {
  static auto* cache = new SharedCache;  // leaked on purpose: outlives static arrays
  return *cache;
}

// Free small blocks of one thread, linked through their own first bytes.
struct SmallCache {
  struct Block {
    Block* next;
  };
  static constexpr int kClasses = static_cast<int>(kSmallBytes / kAlignment) + 1;
  static constexpr int kKeep = 1024;  // blocks a class keeps; the rest goes back to the system
  Block* lists[kClasses] = {};
  int counts[kClasses] = {};

  ~SmallCache() {
    for (auto& list : lists) {
      while (list) std::free(std::exchange(list, list->next));
    }
    alive() = false;
  }
  // A thread's last frees may come after its cache is gone.
  static bool& alive() {
    thread_local bool value = true;
    return value;
  }
};

thread_local SmallCache small_cache;

std::atomic<HostMemory*> other_memory = nullptr;  // once there is one, its blocks may come back
thread_local HostMemory* chosen_memory = nullptr;

}  // namespace

HostMemoryScope::HostMemoryScope(HostMemory& memory) {
  other_memory = &memory;
  chosen_memory = &memory;
}
HostMemoryScope::~HostMemoryScope() { chosen_memory = nullptr; }

void* allocate(int64_t bytes) {
  if (chosen_memory) [[unlikely]]
    return chosen_memory->allocate(bytes);
  const int64_t size = block_bytes(bytes);
  if (kCaching && size <= kSmallBytes && SmallCache::alive()) {
    const auto index = size / kAlignment;
    if (auto* block = small_cache.lists[index]) {
      small_cache.lists[index] = block->next;
      --small_cache.counts[index];
      return block;
    }
  } else if (kCaching && size > kSmallBytes) {
    if (void* block = shared_cache().take(size)) return block;
  }
  return system_block(size);
}

void deallocate(void* block, int64_t bytes) noexcept {
  if (!block) return;
  HostMemory* const other = other_memory.load(std::memory_order_relaxed);
  if (other && other->deallocate(block)) [[unlikely]]
    return;
  const int64_t size = block_bytes(bytes);
  if (kCaching && size <= kSmallBytes && SmallCache::alive()) {
    const auto index = size / kAlignment;
    if (small_cache.counts[index] < SmallCache::kKeep && size > 0) {
      small_cache.lists[index] = new (block) SmallCache::Block{small_cache.lists[index]};
      ++small_cache.counts[index];
      return;
    }
  } else if (kCaching && size > kSmallBytes && shared_cache().give(block, size)) {
    return;
  }
  std::free(block);
}

int64_t cached_bytes() {
  const std::lock_guard lock(shared_cache().mutex);
  return shared_cache().bytes;
}

void empty_cache() {
  SharedCache& cache = shared_cache();
  const std::lock_guard lock(cache.mutex);
  for (auto& [size, blocks] : cache.blocks) {
    for (void* block : blocks) std::free(block);
  }
  cache.blocks.clear();
  cache.bytes = 0;
}

}  // namespace hero::core
