#include <memory>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/dist/backends/local/group.h>
#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

// The world ranks of a group's members, as its own all_gather says.
std::vector<int> members(const Communicator& group) {
  const Array all = Array::zeros({group.size()}, kInt32);
  group.all_gather(all, Array::full({1}, group.world_rank(), kInt32));
  return all.to_vector<int>();
}

TEST_CASE("split groups by color and orders by key", "[dist][threads]") {
  run_ranks(6, [](Communicator& world) {
    const int me = world.rank();
    const Communicator group = world.split(me % 2, -me, "parity");
    const std::vector<int> expected =
        me % 2 == 0 ? std::vector<int>{4, 2, 0} : std::vector<int>{5, 3, 1};
    expect(members(group) == expected, "descending ranks of one parity");
    expect(expected[static_cast<size_t>(group.rank())] == me, "its own place");
    expect(group.axis() == "parity" && group.world_rank() == me, "its names");
    // a group of a group, two at a time, and a second split of the same parent
    const Communicator alone = group.split(group.rank(), 0);
    expect(alone.size() == 1 && members(alone) == std::vector<int>{me}, "alone");
    const Communicator again = world.split(me / 3, me);
    expect(again.size() == 3 && members(again)[0] == me / 3 * 3, "halves of the world");
    const Communicator none = world.split(me == 0 ? -1 : 0, me);
    expect(none.defined() == (me != 0), "a negative color belongs to no group");
  });
}

TEST_CASE("a mesh has a group along each axis", "[dist][threads]") {
  run_ranks(8, [](Communicator& world) {
    const Mesh mesh(world, {{"replicate", 2}, {"shard", 4}});
    const int me = world.rank();
    expect(mesh.coordinate("replicate") == me / 4 && mesh.coordinate("shard") == me % 4,
           "row-major coordinates");
    expect(members(mesh["replicate"]) == std::vector<int>{me % 4, me % 4 + 4}, "replicas");
    const int row = me / 4 * 4;
    expect(members(mesh["shard"]) == std::vector<int>{row, row + 1, row + 2, row + 3}, "shards");
    expect(mesh["shard"].axis() == "shard", "the axis names the group");
    const Array x = Array::full({3}, me);
    mesh["shard"].all_reduce(x);
    mesh["replicate"].all_reduce(x);
    expect(same(x, Array::full({3}, 28.0)), "reduced along both axes");
  });
  run_ranks(8, [](Communicator& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}, {"pipe", 2}});
    const int me = world.rank();
    expect(members(mesh["tensor"]) == std::vector<int>{me & 5, (me & 5) | 2}, "the middle axis");
  });
}

TEST_CASE("some axes of a mesh are a mesh", "[dist][threads]") {
  run_ranks(12, [](Communicator& world) {
    const Mesh mesh(world, {{"pipe", 2}, {"data", 3}, {"tensor", 2}});
    const int me = world.rank(), stage = me / 6 * 6;
    const Mesh stages = mesh.sub({"data", "tensor"});
    expect(members(stages.world()) ==
               std::vector<int>{stage, stage + 1, stage + 2, stage + 3, stage + 4, stage + 5},
           "the ranks of a stage");
    expect(stages.world().axis() == "data+tensor", stages.world().axis());
    expect(stages.coordinate("tensor") == me % 2 && stages.axes().size() == 2, "its axes");
    expect(members(stages["data"]) == members(mesh["data"]), "the groups of the mesh");
    const Mesh outer = mesh.sub({"pipe", "tensor"});
    const int column = me % 6 / 2 * 2;
    expect(members(outer.world()) == std::vector<int>{column, column + 1, column + 6, column + 7},
           "axes that are no neighbours");
    const Mesh turned = mesh.sub({"tensor", "pipe"});
    expect(members(turned.world()) == std::vector<int>{column, column + 6, column + 1, column + 7},
           "in the order of the names");
    expect(turned.world().rank() == 2 * (me % 2) + me / 6, "a rank's place among them");
    expect(members(mesh.sub({"data"}).world()) == members(mesh["data"]), "one axis");
    expect(members(mesh.sub({"pipe", "data", "tensor"}).world()).size() == 12, "all axes");
  });
}

TEST_CASE("a hybrid of two axes out of three is that of a mesh of its own", "[dist]") {
  const auto train_hybrid = [](bool stages, Whole& whole) {
    run_ranks(stages ? 8 : 4, [&](Communicator& world) {
      std::vector<Axis> axes = {{"replicate", 2}, {"shard", 2}};
      if (stages) axes.insert(axes.begin(), {"twin", 2});
      const Mesh mesh(world, axes);
      auto model = make_subject(Subject::mlp);
      const Mesh sub = mesh.sub({"replicate", "shard"});
      fully_shard(*model, sub, {.unit = each<nn::Linear>()});
      const auto optimizer = make_method(Method::adamw, model->parameters());
      train(Subject::mlp, *model, *optimizer, sub.world(), 2, 0.5);
      add_state(whole, *model, *optimizer);
    });
  };
  Whole expected, got;
  train_hybrid(false, expected);
  train_hybrid(true, got);
  CHECK(expected.size() > 0);
  CHECK(expected.difference(got) == "");
}

TEST_CASE("ranks that name other axes of a mesh are all told what they name", "[dist]") {
  const auto refused = [](const std::vector<Axis>& odd, const std::string& said) {
    for (const std::string& error : errors_of(4, [&](Communicator& world) {
           const std::vector<Axis> most = {{"replicate", 2}, {"shard", 2}};
           const Mesh mesh(world, world.rank() == 1 ? odd : most);
         })) {
      CHECK_THAT(error, ContainsSubstring("split (call 0 of 'world'): ranks disagree on what they "
                                          "did before: ranks 0, 2, 3 say mesh of replicate 2, "
                                          "shard 2; rank 1 says mesh of " +
                                          said));
    }
  };
  refused({{"shard", 2}, {"replicate", 2}}, "shard 2, replicate 2");
  refused({{"replicate", 4}, {"shard", 1}}, "replicate 4, shard 1");
  refused({{"replicate", 4}, {"shard", 2}}, "replicate 4, shard 2");
  refused({{"shard", 4}}, "shard 4");
  refused({}, "none");
  for (const std::string& error : errors_of(4, [&](Communicator& world) {
         const Mesh mesh(world, {{"a", 2}, {"b", 1}, {"c", 2}});
         world.rank() == 2 ? mesh.sub({"c", "a"}) : mesh.sub({"a", "c"});
       })) {
    CHECK_THAT(error,
               ContainsSubstring("ranks 0, 1, 3 say mesh of a 2, c 2; rank 2 says mesh of c 2, "
                                 "a 2"));
  }
}

TEST_CASE("a mesh that does not fit is refused", "[dist]") {
  run_ranks(1, [](Communicator& world) {
    REQUIRE_THROWS_WITH((Mesh(world, {{"a", 2}})), ContainsSubstring("2 ranks, 'world' has 1"));
    REQUIRE_THROWS_WITH((Mesh(world, {{"a", 1}, {"a", 1}})), ContainsSubstring("two axes"));
    REQUIRE_THROWS_WITH((Mesh(world, {{"a", 0}})), ContainsSubstring("not positive"));
    REQUIRE_THROWS_WITH((Mesh(world, {{"a", 1 << 30}, {"b", 1 << 30}, {"c", 1 << 30}})),
                        ContainsSubstring("does not fit into 64 bits"));
    const Mesh mesh(world, {{"a", 1}, {"b", 1}});
    REQUIRE_THROWS_WITH(mesh["c"], ContainsSubstring("no axis 'c'; there are 'a', 'b'"));
    REQUIRE_THROWS_WITH(mesh.sub({"a", "c"}), ContainsSubstring("no axis 'c'"));
    REQUIRE_THROWS_WITH(mesh.sub({"a", "a"}), ContainsSubstring("'a' is named twice"));
    REQUIRE_THROWS_WITH(mesh.sub({}), ContainsSubstring("no axes"));
  });
}

TEST_CASE("a group of threads lives as long as its members hold it", "[dist]") {
  LocalWorld world(3, {}, 0.0);
  const LocalWorld::GroupKey key{{&world, 1}, 0};
  std::shared_ptr<LocalGroup> first = world.group(key, {0, 2}, "pair");
  std::shared_ptr<LocalGroup> second = world.group(key, {0, 2}, "pair");
  CHECK(first == second);
  const std::weak_ptr<LocalGroup> group = first;
  first.reset();
  CHECK(!group.expired());
  second.reset();
  CHECK(group.expired());
}

TEST_CASE("groups work while others are elsewhere", "[dist][threads]") {
  run_ranks(5, [](Communicator& world) {
    const std::vector<int> list = {3, 1};
    const bool inside = world.rank() == 1 || world.rank() == 3;
    const Communicator group =
        world.group(inside ? std::span<const int>(list) : std::span<const int>());
    expect(group.defined() == inside, "members only");
    if (!inside) return;
    for (int i = 0; i < 20; ++i) {
      const Array x = Array::full({2}, world.rank());
      group.all_reduce(x);
      expect(same(x, Array::full({2}, 4.0)), "1 + 3");
    }
  });
}

}  // namespace
