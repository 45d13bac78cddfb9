// Several worlds at a time, and worlds of very many ranks.
#include <thread>
#include <vector>

#include "dist/ranks.h"
#include "support/catch.h"
#include "support/sanitized.h"

#include <hero/core/thread_pool.h>
#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

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
