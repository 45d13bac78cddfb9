// Eight ranks on one GPU, in a process of their own: whose streams are the first ones.
#include "cuda/nccl/nccl_checks.h"
#include "cuda/nccl/nccl_ranks.h"

using namespace hero;
using namespace hero::test;
using namespace hero_test;

// Each has three streams: with those of a second group there would be more than a GPU has queues.
TEST_CASE("nccl: eight ranks on a GPU") {
  HERO_NEEDS_GPUS(8);
  run_ranks(
      8,
      [](Communicator& world) {
        for (const Order order : {Order::tree, Order::ranks}) {
          check_reductions(world, ReduceOp::sum, order, kFloat32, 37, world.device());
        }
        check_native(world, ReduceOp::sum, kFloat32);
        const Array all = Array::zeros({8}, kInt32, world.device());
        world.all_gather(all, Array::full({1}, world.rank(), kInt32, world.device()));
        const std::vector<int32_t> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
        expect(same_values(all, Array::from(ranks, {8})), "the ranks");
      },
      kNccl);
}
