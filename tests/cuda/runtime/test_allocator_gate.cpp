// The caching allocator where memory may not go back to the device yet (cuda/runtime/free_gate.h).
#include "cuda/gpu.h"
#include "cuda/host_upstream.h"

using namespace hero;
using namespace hero_test;
using namespace hero_test::on_host;
using namespace hero::cuda;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("what is not cached stays while the device may not be waited for") {
  HostUpstream host;
  CachingAllocator memory(host, false);
  void* a = memory.allocate(1000, kA);
  host.may_free = false;
  memory.deallocate(a);
  CHECK(host.held() == 1000);
  memory.check_invariants();
  void* b = memory.allocate(5000, kB);
  CHECK(host.held() == 6000);
  // nobody has a part of it, which could begin anywhere
  void* whole = memory.allocate(300, kA);
  CHECK(host.held() == 6300);
  CHECK(reinterpret_cast<uintptr_t>(whole) % CachingAllocator::kRounding == 0);
  memory.deallocate(whole);
  host.may_free = true;
  memory.deallocate(memory.allocate(10, kA));  // a later call
  CHECK(host.held() == 5000);

  const CachingAllocator::PoolId pool = memory.make_pool();
  memory.route(kA, pool);
  void* c = memory.allocate(1000, kA);
  void* d = memory.allocate(3 * kMiB, kA);
  memory.end_route(kA);
  memory.deallocate(d);  // its pool keeps it
  host.may_free = false;
  memory.release_pool(pool);
  memory.deallocate(c);
  CHECK(host.held() > 5000 + 3 * kMiB);
  memory.check_invariants();
  host.may_free = true;
  memory.empty_cache();
  CHECK(host.held() == 5000);
  memory.deallocate(b);
  CHECK(host.held() == 0);
  memory.check_invariants();
}

TEST_CASE("a cache that may not go back is no memory for others, and is not lost") {
  HostUpstream host(4 * kMiB);
  CachingAllocator memory(host);
  memory.deallocate(memory.allocate(3 * kMiB, kA));
  host.may_free = false;
  CHECK_THROWS_WITH(memory.allocate(3 * kMiB, kB), ContainsSubstring("out of memory"));
  CHECK(host.held() == 4 * kMiB);
  memory.empty_cache();
  CHECK(host.held() == 4 * kMiB);
  memory.check_invariants();
  memory.deallocate(memory.allocate(4 * kMiB, kA));  // still there
  CHECK(memory.stats().device_allocations == 1);
  host.opens = true;
  memory.deallocate(memory.allocate(3 * kMiB, kB));
  CHECK(memory.stats().device_frees == 1);
  memory.check_invariants();
}

TEST_CASE("what may not go back yet is waited for again before memory counts as used up") {
  HostUpstream host(4 * kMiB);
  CachingAllocator memory(host);
  host.may_free = false;
  host.opens = true;
  host.closes_again = 1;
  SECTION("a cache") { memory.deallocate(memory.allocate(3 * kMiB, kA)); }
  SECTION("a block that another stream uses") {
    memory.deallocate(memory.allocate(3 * kMiB, kA), kB);
  }
  SECTION("a graph's") {
    const auto pool = memory.make_pool();
    memory.route(kA, pool);
    void* block = memory.allocate(3 * kMiB, kA);
    memory.end_route(kA);
    memory.deallocate(block);
    memory.release_pool(pool);
  }
  memory.deallocate(memory.allocate(3 * kMiB, kB));
  CHECK(memory.stats().device_frees == 1);
  memory.check_invariants();
}
