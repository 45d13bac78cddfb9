// The caching allocator over the host's memory, and what the library does with it.
#include <atomic>
#include <thread>

#include "cuda/gpu.h"
#include "cuda/host_upstream.h"

#include <hero/core/array.h>
#include <hero/core/kernels/philox.h>

using namespace hero;
using namespace hero_test;
using namespace hero_test::on_host;
using namespace hero::cuda;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a freed block is handed out again on its stream at once and on no other") {
  HostUpstream host;
  CachingAllocator memory(host);
  for (const int64_t bytes : {int64_t{1}, int64_t{512}, int64_t{5000}, kMiB, kMiB + 1, 9 * kMiB}) {
    void* first = memory.allocate(bytes, kA);
    memory.deallocate(first);
    void* elsewhere = memory.allocate(bytes, kB);
    CHECK(elsewhere != first);
    void* again = memory.allocate(bytes, kA);
    CHECK(again == first);
    memory.deallocate(elsewhere);
    memory.deallocate(again);
    memory.check_invariants();
  }
  CHECK(host.events() == 0);
}

TEST_CASE("a block that another stream used waits for what that stream was asked") {
  HostUpstream host;
  CachingAllocator memory(host);
  void* block = memory.allocate(3 * kMiB, kA);
  SECTION("said by record_use") {
    memory.record_use(block, kB);
    memory.record_use(block, kA);  // its own stream needs no event
    memory.deallocate(block);
  }
  SECTION("said with its return") { memory.deallocate(block, kB); }
  CHECK(host.events() == 1);
  CHECK(memory.stats().waiting == 4 * kMiB);  // what is left of its segment is too little to cut
  CHECK(memory.stats().allocated == 0);
  void* other = memory.allocate(3 * kMiB, kA);
  CHECK(other != block);
  memory.check_invariants();
  host.finish(kB);
  void* again = memory.allocate(3 * kMiB, kA);
  CHECK(again == block);
  CHECK(host.events() == 0);
  CHECK(memory.stats().waiting == 0);
  memory.check_invariants();
}

TEST_CASE("small blocks share a segment, large ones are cut, and neighbours join again") {
  HostUpstream host;
  CachingAllocator memory(host);
  std::vector<void*> blocks;
  for (int i = 0; i < 4096; ++i) blocks.push_back(memory.allocate(1 + i % 512, kA));
  CHECK(host.held() == 2 * kMiB);
  memory.check_invariants();
  for (size_t i = 0; i < blocks.size(); i += 2) memory.deallocate(blocks[i]);
  for (size_t i = 1; i < blocks.size(); i += 2) memory.deallocate(blocks[i]);
  memory.check_invariants();
  void* half = memory.allocate(kMiB, kA);
  CHECK(host.held() == 2 * kMiB);
  memory.deallocate(half);

  void* large = memory.allocate(10 * kMiB, kA);
  CHECK(host.held() == 12 * kMiB);
  memory.deallocate(large);
  void* left = memory.allocate(4 * kMiB, kA);
  void* right = memory.allocate(6 * kMiB, kA);
  CHECK(left == large);
  CHECK(right == static_cast<std::byte*>(large) + 4 * kMiB);
  CHECK(host.held() == 12 * kMiB);
  memory.deallocate(left);
  memory.empty_cache();
  CHECK(host.held() == 10 * kMiB);  // the small segment went, half of the large one is in use
  memory.deallocate(right);
  memory.check_invariants();
  memory.empty_cache();
  CHECK(host.held() == 0);
}

TEST_CASE("when memory runs out the cache is given back, and then an error says what is held") {
  HostUpstream host(16 * kMiB);
  CachingAllocator memory(host);
  void* kept = memory.allocate(3 * kMiB, kA);
  memory.deallocate(memory.allocate(7 * kMiB, kA));
  void* waits = memory.allocate(4 * kMiB, kA);  // cut from those 8
  memory.deallocate(waits, kB);
  CHECK(memory.stats().retries == 0);
  void* large = memory.allocate(12 * kMiB, kA);  // waits for B's event
  CHECK(memory.stats().retries == 1);
  CHECK(host.held() == 16 * kMiB);
  memory.check_invariants();
  const int64_t allocations = memory.stats().allocations;
  CHECK_THROWS_WITH(memory.allocate(kMiB, kA),
                    "allocate: out of memory on host (a test): 1.00 MiB asked for; arrays hold "
                    "16.00 MiB, 0 B are cached in pieces or kept for graphs; use smaller batches "
                    "or release tensors");
  CHECK(memory.stats().allocations == allocations);
  memory.check_invariants();
  memory.deallocate(large);
  memory.deallocate(kept);
  CHECK(memory.allocate(16 * kMiB, kB) != nullptr);
}

TEST_CASE("a private pool serves its stream only while it is routed, and keeps its memory") {
  HostUpstream host;
  CachingAllocator memory(host);
  void* cached = memory.allocate(100, kA);
  memory.deallocate(cached);
  const auto pool = memory.make_pool();
  memory.route(kA, pool);
  CHECK_THROWS_WITH(memory.route(kA, pool), ContainsSubstring("from a pool already"));
  void* own = memory.allocate(100, kA);
  void* outlives = memory.allocate(100, kA);
  CHECK(own != cached);
  CHECK(memory.allocate(100, kB) != cached);
  memory.deallocate(own);
  CHECK(memory.allocate(100, kA) == own);
  memory.deallocate(own, kB);  // no event can be recorded while a stream is captured
  CHECK(host.events() == 0);
  CHECK(memory.allocate(100, kA) != own);
  memory.check_invariants();
  memory.end_route(kA);
  CHECK(host.events() == 1);
  host.finish(kB);
  CHECK(memory.allocate(100, kA) == cached);
  memory.check_invariants();
  const int64_t held = host.held();
  memory.empty_cache();
  CHECK(host.held() == held);  // everything is in use or the pool's
  SECTION("memory goes back with the last block") {
    memory.release_pool(pool);
    CHECK(host.held() == held);
    memory.deallocate(outlives);
    memory.check_invariants();
  }
  SECTION("a pool without blocks goes back at once") {
    const auto other = memory.make_pool();
    memory.route(kB, other);
    void* block = memory.allocate(5 * kMiB, kB);
    memory.end_route(kB);
    memory.deallocate(block);
    CHECK(host.held() == held + 6 * kMiB);
    memory.release_pool(other);
    CHECK(host.held() == held);
    CHECK_THROWS_WITH(memory.route(kB, other), ContainsSubstring("there is no pool"));
  }
}

TEST_CASE("statistics count what is in use, held and asked for") {
  HostUpstream host;
  CachingAllocator memory(host);
  void* a = memory.allocate(1000, kA);
  void* b = memory.allocate(5 * kMiB, kA);
  MemoryStats stats = memory.stats();
  CHECK(stats.allocated == 1024 + 6 * kMiB);  // the last MiB of b's segment is not cut off
  CHECK(stats.reserved == 8 * kMiB);
  CHECK(stats.cached() == 8 * kMiB - stats.allocated);
  memory.deallocate(b);
  stats = memory.stats();
  CHECK(stats.allocated == 1024);
  CHECK(stats.peak_allocated == 1024 + 6 * kMiB);
  CHECK(stats.allocations == 2);
  CHECK(stats.frees == 1);
  CHECK(stats.device_allocations == 2);
  memory.empty_cache();
  memory.reset_peaks();
  stats = memory.stats();
  CHECK(stats.reserved == 2 * kMiB);
  CHECK(stats.peak_reserved == 2 * kMiB);
  CHECK(stats.peak_allocated == 1024);
  CHECK(stats.device_frees == 1);
  memory.deallocate(a);
}

TEST_CASE("with caching off every block comes from the device and goes back to it") {
  HostUpstream host;
  CachingAllocator memory(host, false);
  void* a = memory.allocate(1000, kA);
  void* b = memory.allocate(3, kA);
  CHECK(host.held() == 1003);
  memory.deallocate(a);
  CHECK(host.held() == 3);
  memory.deallocate(b, kB);
  CHECK(host.held() == 3);
  host.finish(kB);
  memory.empty_cache();
  CHECK(host.held() == 0);
  memory.check_invariants();
}

namespace {

// What must hold of blocks, kept beside the allocator: no two in use overlap, none overlaps what a
// stream may still be using, none lies in another stream's segment.
class Model {
 public:
  explicit Model(HostUpstream& host) : host_(host) {}

  bool taken(void* block, int64_t bytes, StreamId stream) {
    const std::lock_guard lock(mutex_);
    auto* at = static_cast<std::byte*>(block);
    bool right = host_.belongs(block, bytes, stream);
    for (const Busy& busy : in_use_) right = right && !busy.overlaps(at, bytes);
    std::erase_if(waiting_, [&](const Busy& busy) { return host_.done(busy.user) >= busy.until; });
    for (const Busy& busy : waiting_) right = right && !busy.overlaps(at, bytes);
    in_use_.push_back({at, bytes, nullptr, 0});
    return right;
  }
  // Called before the allocator hears of it: afterwards the block may be somebody's already.
  void returned(void* block, StreamId user) {
    const std::lock_guard lock(mutex_);
    for (Busy& busy : in_use_) {
      if (busy.at != block) continue;
      if (user) waiting_.push_back({busy.at, busy.bytes, user, host_.asked(user) + 1});
      busy = in_use_.back();
      in_use_.pop_back();
      return;
    }
  }

 private:
  struct Busy {
    std::byte* at;
    int64_t bytes;
    StreamId user;
    int64_t until;
    bool overlaps(const std::byte* other, int64_t size) const {
      return other < at + bytes && at < other + size;
    }
  };
  HostUpstream& host_;
  std::mutex mutex_;
  std::vector<Busy> in_use_, waiting_;
};

struct Held {
  void* block;
  StreamId user;
};

// Random work of one thread; true when no rule was broken. Blocks go through `shared`, so that
// others free what this one allocated.
bool play(uint64_t seed, int steps, CachingAllocator& memory, HostUpstream& host, Model& model,
          std::vector<Held>& shared, std::mutex& mutex, bool alone) {
  bool right = true;
  for (int step = 0; step < steps; ++step) {
    const auto random = philox::block(seed, 0, static_cast<uint64_t>(step));
    const StreamId stream = &streams[random.word[0] % 3];
    const StreamId other = &streams[random.word[1] % 3];
    const uint32_t choice = random.word[2] % 100;
    if (choice < 50) {
      const int64_t scale = int64_t{1} << (random.word[3] % 23);
      const int64_t bytes = 1 + static_cast<int64_t>(random.word[3] >> 5) % scale;
      try {
        void* block = memory.allocate(bytes, stream);
        right = model.taken(block, bytes, stream) && right;
        const bool elsewhere = other != stream && choice < 20;
        if (elsewhere) memory.record_use(block, other);
        const std::lock_guard lock(mutex);
        shared.push_back({block, elsewhere ? other : nullptr});
      } catch (const Error&) {
        if (alone) memory.check_invariants();
      }
    } else if (choice < 95) {
      Held held{};
      {
        const std::lock_guard lock(mutex);
        if (shared.empty()) continue;
        std::swap(shared[random.word[3] % shared.size()], shared.back());
        held = shared.back();
        shared.pop_back();
      }
      model.returned(held.block, held.user);
      memory.deallocate(held.block);
    } else if (choice < 99) {
      host.finish(stream);
    } else {
      memory.empty_cache();
    }
    if (alone && step % 64 == 0) memory.check_invariants();
  }
  return right;
}

}  // namespace

TEST_CASE("whatever is asked in whatever order, blocks never overlap and the books are right") {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    HostUpstream host(48 * kMiB);
    {
      CachingAllocator memory(host);
      Model model(host);
      std::vector<Held> held;
      std::mutex mutex;
      CHECK(play(seed, 4000, memory, host, model, held, mutex, true));
      CHECK(memory.stats().retries > 0);
      for (const Held& one : held) memory.deallocate(one.block);
      for (int& stream : streams) host.finish(&stream);
      memory.empty_cache();
      memory.check_invariants();
      CHECK(memory.stats().reserved == 0);
      CHECK(host.events() == 0);
    }
    CHECK(host.held() == 0);
  }
}

TEST_CASE("threads free each other's blocks, and still none overlap") {
  HostUpstream host(64 * kMiB);
  CachingAllocator memory(host);
  Model model(host);
  std::vector<Held> held;
  std::mutex mutex;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint64_t seed = 10; seed < 14; ++seed) {
    threads.emplace_back([&, seed] {
      if (!play(seed, 2000, memory, host, model, held, mutex, false)) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  memory.check_invariants();
}

TEST_CASE("arrays on the GPU come from the caching allocator") {
  HERO_NEEDS_GPU();
  const MemoryStats before = memory_stats();
  std::byte* at = nullptr;
  {
    const Array x = Array::empty({1000}, kFloat32, kGpu);
    at = x.storage().data();
    CHECK(memory_stats().allocations == before.allocations + 1);
    CHECK(memory_stats().allocated >= before.allocated + 4000);
  }
  CHECK(memory_stats().allocated == before.allocated);
#if !defined(__SANITIZE_ADDRESS__)  // where nothing is cached
  const Array y = Array::empty({999}, kFloat32, kGpu);
  CHECK(y.storage().data() == at);
#endif
  reset_peak_memory();
  CHECK(memory_stats().peak_allocated == memory_stats().allocated);
}
