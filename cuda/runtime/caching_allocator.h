#pragma once
// A stream-ordered caching allocator. It has no code for CUDA: memory and events come from an
// Upstream, so that tests run it over the host's memory.
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <hero/cuda/memory_stats.h>

namespace hero::cuda {

/// The handle of a stream or an event, which only the Upstream interprets.
using StreamId = void*;
using EventId = void*;

/// The source of a caching allocator's segments and events.
class Upstream {
 public:
  virtual ~Upstream() = default;
  /// Allocates memory aligned to 256 bytes or more; null if there is not enough. Called without a
  /// lock held.
  virtual void* allocate(int64_t bytes) = 0;
  /// Frees a segment that streams may still use, for which it waits for the device. Returns false
  /// if it may not wait now, as the wait might not end: the segment stays until a later call.
  virtual bool free(void* segment) noexcept = 0;
  /// Called, without a lock held, before cached segments are freed because memory ran out: waits
  /// until free() can succeed. Returns false if it never will.
  virtual bool before_free() noexcept { return true; }
  /// Records an event after all work that `stream` was given so far; null if it cannot be recorded
  /// any more, which counts as passed.
  virtual EventId record(StreamId stream) noexcept = 0;
  virtual bool passed(EventId event) noexcept = 0;
  /// Waits until the event has passed, but returns at once if that wait might not end.
  virtual void wait(EventId event) noexcept = 0;
  /// Destroys the event.
  virtual void drop(EventId event) noexcept = 0;
  /// The device and its free memory, as part of an error: "cuda:0 (1.0 GiB free of 80.0 GiB)".
  virtual std::string describe() = 0;
};

/// Allocates blocks of memory for streams. A freed block can be reused on its stream at once, since
/// a stream works in order; if another stream has used it (record_use), its reuse waits for an
/// event of that stream. All members may be called from any thread.
///
/// Sizes are rounded to 512 bytes. Blocks of at most 1 MiB are cut from segments of 2 MiB; larger
/// ones get segments of their own, rounded to 2 MiB, which are cut when they serve smaller blocks.
/// Free neighbours are joined. A segment belongs to one stream and one pool.
class CachingAllocator {
 public:
  static constexpr int64_t kRounding = 512;
  static constexpr int64_t kSmallBlock = 1 << 20;
  static constexpr int64_t kSmallSegment = 2 << 20;

  /// With caching off, each block is a segment of exactly the requested bytes and is freed at once,
  /// or with a later call if Upstream::free() returns false, so that memory checkers see every
  /// block; private pools cache nevertheless.
  explicit CachingAllocator(Upstream& upstream, bool caching = true);
  /// Frees every segment, also those of blocks that are in use.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// Allocates a block; bytes > 0. Throws an Error if there is not enough memory even after the
  /// cached segments were freed.
  void* allocate(int64_t bytes, StreamId stream);
  /// Frees a block of allocate(). A `user` that is not null is a stream that uses it, as for
  /// record_use().
  void deallocate(void* block, StreamId user = nullptr) noexcept;
  /// Records that `stream` uses the block, too: once freed, the block is reused only after the work
  /// that the stream was given by then.
  void record_use(void* block, StreamId stream);

  /// Whether `block` was allocated here and has not been freed.
  bool in_use(const void* block) const;

  /// \name Private pools
  /// The memory of a graph must not be used for anything else while the graph can be replayed.
  /// \{
  using PoolId = int64_t;
  PoolId make_pool();
  /// Takes the stream's new blocks from that pool until end_route(). Meanwhile no event is recorded
  /// or queried, since the stream may be capturing.
  void route(StreamId stream, PoolId pool);
  void end_route(StreamId stream);
  /// Releases a pool: its segments are freed as their blocks are freed.
  void release_pool(PoolId pool) noexcept;
  /// \}

  /// Frees all cached segments of which no part is in use, except those of private pools.
  void empty_cache();
  MemoryStats stats() const;
  void reset_peaks();
  /// Throws an Error if the lists of blocks and segments contradict each other; for tests.
  void check_invariants() const;

 private:
  struct Segment;
  struct Pool;
  struct Block {
    std::byte* at;
    int64_t bytes;
    Segment* segment;
    Block* before = nullptr;  // neighbours in the segment
    Block* after = nullptr;
    bool in_use = false;
    int waits_for = 0;           // events
    std::vector<StreamId> uses;  // streams other than the segment's
    bool deferred = false;       // freed while a route was open
    bool free() const { return !in_use && waits_for == 0 && !deferred; }
  };
  struct Segment {
    std::byte* at;
    int64_t bytes;
    StreamId stream;
    Pool* pool;
    bool small;
    Block* first;
  };
  struct Wanted {
    StreamId stream;
    int64_t bytes;
  };
  // By stream, then size, then address: the first block not below a Wanted fits best.
  struct Order {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const;
    bool operator()(const Block* a, const Wanted& b) const;
  };
  using FreeBlocks = std::set<Block*, Order>;
  struct Pool {
    FreeBlocks small, large;
    bool cached = true;
    bool released = false;
    int64_t segments = 0;
    FreeBlocks& blocks(bool of_small) { return of_small ? small : large; }
  };
  struct Pending {
    EventId event;
    Block* block;
  };

  Pool& pool_for(StreamId stream);
  Block* take(Pool& pool, const Wanted& wanted, bool small);
  // Null if the upstream does not have enough memory.
  /// Lets go of the lock meanwhile.
  Block* new_segment(Pool& pool, const Wanted& wanted, bool small,
                     std::unique_lock<std::mutex>& lock);
  // Frees the cached segments that can be freed, because memory ran out; false if one has to stay.
  bool give_back() noexcept;
  void split(Block* block, int64_t bytes);
  static void add_use(Block& block, StreamId stream);
  void record_events(Block* block) noexcept;
  // Makes blocks free whose events have passed, for which it waits if `wait`; false if some have
  // not.
  bool collect(bool wait) noexcept;
  void give(Block* block) noexcept;
  // Frees segments that could not be freed when their last blocks were.
  void free_late() noexcept;
  bool release(PoolId pool) noexcept;
  Block* join(Block* left, Block* right) noexcept;
  // False if the upstream cannot free it now.
  bool free_segment(Segment* segment) noexcept;
  // Frees the pool's segments without blocks in use; stops, and returns false, at the first that
  // the upstream cannot free now.
  bool free_whole(Pool& pool) noexcept;
  [[noreturn]] void out_of_memory(int64_t bytes);

  Upstream& upstream_;
  mutable std::mutex mutex_;
  Pool own_;
  std::map<PoolId, std::unique_ptr<Pool>> pools_;
  PoolId next_pool_ = 1;
  std::map<StreamId, Pool*> routes_;
  std::map<Segment*, std::unique_ptr<Segment>> segments_;
  std::unordered_map<const void*, Block*> in_use_;
  std::map<StreamId, std::deque<Pending>> pending_;
  std::vector<Block*> deferred_;
  bool late_ = false;  // a segment that is not cached could not be freed
  MemoryStats stats_;
};

}  // namespace hero::cuda
