#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.h"

#include <hero/core/error_scope.h>
#include <hero/core/thread_pool.h>

namespace {

using hero::parallel_for;
using hero::ThreadLimit;

std::vector<std::pair<int64_t, int64_t>> chunks_of(int64_t n, int64_t grain) {
  std::vector<std::pair<int64_t, int64_t>> chunks(static_cast<size_t>(n / grain + 1));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    chunks[static_cast<size_t>(begin / grain)] = {begin, end};
  });
  return chunks;
}

TEST_CASE("parallel_for visits every index once", "[core][threads]") {
  for (const int threads : {1, 2, 3, 8}) {
    const ThreadLimit limit(threads);
    for (const int64_t n : {0, 1, 2, 7, 64, 1000, 4097}) {
      for (const int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(n));
        parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        for (const auto& count : visits) REQUIRE(count == 1);
      }
    }
  }
}

TEST_CASE("parallel_for cuts the same chunks for any number of threads", "[core][threads]") {
  for (const int64_t n : {10, 1000, 1024}) {
    const ThreadLimit one(1);
    const auto expected = chunks_of(n, 9);
    for (const int threads : {2, 3, 5}) {
      const ThreadLimit limit(threads);
      REQUIRE(chunks_of(n, 9) == expected);
    }
  }
}

TEST_CASE("parallel_for uses the other threads", "[core][threads]") {
  const ThreadLimit limit(3);
  std::atomic<int> present{0};
  // Three chunks that wait for each other end only if three threads run them at the same time.
  parallel_for(3, 1, [&](int64_t, int64_t) {
    ++present;
    while (present < 3) std::this_thread::yield();
  });
  REQUIRE(present == 3);
}

TEST_CASE("a thread's chunks are neighbours, and the same ones every time", "[core][threads]") {
  const ThreadLimit limit(2);
  const auto self = std::this_thread::get_id();
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::atomic<bool> first = false, second = false;
    // Of six chunks the caller's are the first three. In the last of its own each thread waits for
    // the other one to come to its last, so that neither takes what is the other's.
    std::vector<std::thread::id> threads(6);
    parallel_for(6, 1, [&](int64_t i, int64_t) {
      threads[static_cast<size_t>(i)] = std::this_thread::get_id();
      if (i == 2) first = true;
      if (i == 5) second = true;
      while ((i == 2 || i == 5) && !(first && second)) std::this_thread::yield();
    });
    for (int i = 0; i < 3; ++i) REQUIRE(threads[static_cast<size_t>(i)] == self);
    for (int i = 3; i < 6; ++i) REQUIRE(threads[static_cast<size_t>(i)] != self);
  }
}

TEST_CASE("parallel_for at one thread stays on the calling thread", "[core][threads]") {
  const ThreadLimit limit(1);
  const auto self = std::this_thread::get_id();
  int chunks = 0;
  parallel_for(100, 1, [&](int64_t, int64_t) {
    ++chunks;
    REQUIRE(std::this_thread::get_id() == self);
  });
  REQUIRE(chunks == 100);
}

TEST_CASE("a region inside a region runs inline and does not hang", "[core][threads]") {
  const ThreadLimit limit(3);
  std::atomic<int64_t> sum{0};
  std::atomic<int> strayed{0};
  REQUIRE_FALSE(hero::in_parallel_region());
  parallel_for(50, 1, [&](int64_t begin, int64_t) {
    const auto self = std::this_thread::get_id();
    if (!hero::in_parallel_region()) ++strayed;
    parallel_for(20, 1, [&](int64_t b, int64_t) {
      if (std::this_thread::get_id() != self) ++strayed;
      sum += begin * 20 + b;
    });
  });
  REQUIRE(strayed == 0);
  REQUIRE(sum == 1000 * 999 / 2);
  REQUIRE_FALSE(hero::in_parallel_region());
}

TEST_CASE("the first exception of a region reaches the caller and the pool goes on",
          "[core][threads]") {
  for (const int threads : {1, 2, 3}) {
    const ThreadLimit limit(threads);
    for (int round = 0; round < 20; ++round) {
      const auto failing = [&](int64_t begin, int64_t) {
        if (begin % 5 == 3) throw std::runtime_error("chunk failed");
      };
      REQUIRE_THROWS_AS(parallel_for(100, 1, failing), std::runtime_error);
      REQUIRE_FALSE(hero::in_parallel_region());
      std::atomic<int> count{0};
      parallel_for(100, 1, [&](int64_t, int64_t) { ++count; });
      REQUIRE(count == 100);
    }
  }
}

TEST_CASE("errors of the other threads pass through the caller's scopes", "[core][threads]") {
  struct Outer : hero::detail::ErrorScope {
    Outer() : ErrorScope([](const ErrorScope&, std::string& line) { line = "outer " + line; }) {
      enter();
    }
  };
  const ThreadLimit limit(2);
  const auto fail_elsewhere = [self = std::this_thread::get_id()] {
    std::atomic<int> present{0};
    parallel_for(2, 1, [&](int64_t, int64_t) {
      ++present;
      while (present < 2) std::this_thread::yield();
      if (std::this_thread::get_id() != self) hero::fail("inner: failed");
    });
  };
  {
    const Outer twice, scopes;
    REQUIRE_THROWS_WITH(fail_elsewhere(), "outer outer inner: failed");
  }
  REQUIRE_THROWS_WITH(fail_elsewhere(), "inner: failed");
}

TEST_CASE("several threads may start regions at once", "[core][threads]") {
  const ThreadLimit limit(2);
  std::vector<int64_t> sums(4);
  std::vector<std::thread> callers;
  for (size_t c = 0; c < sums.size(); ++c) {
    callers.emplace_back([&, c] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<int64_t> sum{0};
        parallel_for(64, 4, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i;
        });
        sums[c] += sum;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  for (const int64_t sum : sums) REQUIRE(sum == 200 * (64 * 63 / 2));
}

TEST_CASE("the number of threads may change while others compute", "[core][threads]") {
  const ThreadLimit limit(2);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread caller([&] {
    while (!stop) {
      std::atomic<int> count{0};
      parallel_for(32, 1, [&](int64_t, int64_t) { ++count; });
      if (count != 32) ++wrong;
    }
  });
  for (int round = 0; round < 30; ++round) hero::set_num_threads(1 + round % 4);
  stop = true;
  caller.join();
  REQUIRE(wrong == 0);
}

TEST_CASE("workers wake again after a sleep", "[core][threads]") {
  const ThreadLimit limit(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // well past the time of spinning
    std::atomic<int> present{0};
    parallel_for(2, 1, [&](int64_t, int64_t) {
      ++present;
      while (present < 2) std::this_thread::yield();
    });
    REQUIRE(present == 2);
  }
}

TEST_CASE("wrong numbers of threads and grains are errors", "[core][threads]") {
  REQUIRE_THROWS_AS(hero::set_num_threads(0), hero::Error);
  REQUIRE_THROWS_AS(hero::set_num_threads(1 << 20), hero::Error);
  REQUIRE_THROWS_AS(parallel_for(10, 0, [](int64_t, int64_t) {}), hero::Error);
  const ThreadLimit limit(2);
  const auto change = [](int64_t, int64_t) { hero::set_num_threads(3); };
  REQUIRE_THROWS_AS(parallel_for(10, 1, change), hero::Error);
  REQUIRE(hero::num_threads() == 2);
}

TEST_CASE("thread limits may end in any order", "[core][threads]") {
  const int before = hero::num_threads();
  auto first = std::make_unique<ThreadLimit>(5);
  auto second = std::make_unique<ThreadLimit>(3);
  REQUIRE(hero::num_threads() == 3);
  first.reset();
  REQUIRE(hero::num_threads() == 3);
  auto third = std::make_unique<ThreadLimit>(2);
  second.reset();
  REQUIRE(hero::num_threads() == 2);
  hero::set_num_threads(6);  // ends with the limit
  REQUIRE(hero::num_threads() == 6);
  third.reset();
  REQUIRE(hero::num_threads() == before);
}

TEST_CASE("limits of several threads leave the number as it was", "[core][threads]") {
  const int before = hero::num_threads();
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([caller] {
      for (int round = 0; round < 50; ++round) {
        const ThreadLimit limit(1 + (caller + round) % 3);
        parallel_for(8, 1, [](int64_t, int64_t) {});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  REQUIRE(hero::num_threads() == before);
}

TEST_CASE("a thread limit ends with its scope", "[core][threads]") {
  const int before = hero::num_threads();
  {
    const ThreadLimit limit(before + 1);
    REQUIRE(hero::num_threads() == before + 1);
  }
  REQUIRE(hero::num_threads() == before);
}

}  // namespace
