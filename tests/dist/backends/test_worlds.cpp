// Several worlds at a time, and worlds of very many ranks.
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dist/ranks.h"
#include "support/catch.h"
#include "support/sanitized.h"
#include <sched.h>

#include <hero/core/thread_pool.h>
#include <hero/core/threads/cores.h>
#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

// On which the calling thread may run as it is.
std::vector<int> cores_now() {
  cpu_set_t set;
  CPU_ZERO(&set);
  expect(sched_getaffinity(0, sizeof set, &set) == 0, "the system says it");
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

void sum_ranks(Communicator& world) {
  const Array x = Array::full({100}, world.rank() + 1);
  world.all_reduce(x);
  expect(x.to_vector<float>()[99] == static_cast<float>(world.size() * (world.size() + 1) / 2),
         "the sum of all ranks");
}

TEST_CASE("worlds started from several threads leave the pool as it was", "[dist][threads]") {
  const ThreadLimit limit(4);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller) {
      callers.emplace_back([=] {
        for (int i = 0; i < 3; ++i) run_ranks(2 + (caller + i) % 3, sum_ranks);
      });
    }
    for (std::thread& caller : callers) caller.join();
    REQUIRE(num_threads() == 4);
  }
}

TEST_CASE("a world that fails leaves the pool as it was", "[dist][threads]") {
  const ThreadLimit limit(4);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([=] {
      const auto fails = [](Communicator& world) {
        if (world.rank() == 1) fail("rank 1 fails");
        world.barrier();
      };
      for (int i = 0; i < 3; ++i) errors_of(3, fails);
    });
  }
  for (std::thread& caller : callers) caller.join();
  REQUIRE(num_threads() == 4);
}

TEST_CASE("ranks that are bound have a core each, and the pool's threads all cores",
          "[dist][threads]") {
  const std::vector<int> cores = core::usable_cores();
  if (cores.size() < 2) return;  // there is nothing to choose from
  run_ranks(2,
            [&](Communicator& world) {
              const auto mine = static_cast<size_t>(world.rank());
              expect(cores_now() == std::vector<int>{cores[mine]}, "its core");
              expect(core::usable_cores() == cores, "the process has all of them");
              sum_ranks(world);
            },
            {.bind_to_cores = true});
  CHECK(cores_now() == cores);
  const ThreadLimit limit(3);  // more than there were: new threads are started below
  run_ranks(1,
            [&](Communicator&) {
              CHECK(cores_now().size() == 1);
              const std::thread::id me = std::this_thread::get_id();
              std::mutex mutex;
              std::set<std::thread::id> seen;
              for (int round = 0; round < 1000 && seen.size() < 2; ++round) {
                parallel_for(64, 1, [&](int64_t, int64_t) {
                  const std::lock_guard<std::mutex> lock(mutex);
                  seen.insert(std::this_thread::get_id());
                  if (std::this_thread::get_id() != me) expect(cores_now() == cores, "of the pool");
                  std::this_thread::sleep_for(std::chrono::microseconds(10));
                });
              }
              CHECK(seen.size() >= 2);
            },
            {.bind_to_cores = true});
  CHECK(cores_now() == cores);
}

TEST_CASE("ranks cannot be bound to more cores than there are", "[dist]") {
  const int cores = static_cast<int>(core::usable_cores().size());
  CHECK_THROWS_WITH(run_ranks(cores + 1, [](Communicator&) {}, {.bind_to_cores = true}),
                    Catch::Matchers::StartsWith(
                        "run_ranks: bind_to_cores: " + std::to_string(cores + 1) + " ranks, but"));
}

TEST_CASE("a thousand ranks run and end", "[dist]") {
  std::vector<std::string> words{"train", "--ranks", hero_test::kIsSanitized ? "100" : "1000"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  auto argc = static_cast<int>(words.size());
  const auto program = [](Communicator& world) {
    for (int i = 0; i < 3; ++i) sum_ranks(world);
    world.barrier();
  };
  REQUIRE(launch(argc, argv.data(), program) == 0);
}

}  // namespace
