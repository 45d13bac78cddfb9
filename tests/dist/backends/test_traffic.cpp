#include <mutex>
#include <string>
#include <vector>

#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

// Calls each operation once with n elements of four bytes, n divisible by the number of ranks.
void call_each_once(const Communicator& world, int64_t n, Device device) {
  const int64_t share = n / world.size();
  const Array whole = Array::zeros({n}, kFloat32, device);
  const Array part = Array::zeros({share}, kFloat32, device);
  const Array other = Array::zeros({n}, kFloat32, device);
  world.all_reduce(whole);
  world.reduce(whole, 0);
  world.reduce_scatter(part, whole);
  world.all_gather(whole, part);
  world.broadcast(whole, 0);
  world.scatter(part, world.rank() == 0 ? whole : Array(), 0);
  world.gather(world.rank() == 0 ? whole : Array(), part, 0);
  world.all_to_all(other, whole);
  world.barrier();
}

void expect_formulas(const Traffic& traffic, int rank, int64_t ranks, int64_t n) {
  const int64_t bytes = 4 * n, share = bytes / ranks;
  const bool root = rank == 0;
  expect(traffic.bytes(Collective::all_reduce) == 2 * bytes * (ranks - 1) / ranks,
         "2 n (N - 1) / N");
  expect(traffic.bytes(Collective::reduce_scatter) == bytes * (ranks - 1) / ranks, "n (N - 1) / N");
  expect(traffic.bytes(Collective::all_gather) == bytes * (ranks - 1) / ranks, "n (N - 1) / N");
  expect(traffic.bytes(Collective::all_to_all) == bytes * (ranks - 1) / ranks, "n (N - 1) / N");
  expect(traffic.bytes(Collective::broadcast) == (root ? bytes * (ranks - 1) : 0),
         "(N - 1) n from root");
  expect(traffic.bytes(Collective::scatter) == (root ? bytes - share : 0), "all parts but the own");
  expect(traffic.bytes(Collective::reduce) == (root ? 0 : bytes), "n to the root");
  expect(traffic.bytes(Collective::gather) == (root ? 0 : share), "the own part to the root");
  expect(traffic.bytes(Collective::barrier) == 0 && traffic.calls(Collective::barrier) == 1,
         "a barrier");
  expect(traffic.calls() == 9, "one call of each");
}

TEST_CASE("traffic equals the formulas to the byte on threads", "[dist]") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    run_ranks(ranks, [&](Communicator& world) {
      call_each_once(world, 840, kCpu);
      expect_formulas(world.traffic(), world.rank(), ranks, 840);
    });
  }
}

TEST_CASE("traffic equals the formulas to the byte on simulated ranks", "[dist]") {
  for (const int ranks : {2, 8, 64, 1024}) {
    const int64_t n = int64_t{1} << 40;  // 4 TiB: nothing is allocated
    simulate_ranks(ranks,
                   [&](Communicator& world) {
                     expect(world.backend_kind() == BackendKind::simulated, "simulated");
                     call_each_once(world, n, kMeta);
                     expect_formulas(world.traffic(), world.rank(), ranks, n);
                   },
                   {0, 1, ranks - 1});
  }
}

TEST_CASE("uneven parts are counted as they are", "[dist]") {
  std::mutex mutex;
  int64_t all_reduced = 0;
  run_ranks(3, [&](Communicator& world) {
    const std::vector<int64_t> counts = {5, 0, 2};
    const int64_t own = counts[static_cast<size_t>(world.rank())];
    const Array part = Array::zeros({own}, kBFloat16), whole = Array::zeros({7}, kBFloat16);
    world.all_gather(whole, part, {.counts = counts});
    expect(world.traffic().bytes() == 2 * 2 * own, "its part to two others");
    world.traffic().reset();
    world.reduce_scatter(part, whole, {.counts = counts});
    expect(world.traffic().bytes() == 2 * (7 - own), "all parts but its own");
    world.traffic().reset();
    world.all_reduce(whole);
    const std::lock_guard<std::mutex> lock(mutex);
    all_reduced += world.traffic().bytes();
  });
  REQUIRE(all_reduced == 2 * 7 * 2 * 2);  // 2 n (N - 1) over all ranks
}

TEST_CASE("traffic is kept by operation, unit and axis", "[dist]") {
  run_ranks(4, [](Communicator& world) {
    const Mesh mesh(world, {{"replicate", 2}, {"shard", 2}});
    expect(world.traffic().calls() == 0, "forming groups moves no array");
    const Array x = Array::zeros({8});
    {
      const UnitScope unit("fc1");
      mesh["shard"].all_reduce(x);
      mesh["shard"].all_reduce(x);
      mesh["replicate"].all_reduce(x, {.unit = "fc2"});
    }
    world.broadcast(x, 3);
    const Traffic& traffic = world.traffic();
    expect(traffic.bytes_of_unit("fc1") == 64 && traffic.bytes_of_unit("fc2") == 32, "by unit");
    expect(traffic.bytes_of_axis("shard") == 64, "by axis");
    expect(traffic.rows().size() == 3 && traffic.rows()[0].calls == 2, "rows");
    if (world.rank() != 0) return;
    const std::string table =
        "axis       operation   unit  calls  bytes\n"
        "shard      all_reduce  fc1       2     64  64 B\n"
        "replicate  all_reduce  fc2       1     32  32 B\n"
        "world      broadcast   -         1      0   0 B\n"
        "all                              4     96  96 B\n";
    expect(traffic.table() == table, traffic.table());
  });
}

TEST_CASE("simulated ranks count memory and are compared with each other", "[dist]") {
  simulate_ranks(64, [](Communicator& world) {
    const Mesh mesh(world, {{"replicate", 8}, {"shard", 8}});
    const Array shard = Array::zeros({1000}, kFloat32, kMeta);
    const Array whole = Array::zeros({8000}, kFloat32, kMeta);
    mesh["shard"].all_gather(whole, shard);
    mesh["replicate"].all_reduce(shard);
    expect(world.traffic().bytes_of_axis("shard") == 7 * 4000, "seven shards");
    expect(world.traffic().bytes_of_axis("replicate") == 2 * 7 * 500, "2 n 7 / 8");
    expect(current_ledger().live(DeviceType::meta) == 36000, "its own ledger");
  });
  const auto differ = [](Communicator& world) {
    const Array x = Array::zeros({world.rank() == 5 ? 7 : 8}, kFloat32, kMeta);
    world.all_reduce(x, {.unit = "fc1"});
  };
  REQUIRE_THROWS_WITH(simulate_ranks(8, differ),
                      ContainsSubstring("all_reduce (call 0 of 'world', unit 'fc1')") &&
                          ContainsSubstring("rank 0 says 8 elements; rank 5 says 7 elements"));
  const auto skip = [](Communicator& world) {
    world.barrier();
    if (world.rank() != 2) world.barrier();
  };
  REQUIRE_THROWS_WITH(
      simulate_ranks(3, skip),
      ContainsSubstring("barrier (call 1 of 'world') of rank 0: rank 2 has finished "
                        "without this call"));
  const auto more = [](Communicator& world) {
    for (int i = 0; i <= world.rank(); ++i) world.barrier();
  };
  REQUIRE_THROWS_WITH(simulate_ranks(2, more),
                      ContainsSubstring("of rank 1: rank 0 has finished without"));
  const auto values = [](Communicator& world) { world.all_reduce(Array::zeros({1 << 20})); };
  REQUIRE_THROWS_WITH(simulate_ranks(2, values), ContainsSubstring("make it on meta"));
  const auto split = [](Communicator& world) { world.split(0, 0); };
  REQUIRE_THROWS_WITH(simulate_ranks(2, split), ContainsSubstring("use group() or a Mesh"));
}

}  // namespace
