// The order in which the ranks' gradients are added up, as an option of every strategy.
#include <algorithm>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr ShardingStrategy kFlat[] = {ShardingStrategy::ddp,   ShardingStrategy::zero1,
                                      ShardingStrategy::zero2, ShardingStrategy::zero3,
                                      ShardingStrategy::fsdp,  ShardingStrategy::fsdp_kept};

}  // namespace

TEST_CASE("a hybrid of groups of 2^k ranks ends with the bits of one process", "[threads]") {
  for (const auto& [group, replicas] : {std::pair(1, 3), {1, 4}, {2, 3}, {2, 5}, {4, 2}, {4, 3}}) {
    for (const DType dtype : {kFloat32, kBFloat16}) {
      CAPTURE(group, replicas, dtype);
      Climb c{ShardingStrategy::hybrid, Subject::odd, Method::sgd, group * replicas, 3};
      c.group = group;
      c.dtype = dtype;
      CHECK(climb_difference(c) == "");
    }
  }
}

TEST_CASE("a hybrid of other groups has bits of its own, the same on every rank") {
  Climb c{ShardingStrategy::hybrid, Subject::mlp, Method::sgd, 6, 3};
  c.group = 3;
  CHECK_THAT(climb_difference(c), ContainsSubstring("fc1.weight"));
}

TEST_CASE(
    "in the order of ranks every strategy ends with the bits of backward() after backward()") {
  for (const ShardingStrategy strategy : kFlat) {
    for (const int ranks : {3, 5}) {
      CAPTURE(name(strategy), ranks);
      Climb c{strategy, Subject::mlp, Method::sgd, ranks, 3};
      c.order = dist::Order::ranks;
      CHECK(climb_difference(c) == "");
    }
  }
}

TEST_CASE("the orders differ in last bits from four ranks on") {
  const auto bits = [](dist::Order order, int ranks) {
    Climb c{ShardingStrategy::zero2, Subject::mlp, Method::sgd, ranks, 1};
    c.order = order;
    Whole whole;
    dist::run_ranks(ranks, [&](dist::Communicator& world) { train(c, whole, &world); });
    return whole.sha256();
  };
  CHECK(bits(dist::Order::tree, 3) == bits(dist::Order::ranks, 3));
  CHECK(bits(dist::Order::tree, 4) != bits(dist::Order::ranks, 4));
  CHECK(bits(dist::Order::tree, 5) == bits(dist::Order::native, 5));  // threads have no library
}

TEST_CASE("a hybrid on a throttled link ends with the same bits") {
  Climb c{ShardingStrategy::hybrid, Subject::mlp, Method::sgd, 8, 2};
  Whole expected, got;
  train(c, expected, nullptr);
  dist::run_ranks(8, [&](dist::Communicator& world) { train(c, got, &world); },
                  {.link_bytes_per_second = 1e6});
  CHECK(expected.difference(got) == "");
}

TEST_CASE("a hybrid in the order of ranks is refused") {
  dist::run_ranks(4, [](dist::Communicator& world) {
    SmallMLP model;
    CHECK_THROWS_WITH(
        climb(ShardingStrategy::hybrid, Subject::mlp, model, world, dist::Order::ranks),
        ContainsSubstring("fully_shard: a hybrid adds up within each group of shards"));
  });
}

TEST_CASE("a hybrid's sums are under way while backward goes on") {
  std::vector<std::string> events;
  dist::run_ranks(4, [&](dist::Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const dist::Mesh mesh(world, {{"replicate", 2}, {"shard", 2}});
    auto fsdp = dist::fully_shard(*model, mesh, {.unit = dist::each<nn::Linear>()});
    const Tensor loss = subject_loss(Subject::mlp, *model, 0, world.rank());
    if (world.rank() == 0) {
      fsdp.on_event([&](const dist::Event& event) {
        events.push_back(std::string(dist::name(event.kind)) + " " + event.unit);
      });
    }
    loss.backward();
  });
  const auto at = [&](const char* event) {
    const auto found = std::find(events.begin(), events.end(), event);
    REQUIRE(found != events.end());
    return found - events.begin();
  };
  CHECK(at("reduce fc3") < at("use fc2"));  // whose backward goes on
  CHECK(at("use fc2") < at("reduced fc3"));
  CHECK(at("reduced fc3") < at("reduce fc2"));
}
