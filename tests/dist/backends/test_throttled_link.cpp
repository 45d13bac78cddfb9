#include <chrono>

#include "dist/backends/collective_checks.h"
#include "support/catch.h"

#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr RunOptions kSlow = {.link_bytes_per_second = 1e6};

TEST_CASE("on a throttled link a call takes its bytes' time at least", "[dist][threads]") {
  run_ranks(
      2,
      [](Communicator& world) {
        const Array x = Array::full({5000}, world.rank() + 1);
        Clock::time_point start = Clock::now();
        world.all_reduce(x);
        expect(seconds_since(start) >= 0.02, "20000 bytes leave each rank");
        expect(same(x, Array::full({5000}, 3.0)), "the sum");

        const Array whole = Array::zeros({5000});
        start = Clock::now();
        world.all_gather(whole, Array::full({2500}, world.rank()));
        expect(seconds_since(start) >= 0.01, "10000 bytes leave each rank");
        expect(whole.to_vector<float>().back() == 1.0f, "the last part");
      },
      kSlow);
}

TEST_CASE("a rank's bytes leave a throttled link one call after the other", "[dist][threads]") {
  run_ranks(
      2,
      [](Communicator& world) {
        const Array x = Array::ones({2500}), y = Array::ones({2500});
        const Clock::time_point start = Clock::now();
        Work first = world.all_reduce(x, {.async = true});
        Work last = world.all_reduce(y, {.async = true});
        while (!last.test()) {
        }
        expect(seconds_since(start) >= 0.02, "both calls' bytes have left");
        first.wait();
        expect(same(x, Array::full({2500}, 2.0)) && same(x, y), "both sums");
      },
      kSlow);
}

TEST_CASE("a call after another begins when the link is done with that one", "[dist][threads]") {
  for (const int ranks : {2, 4, 6}) {
    run_ranks(
        ranks, [](Communicator& world) { check_sum_after_sum(world, kFloat32); }, kSlow);
  }
  run_ranks(
      4,
      [](Communicator& world) {
        const Communicator pair = world.split(world.rank() / 2, world.rank(), "pair");
        const Communicator pairs = world.split(world.rank() % 2, world.rank(), "pairs");
        const Array x = Array::ones({5000}), part = Array::zeros({2500});
        const Clock::time_point start = Clock::now();
        const Work within = pair.reduce_scatter(part, x, {.async = true});
        Work over = pairs.all_reduce(part, {.async = true, .after = within});
        world.barrier();  // nobody waits for the sums, and all wait for the barrier
        over.wait();
        expect(seconds_since(start) >= 0.02, "10000 bytes leave twice");
        expect(same(part, Array::full({2500}, 4.0)), "the sum over all");
      },
      kSlow);
}

TEST_CASE("a message takes its time on the sender's link", "[dist][threads]") {
  run_ranks(
      2,
      [](Communicator& world) {
        const Array x = Array::full({5000}, 7.0);
        const Clock::time_point start = Clock::now();
        if (world.rank() == 0) {
          world.send(x, 1);
        } else {
          const Array got = Array::zeros({5000});
          world.recv(got, 0);
          expect(same(got, x), "the message");
        }
        expect(seconds_since(start) >= 0.02, "20000 bytes leave the sender");
      },
      kSlow);
}

TEST_CASE("a failure ends the wait for a throttled link", "[dist][threads]") {
  const auto errors = errors_of(2,
                                [](Communicator& world) {
                                  Work work =
                                      world.broadcast(Array::zeros({1 << 20}), 0, {.async = true});
                                  work.test();
                                  if (world.rank() == 1) fail("no more");
                                  work.wait();
                                },
                                {.link_bytes_per_second = 1.0});  // some 50 days
  REQUIRE_THAT(errors[0], ContainsSubstring("rank 1 failed, rank 0 cannot go on: no more"));
}

TEST_CASE("a rate of the link is positive", "[dist]") {
  REQUIRE_THROWS_WITH(run_ranks(2, [](Communicator&) {}, {.link_bytes_per_second = -1.0}),
                      ContainsSubstring("run_ranks: a negative rate of the link: -1"));
}

}  // namespace
