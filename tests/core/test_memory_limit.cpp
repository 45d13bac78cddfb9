// What happens when there is no more memory: an Error, nothing lost, and no end of the process.
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/fork.h"
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/memory/allocator.h>

namespace {

using namespace hero;
using namespace hero::test;
using hero_test::run_forked;

constexpr int64_t kMiB = int64_t{1} << 20;

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // which have memory of their own

// The process gets no more than `bytes` beside what it has. In a child alone: there is no way back.
void limit_memory(int64_t bytes) {
  long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  check(file != nullptr && std::fscanf(file, "%ld", &pages) == 1, "cannot read statm");
  std::fclose(file);
  const auto most = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + bytes);
  const rlimit limit{most, most};
  check(::setrlimit(RLIMIT_AS, &limit) == 0, "cannot limit memory");
}

TEST_CASE("memory that the cache holds is given back before there is none", "[core][process]") {
  const auto child = [] {
    core::empty_cache();
    // What other tests have freed and the heap has kept would be room beside the limit: all of it
    // is taken first, and to be sure that there is some, this test frees some itself.
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // blocks of up to that size come from the heap
    std::vector<void*> freed, between;
    for (int i = 0; i < 10; ++i) {
      freed.push_back(std::malloc(size_t{30} << 20));
      between.push_back(std::malloc(100'000));  // so that the heap does not end before it
    }
    for (void* block : freed) std::free(block);
    ::mallopt(M_MMAP_THRESHOLD, 128 << 10);  // and from here on only what the heap has free
    for (size_t kept = ::mallinfo2().fordblks; kept > size_t{1} << 20;) {
      between.push_back(std::malloc(size_t{1} << 19));  // kept: a malloc of no use is left out
      const size_t left = ::mallinfo2().fordblks;
      if (left >= kept) break;
      kept = left;
    }
    limit_memory(300 * kMiB);
    for (int64_t size : {5, 6, 7, 9, 11, 13, 15, 18, 21, 25, 30, 35}) {
      Array::empty({size * kMiB}, kUInt8);
    }
    check(core::cached_bytes() > 150 * kMiB, "cached: ", core::cached_bytes());
    const Array large = Array::empty({200 * kMiB}, kUInt8);
    check(core::cached_bytes() == 0, "still cached: ", core::cached_bytes());
    bool refused = false;
    try {
      Array::empty({512 * kMiB}, kUInt8);
    } catch (const Error& error) {
      refused = std::string(error.what()).starts_with("allocate: out of memory: 512.00 MiB");
    }
    check(refused, "there was room for more than the limit");
  };
  REQUIRE(run_forked(child) == 0);
}

TEST_CASE("arrays can be let go when there is no memory at all", "[core][process]") {
  const auto child = [] {
    std::vector<Array> arrays;
    arrays.reserve(100'000);
    std::vector<void*> rest;
    rest.reserve(1'000'000);
    limit_memory(64 * kMiB);
    // Many sizes, so that a list by size would have to grow.
    bool full = false;
    try {
      for (int64_t i = 0; i < 100'000; ++i)
        arrays.push_back(Array::empty({5000 + 700 * (i % 500)}));
    } catch (const Error&) {
      full = true;
    }
    check(full, "the memory has no limit");
    // Then the heap itself, to the last byte.
    for (size_t size : {size_t{1} << 20, size_t{4096}, size_t{64}, size_t{16}}) {
      while (rest.size() < rest.capacity()) {
        void* const block = std::malloc(size);
        if (block == nullptr) break;
        rest.push_back(block);
      }
    }
    arrays.clear();
    for (void* block : rest) std::free(block);
    Array::zeros({1000, 1000});
  };
  REQUIRE(run_forked(child) == 0);
}

TEST_CASE("with no memory for a message there is still an Error", "[core][process]") {
  const auto child = [] {
    std::vector<void*> rest;
    rest.reserve(1'000'000);
    limit_memory(32 * kMiB);
    for (size_t size : {size_t{1} << 20, size_t{4096}, size_t{64}, size_t{16}}) {
      while (rest.size() < rest.capacity()) {
        void* const block = std::malloc(size);
        if (block == nullptr) break;
        rest.push_back(block);
      }
    }
    bool thrown = false;
    try {
      Array::empty({100 * kMiB});
    } catch (const Error&) {
      thrown = true;
    }
    for (void* block : rest) std::free(block);
    check(thrown, "no Error");
  };
  REQUIRE(run_forked(child) == 0);
}

#endif

TEST_CASE("sizes near the end of 64 bits are out of memory", "[core]") {
  const auto refused = [](int64_t bytes) {
    return error_of([=] { Array::empty({bytes}, kUInt8); })
        .starts_with("allocate: out of memory: ");
  };
  for (int power = 50; power < 63; ++power) {
    for (int64_t beside : {-1, 0, 1}) REQUIRE(refused((int64_t{1} << power) + beside));
  }
  for (int64_t beside = 0; beside < 100; ++beside) {
    REQUIRE(refused(std::numeric_limits<int64_t>::max() - beside));
    REQUIRE(refused(std::numeric_limits<int64_t>::max() / 16 * 15 + beside - 50));
  }
  REQUIRE(error_of([] {
            Array::empty({(int64_t{1} << 61) - 1});
          }).starts_with("allocate: out of memory: "));
  REQUIRE_THROWS_AS(core::allocate(-1), Error);
  REQUIRE_THROWS_AS(core::allocate(std::numeric_limits<int64_t>::min()), Error);
}

TEST_CASE("every size comes back to the list it was taken from", "[core]") {
  for (int64_t bytes = 4097; bytes < 40 * kMiB; bytes += bytes / 7) {
    void* const block = core::allocate(bytes);
    std::memset(block, 1, static_cast<size_t>(bytes));
    core::deallocate(block, bytes);
    void* const again = core::allocate(bytes);
    std::memset(again, 2, static_cast<size_t>(bytes));
    core::deallocate(again, bytes);
#if !defined(__SANITIZE_ADDRESS__)
    REQUIRE(again == block);
#endif
  }
  core::empty_cache();
  REQUIRE(core::cached_bytes() == 0);
}

}  // namespace
