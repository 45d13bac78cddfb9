#pragma once
// A stream-ordered caching allocator. It knows no CUDA: where memory and events come from is an
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

/// A stream or an event, as who made it knows it.
using StreamId = void*;
using EventId = void*;

/// Where a caching allocator takes its segments from.
class Upstream {
 public:
  virtual ~Upstream() = default;
  /// Memory aligned to 256 bytes or more; null when there is not enough.
  virtual void* allocate(int64_t bytes) = 0;
  /// Takes a segment back, whatever streams still do with it (the device is waited for); false
  /// where it cannot now, as that wait might not end: the segment stays until a later call.
  virtual bool free(void* segment) noexcept = 0;
  /// Called, without a lock held, before cached segments go back because memory ran out: waits
  /// until free() can take them; false where that never comes.
  virtual bool before_free() noexcept { return true; }
  /// Marks the end of what `stream` was asked for until now; null when that cannot be said any
  /// more, which counts as passed.
  virtual EventId record(StreamId stream) noexcept = 0;
  virtual bool passed(EventId event) noexcept = 0;
  /// Returns when it has passed, or at once where that wait might not end.
  virtual void wait(EventId event) noexcept = 0;
  /// The event is not asked for again.
  virtual void drop(EventId event) noexcept = 0;
  /// The device and what it has left, as part of an error: "cuda:0 (1.0 GiB free of 80.0 GiB)".
  virtual std::string describe() = 0;
};

/// Hands out blocks of memory for streams. A block that comes back is handed out again on its
/// stream at once, since that stream does things in order; for another stream that used it
/// (record_use) its reuse waits for an event. All members may be called from any thread.
///
/// Sizes are rounded to 512 bytes. Blocks of at most 1 MiB are cut from segments of 2 MiB; larger
/// ones get segments of their own, rounded to 2 MiB, which are cut when they serve smaller blocks.
/// Free neighbours are joined. A segment belongs to one stream and one pool.
class CachingAllocator {
 public:
  static constexpr int64_t kRounding = 512;
  static constexpr int64_t kSmallBlock = 1 << 20;
  static constexpr int64_t kSmallSegment = 2 << 20;

  /// With caching off each block is a segment of exactly the bytes asked for and is given back at
  /// once, or with a later call where the upstream says so (memory checkers then see every block);
  /// private pools cache nevertheless.
  explicit CachingAllocator(Upstream& upstream, bool caching = true);
  /// Gives every segment back, also those of blocks that are in use.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// bytes > 0. Throws when, after the cache was given back, there still is not enough.
  void* allocate(int64_t bytes, StreamId stream);
  /// `block` came from allocate(); `user` as for record_use, if not null.
  void deallocate(void* block, StreamId user = nullptr) noexcept;
  /// `stream` uses the block, too: once freed it is reused only after what the stream was asked
  /// for by then.
  void record_use(void* block, StreamId stream);

  /// Whether `block` was handed out and has not come back.
  bool in_use(const void* block) const;

  /// \name Private pools
  /// A graph's memory must not serve others while it can be replayed.
  /// \{
  using PoolId = int64_t;
  PoolId make_pool();
  /// From now on the stream's blocks come from that pool. Meanwhile no event is recorded or asked
  /// for, since the stream may be capturing.
  void route(StreamId stream, PoolId pool);
  void end_route(StreamId stream);
  /// Its segments are given back as their blocks come back.
  void release_pool(PoolId pool) noexcept;
  /// \}

  /// Gives all cached segments that are free as a whole back to the device, except those of
  /// private pools.
  void empty_cache();
  MemoryStats stats() const;
  void reset_peaks();
  /// Throws when the books are wrong; for tests.
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
  // By stream, then size, then address: the first one not below what is wanted fits best.
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
  // Null where the upstream has not enough.
  Block* new_segment(Pool& pool, const Wanted& wanted, bool small);
  // Gives back what can go, because memory ran out; false where something has to stay.
  bool give_back() noexcept;
  void split(Block* block, int64_t bytes);
  static void add_use(Block& block, StreamId stream);
  void record_events(Block* block) noexcept;
  // False where events have not passed, for which it may wait.
  bool collect(bool wait) noexcept;
  void give(Block* block) noexcept;
  // Frees what had to stay when its last block came back.
  void free_late() noexcept;
  bool release(PoolId pool) noexcept;
  Block* join(Block* left, Block* right) noexcept;
  // False where the upstream does not take it now.
  bool free_segment(Segment* segment) noexcept;
  // Stops, and is false, at the first that the upstream does not take now.
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
  bool late_ = false;  // a segment stayed that is not cached
  MemoryStats stats_;
};

}  // namespace hero::cuda
