#include <atomic>
#include <vector>

#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

TEST_CASE("asynchronous calls complete in any order of waiting", "[dist][threads]") {
  run_ranks(3, [](Communicator& world) {
    std::vector<Array> arrays;
    std::vector<Work> works;
    for (int i = 0; i < 6; ++i) {
      arrays.push_back(Array::full({100 + i}, world.rank() + i));
      works.push_back(world.all_reduce(arrays.back(), {.async = true}));
    }
    // each rank waits in another order
    for (size_t i = 0; i < 6; ++i)
      works[(i * 5 + static_cast<size_t>(world.rank()) * 2) % 6].wait();
    for (int i = 0; i < 6; ++i) {
      expect(same(arrays[static_cast<size_t>(i)], Array::full({100 + i}, 3 + 3 * i)), "sum ", i);
    }
  });
}

TEST_CASE("a call begun on one group goes on while the rank waits in another", "[dist][threads]") {
  run_ranks(4, [](Communicator& world) {
    const Communicator pair = world.split(world.rank() / 2, world.rank());
    const Array x = Array::ones({50}), y = Array::ones({50});
    Work first = world.all_reduce(x, {.async = true});
    Work second = pair.all_reduce(y, {.async = true});
    if (world.rank() % 2 == 0) {
      first.wait();
      second.wait();
    } else {
      second.wait();
      first.wait();
    }
    expect(same(x, Array::full({50}, 4.0)) && same(y, Array::full({50}, 2.0)), "both sums");
  });
}

TEST_CASE("test says whether a call is complete and never waits", "[dist][threads]") {
  std::atomic<bool> looked{false};
  run_ranks(2, [&](Communicator& world) {
    const Array x = Array::full({3}, world.rank() + 1);
    if (world.rank() == 0) {
      Work work = world.all_reduce(x, {.async = true});
      expect(!work.test(), "not complete before the other has come");
      looked = true;
      looked.notify_one();
      while (!work.test()) {
      }
      expect(work.test(), "complete stays complete");
      work.wait();
    } else {
      looked.wait(false);
      world.all_reduce(x);
    }
    expect(same(x, Array::full({3}, 3.0)), "the sum");
  });
}

TEST_CASE("a dropped handle's call is complete when the run ends", "[dist][threads]") {
  std::vector<Array> arrays(3);
  run_ranks(3, [&](Communicator& world) {
    Array& x = arrays[static_cast<size_t>(world.rank())];
    x = Array::ones({20});
    world.all_reduce(x, {.async = true});
  });
  for (const Array& x : arrays) REQUIRE(same(x, Array::full({20}, 3.0)));
}

TEST_CASE("a default-made Work is complete", "[dist]") {
  Work work;
  REQUIRE(work.test());
  work.wait();
}

}  // namespace
