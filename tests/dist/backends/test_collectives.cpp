#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "dist/backends/collective_checks.h"
#include "support/catch.h"

#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

const std::vector<int> kWorlds = {1, 2, 3, 4, 5, 8};

TEST_CASE("every collective gives the bits of its definition", "[dist]") {
  for (const int ranks : kWorlds) {
    run_ranks(ranks, [](Communicator& world) { check_all(world, kDTypes, {0, 1, 3, 67}); });
  }
}

TEST_CASE("collectives of three ranks on two dtypes are clean", "[dist][threads]") {
  run_ranks(3, [](Communicator& world) { check_all(world, {kFloat32, kBFloat16}, {0, 2, 67}); });
}

TEST_CASE("long arrays are reduced as short ones", "[dist]") {
  for (const int ranks : {1, 3, 4}) {
    run_ranks(ranks, [](Communicator& world) {
      for (const DType dtype : {kBFloat16, kFloat32, kInt64}) {
        check_reductions(world, ReduceOp::sum, Order::tree, dtype, 10007);
      }
    });
  }
}

TEST_CASE("arrays larger than the caches are moved as small ones", "[dist]") {
  run_ranks(2, [](Communicator& world) {
    const int64_t share = (int64_t{33} << 20) / 2 + 5;  // bytes; neither part begins on a line
    const Array all = Array::zeros({2 * share}, kUInt8), mine = Array::zeros({share}, kUInt8);
    const auto value = [](int64_t i, int rank) { return static_cast<uint8_t>(i % 251 + rank); };
    uint8_t* const own = mine.data<uint8_t>();
    for (int64_t i = 0; i < share; ++i) own[i] = value(i, world.rank());
    world.all_gather(all, mine);
    const uint8_t* const bytes = all.data<uint8_t>();
    bool right = true;
    for (int64_t i = 0; i < share; ++i) {
      right = right && bytes[i] == value(i, 0) && bytes[share + i] == value(i, 1);
    }
    expect(right, "every byte in its place");
  });
}

TEST_CASE("the bits of a sum do not depend on who comes first", "[dist][threads]") {
  // 1e8 and 1 is 1e8: what comes out depends on who meets whom.
  const std::vector<float> values = {1e8F, 1.0F, -1e8F, 1.0F};
  const float in_order = ((1e8F + 1.0F) - 1e8F) + 1.0F, in_tree = (1e8F + 1.0F) + (-1e8F + 1.0F);
  REQUIRE(in_order != (1e8F - 1e8F) + 1.0F + 1.0F);
  REQUIRE(in_order != in_tree);
  for (int late = 0; late < 4; ++late) {
    run_ranks(4, [&](Communicator& world) {
      for (int round = 0; round < 5; ++round) {
        const int me = world.rank();
        for (int i = 0; i < (me == late ? 200 : 3 * me); ++i) std::this_thread::yield();
        const Array x = Array::full({9}, values[static_cast<size_t>(me)]);
        const Array y = x.clone();
        world.all_reduce(x, {.order = Order::ranks});
        expect(same(x, Array::full({9}, in_order)), "the sum in rank order");
        world.all_reduce(y);
        expect(same(y, Array::full({9}, in_tree)), "the sum in a tree");
      }
    });
  }
}

TEST_CASE("halves are rounded once, integers wrap, NaN wins, bool is logic", "[dist]") {
  run_ranks(4, [](Communicator& world) {
    // 256 + 1 is no bfloat16: rounding after each addition would stay at 256.
    const Array half = Array::full({3}, world.rank() == 0 ? 256.0 : 1.0, kBFloat16);
    world.all_reduce(half);
    expect(same(half, Array::full({3}, 260.0, kBFloat16)), "256 + 1 + 1 + 1, rounded to even once");
    // 40000 * 4 overflows float16, its mean does not.
    const Array big = Array::full({2}, 40000.0, kFloat16);
    world.all_reduce(big, {.op = ReduceOp::mean});
    expect(same(big, Array::full({2}, 40000.0, kFloat16)), "the mean of large halves");
    const Array byte = Array::full({2}, int64_t{100}, kUInt8);
    world.all_reduce(byte);
    expect(byte.to_vector<int>()[0] == 400 % 256, "uint8 wraps");
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      const Array x = Array::full({2}, world.rank() == 1 ? nan : world.rank());
      world.all_reduce(x, {.op = op});
      expect(std::isnan(x.to_vector<double>()[1]), "NaN wins");
    }
    const Array any = Array::full({1}, world.rank() == 2 ? 1.0 : 0.0, kBool);
    const Array all = any.clone();
    world.all_reduce(any);
    world.all_reduce(all, {.op = ReduceOp::product});
    expect(any.item<bool>() && !all.item<bool>(), "or and and");
  });
}

TEST_CASE("messages arrive in the order they were sent", "[dist][threads]") {
  run_ranks(3, [](Communicator& world) {
    const int next = (world.rank() + 1) % 3, before = (world.rank() + 2) % 3;
    std::vector<Work> sends;
    std::vector<Array> kept;
    for (int i = 0; i < 4; ++i) {
      kept.push_back(Array::full({5}, 10 * world.rank() + i, kInt32));
      sends.push_back(world.send(kept.back(), next, {.async = true}));
    }
    for (int i = 0; i < 4; ++i) {
      const Array x = Array::zeros({5}, kInt32);
      world.recv(x, before);
      expect(same(x, Array::full({5}, 10 * before + i, kInt32)), "message ", i);
    }
    for (Work& work : sends) work.wait();
  });
}

TEST_CASE("a rank may send to itself", "[dist]") {
  run_ranks(2, [](Communicator& world) { check_message_to_oneself(world); });
}

TEST_CASE("a barrier lets nobody pass before the last has come", "[dist][threads]") {
  std::atomic<int> arrived{0};
  run_ranks(4, [&](Communicator& world) {
    for (int round = 1; round <= 10; ++round) {
      ++arrived;
      world.barrier();
      expect(arrived.load() >= 4 * round, "all ranks at barrier ", round);
      world.barrier();
    }
  });
}

TEST_CASE("a written array counts as written to", "[dist]") {
  run_ranks(2, [](Communicator& world) {
    const Array x = Array::ones({4});
    const uint32_t before = x.storage().version();
    world.broadcast(x, 0);
    expect((x.storage().version() != before) == (world.rank() == 1), "only the receiver's");
  });
}

}  // namespace
