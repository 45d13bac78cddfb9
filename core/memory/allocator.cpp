#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <type_traits>
#include <utility>

#include <pthread.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <hero/core/error.h>
#include <hero/core/ledger.h>
#include <hero/core/memory/allocator.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

namespace {

// Address sanitizer must see every block come and go. GCC says by a macro that it is there, clang
// by a feature.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HERO_SEES_BLOCKS
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(HERO_SEES_BLOCKS)
constexpr bool kCaching = false;
#else
constexpr bool kCaching = true;
#endif

constexpr int64_t kSmallBytes = 4096;  // above: the shared cache; below: one list a thread and size
constexpr int64_t kHugeBytes = 4 << 20;
constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kCacheLimit = int64_t{4} << 30;      // free bytes kept in the shared cache
constexpr int64_t kMostBlockBytes = int64_t{1} << 56;  // of one block: no processor addresses more

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Large sizes are rounded to eighths of a power of two: at most 12.5 % unused, few distinct sizes.
int64_t block_bytes(int64_t bytes) {
  if (bytes <= kSmallBytes) return round_up(bytes, kAlignment);
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  return round_up(bytes, power / 8);
}

// A free block, linked through its own first bytes: taking one back needs no memory.
struct Block {
  Block* next;
};

void free_all(Block*& list) {
  while (list) std::free(std::exchange(list, list->next));
}

// The number of a size that block_bytes() gives, eight to a power of two.
size_t class_of(int64_t size) {
  const int power = static_cast<int>(std::bit_width(static_cast<uint64_t>(size))) - 1;
  return static_cast<size_t>(power * 8 + ((size >> (power - 3)) & 7));
}

struct SharedCache {
  std::mutex mutex;
  Block* lists[64 * 8] = {};
  int64_t bytes = 0;

  void* take(int64_t size) {
    const std::lock_guard lock(mutex);
    Block*& list = lists[class_of(size)];
    if (list == nullptr) return nullptr;
    bytes -= size;
    return std::exchange(list, list->next);
  }
  bool give(void* block, int64_t size) noexcept {
    const std::lock_guard lock(mutex);
    if (bytes + size > kCacheLimit) return false;
    Block*& list = lists[class_of(size)];
    list = new (block) Block{list};
    bytes += size;
    return true;
  }
  void clear() noexcept {
    const std::lock_guard lock(mutex);
    for (Block*& list : lists) free_all(list);
    bytes = 0;
  }
};

// Has no destructor, so it outlives static arrays, and is there before memory may be out.
constinit SharedCache shared_cache;
static_assert(std::is_trivially_destructible_v<SharedCache>);

[[maybe_unused]] const bool kSharedCacheAtFork =
    at_fork([] { shared_cache.mutex.lock(); }, [] { shared_cache.mutex.unlock(); },
            [] { shared_cache.mutex.unlock(); });  // see [note: forks]

// Free small blocks of one thread.
struct SmallCache {
  static constexpr int kClasses = static_cast<int>(kSmallBytes / kAlignment) + 1;
  static constexpr int kKeep = 1024;  // blocks a class keeps; the rest goes back to the system
  enum class State : uint8_t { unused, open, over };
  Block* lists[kClasses] = {};
  int counts[kClasses] = {};
  State state = State::unused;

  // A thread's last frees may come after its cache is gone.
  bool is_open() { return state == State::open || open(); }
  void clear() {
    for (Block*& list : lists) free_all(list);
    for (int& count : counts) count = 0;
  }
  // Of the values of threads, at whose end their caches end.
  static pthread_key_t key() {
    static const pthread_key_t value = [] {
      pthread_key_t made{};
      const auto end = [](void* cache) { static_cast<SmallCache*>(cache)->end(); };
      check(pthread_key_create(&made, end) == 0, "allocate: the process has no more keys");
      return made;
    }();
    return value;
  }

 private:
  // By a key, not by a destructor of the thread: the first use may be when memory is out, and to
  // note a destructor takes some.
  [[gnu::cold, gnu::noinline]] bool open() {
    if (state == State::over) return false;
    state = pthread_setspecific(key(), this) == 0 ? State::open : State::over;
    return state == State::open;
  }
  void end() {
    clear();
    state = State::over;
  }
};

constinit thread_local SmallCache small_cache;

[[maybe_unused]] const bool kKeyAtFork = at_fork([] {
  try {
    SmallCache::key();
  } catch (const std::exception&) {  // the first small block will say it again
  }
});

// What has been freed leaves the process. glibc takes blocks of up to 32 MiB from its heap, once
// larger ones have been freed, and would keep them there.
void give_back() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void* system_block(int64_t bytes) {
  const int64_t alignment = bytes >= kHugeBytes ? kHugePage : kAlignment;
  const auto ask = [=] {
    return std::aligned_alloc(static_cast<size_t>(alignment),
                              static_cast<size_t>(round_up(bytes, alignment)));
  };
  void* block = ask();
  if (block == nullptr) [[unlikely]] {
    // Free blocks of other sizes may be all that is in the way.
    small_cache.clear();
    empty_cache();
    block = ask();
  }
  if (block == nullptr) [[unlikely]] {
    fail("allocate: out of memory: ", bytes_text(bytes),
         " asked for; use smaller batches or release tensors");
  }
  // Fewer page faults and TLB misses on long arrays; advice only, so failure changes nothing.
  if (bytes >= kHugeBytes) madvise(block, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return block;
}

std::atomic<HostMemory*> other_memory = nullptr;  // once there is one, its blocks may come back
thread_local HostMemory* chosen_memory = nullptr;

}  // namespace

HostMemoryScope::HostMemoryScope(HostMemory& memory) {
  other_memory = &memory;
  chosen_memory = &memory;
}
HostMemoryScope::~HostMemoryScope() { chosen_memory = nullptr; }

void* allocate(int64_t bytes) {
  // Beyond it the rounded size would not be a number of 64 bits.
  if (static_cast<uint64_t>(bytes) > static_cast<uint64_t>(kMostBlockBytes)) [[unlikely]] {
    fail("allocate: out of memory: ", bytes_text(bytes),  // which no allocation is to pay for
         " asked for; use smaller batches or release tensors");
  }
  if (chosen_memory) [[unlikely]]
    return chosen_memory->allocate(bytes);
  const int64_t size = block_bytes(bytes);
  if (kCaching && size <= kSmallBytes && small_cache.is_open()) {
    const auto index = size / kAlignment;
    if (auto* block = small_cache.lists[index]) {
      small_cache.lists[index] = block->next;
      --small_cache.counts[index];
      return block;
    }
  } else if (kCaching && size > kSmallBytes) {
    if (void* block = shared_cache.take(size)) return block;
  }
  return system_block(size);
}

void deallocate(void* block, int64_t bytes) noexcept {
  if (!block) return;
  HostMemory* const other = other_memory.load(std::memory_order_acquire);
  if (other && other->deallocate(block)) [[unlikely]]
    return;
  const int64_t size = block_bytes(bytes);
  if (kCaching && size <= kSmallBytes && small_cache.is_open()) {
    const auto index = size / kAlignment;
    if (small_cache.counts[index] < SmallCache::kKeep && size > 0) {
      small_cache.lists[index] = new (block) Block{small_cache.lists[index]};
      ++small_cache.counts[index];
      return;
    }
  } else if (kCaching && size > kSmallBytes && shared_cache.give(block, size)) {
    return;
  }
  std::free(block);
}

void check_room(const char* op, int64_t count) {
  constexpr int64_t kMany = 1 << 20, kBytes = 256;  // of a tensor at the least
  if (count <= kMany) return;
  check(count <= kMostBlockBytes / kBytes, op, ": out of memory: ", count,
        " tensors do not fit; use fewer");
  try {
    deallocate(allocate(count * kBytes), count * kBytes);
  } catch (const Error&) {
    fail(op, ": out of memory: ", count, " tensors do not fit; use fewer");
  }
}

int64_t cached_bytes() {
  const std::lock_guard lock(shared_cache.mutex);
  return shared_cache.bytes;
}

void empty_cache() {
  shared_cache.clear();
  give_back();
}

}  // namespace hero::core
