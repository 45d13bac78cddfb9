// The nccl backend: the same Communicator over GPUs of which every rank has one.
#include "cuda/nccl/nccl_checks.h"
#include "cuda/nccl/nccl_ranks.h"
#include "cuda/nccl/queues.h"

#include <hero/dist/backends/nccl/library.h>

using namespace hero;
using namespace hero::test;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("nccl: every collective gives the bits of its definition") {
  HERO_NEEDS_NCCL();
  for (const int ranks : nccl_worlds()) {
    const auto program = [](Communicator& world) {
      expect(world.backend_kind() == BackendKind::nccl, "the backend");
      const bool all = world.size() == 3;
      const std::vector<DType> some = {kFloat32, kBFloat16};
      check_all(world, all ? kDTypes : some, {0, all ? 37 : 5}, world.device());
    };
    run_ranks(ranks, program, kNccl);
  }
}

TEST_CASE("nccl: its own reductions are right up to rounding, for every dtype") {
  HERO_NEEDS_NCCL();
  for (const int ranks : nccl_worlds()) run_ranks(ranks, check_native_of_all, kNccl);
}

TEST_CASE("nccl: arrays of the host, agreements and barriers go by the host's backend") {
  HERO_NEEDS_NCCL();
  for (const int ranks : nccl_worlds()) {
    const auto program = [](Communicator& world) {
      check_moves(world, kFloat32, Parts(world, 3, {}));
      const Array x = Array::full({2}, world.rank() + 1, kFloat32, world.device());
      world.all_reduce(x, {.op = ReduceOp::max});
      world.barrier();
      expect(same_values(x, Array::full({2}, world.size())), "the largest");
    };
    run_ranks(ranks, program, kNccl);
  }
}

TEST_CASE("nccl: groups have communicators of their own") {
  HERO_NEEDS_GPUS(4);
  const auto program = [](Communicator& world) {
    const Communicator part = world.split(world.rank() % 2, -world.rank());
    const Array x = Array::full({9}, world.rank(), kFloat32, world.device());
    part.all_reduce(x);
    expect(same_values(x, Array::full({9}, world.rank() % 2 == 0 ? 2.0 : 4.0)), "the group's sum");
    const Array y = Array::full({1}, world.rank(), kFloat32, world.device());
    part.broadcast(y, 0);
    expect(same_values(y, Array::full({1}, world.rank() % 2 == 0 ? 2.0 : 3.0)), "ordered by key");
  };
  run_ranks(4, program, kNccl);
}

TEST_CASE("nccl: messages of a ring in which every rank sends first") {
  HERO_NEEDS_NCCL();
  for (const int ranks : nccl_worlds()) run_ranks(ranks, check_ring, kNccl);
}

TEST_CASE("nccl: a message of the GPU goes on while its rank waits for one of the host") {
  HERO_NEEDS_GPUS(2);
  run_ranks(2, check_message_beside_host, kNccl);
}

TEST_CASE("nccl: calls go on beside the rank's own work, in order with it") {
  HERO_NEEDS_NCCL();
  const int ranks = nccl_worlds().back();
  const auto program = [](Communicator& world) {
    const Device device = world.device();
    core::Backend& gpu = core::backend(device);
    const Array mine = Array::empty({513}, kFloat32, device);
    const Array all = Array::empty({world.size() * 513}, kFloat32, device);
    const Array other = Array::zeros({513}, kFloat32, device);
    for (int round = 0; round < 4; ++round) {
      gpu.run(core::call::Fill{mine, 10.0 * round + world.rank()});
      Work gather = world.all_gather(all, mine, {.async = true});
      gpu.run(core::call::Fill{other, round});  // meanwhile
      gather.wait();
      gpu.run(core::call::Fill{mine, -1.0});
      for (int r = 0; r < world.size(); ++r) {
        expect(same_values(all.slice(0, 513 * r, 513 * (r + 1)).contiguous(),
                           Array::full({513}, 10.0 * round + r)),
               "rank ", r, "'s values of round ", round);
      }
      expect(same_values(other, Array::full({513}, round)), "the rank's own");
    }
    world.all_gather(all, mine, {.async = true});  // the handle is dropped
    {
      const Array gone = copy_on(mine, device);
      world.broadcast(gone, 0, {.async = true});
    }
  };
  run_ranks(ranks, program, kNccl);
}

TEST_CASE("nccl: ranks that make different calls get the errors of every backend") {
  HERO_NEEDS_GPUS(3);
  const auto lines = [](const RunOptions& options) {
    const auto program = [](Communicator& world) {
      const Device device = world.device();
      world.barrier();
      const Array x = Array::zeros({world.rank() == 2 ? 5 : 4}, kFloat32, device);
      world.all_reduce(x, {.unit = "fc1"});
      x.to(kCpu);  // the stream waits for the others, and the host hears of them when it does
    };
    return errors_of(3, program, options);
  };
  const std::vector<std::string> on_gpus = lines(kNccl);
  CHECK_THAT(on_gpus[0], ContainsSubstring("all_reduce (call 1 of 'world', unit 'fc1'): ranks "
                                           "disagree on the size"));
  CHECK(on_gpus == lines({}));
}

TEST_CASE("nccl: a rank that ends early or throws is named by those that wait for it") {
  HERO_NEEDS_GPUS(3);
  const std::vector<std::string> thrown = nccl_errors(3, [](Communicator& world) {
    check(world.rank() != 1, "no more data");
    const Array x = Array::zeros({4}, kFloat32, world.device());
    world.all_reduce(x);
    x.to(kCpu);
  });
  CHECK_THAT(thrown[0], ContainsSubstring("rank 1 failed") && ContainsSubstring("no more data"));
  const std::vector<std::string> ended = nccl_errors(2, [](Communicator& world) {
    if (world.rank() == 1) return;
    const Array x = Array::zeros({4}, kFloat32, world.device());
    world.recv(x, 1);
  });
  CHECK_THAT(ended[0], ContainsSubstring("rank 1 has finished without this call"));
}

TEST_CASE("nccl: what all ranks have asked for is done, though one of them fails at once") {
  HERO_NEEDS_GPUS(3);
  std::vector<double> sums(3);
  const std::vector<std::string> errors = nccl_errors(3, [&](Communicator& world) {
    sums[static_cast<size_t>(world.rank())] = sum_beside_failure(world);
  });
  CHECK(errors == std::vector<std::string>{"", "no more data", ""});
  CHECK(sums == std::vector<double>{6.0, 0.0, 6.0});
}

TEST_CASE("nccl: an array on another GPU than the rank's, and ranks that agree on no device") {
  HERO_NEEDS_GPUS(2);
  if (cuda::device_count() > 1) {
    const std::vector<std::string> errors = nccl_errors(
        2, [](Communicator& world) { world.all_reduce(Array::zeros({4}, kFloat32, kGpu)); });
    CHECK(errors[1] == "all_reduce: the array is on cuda:0, the GPU of rank 1 is cuda:1");
  }
  const std::vector<std::string> mixed = nccl_errors(2, [](Communicator& world) {
    world.all_reduce(Array::zeros({4}, kFloat32, world.rank() == 0 ? world.device() : kCpu));
  });
  CHECK_THAT(mixed[1], ContainsSubstring("ranks disagree on the device"));
}

TEST_CASE("nccl: more ranks than GPUs is an error that says so") {
  HERO_NEEDS_NCCL();
  const EnvironmentVariable alone("NCCL_MULTI_RANK_GPU_ENABLE", "0");
  const int ranks = cuda::device_count() + 1;
  const auto nothing = [](Communicator&) {};
  CHECK_THROWS_WITH(run_ranks(ranks, nothing, kNccl),
                    ContainsSubstring("nccl gives every rank a GPU") &&
                        ContainsSubstring("set NCCL_MULTI_RANK_GPU_ENABLE=1 for every rank"));
}

TEST_CASE("nccl: ranks share GPUs where NCCL is new enough and the environment says so") {
  HERO_NEEDS_NCCL();
  const SharedGPUs shared;
  if (dist::nccl::library().version >= 23000) {
    const int ranks = cuda::device_count() + 1;
    const auto program = [](Communicator& world) {
      check_all(world, {kFloat32, kBFloat16}, {0, 5}, world.device());
    };
    run_ranks(ranks, program, kNccl);
    run_ranks(ranks, check_ring, kNccl);
  }
  const auto refused = [] {
    return error_of([] {
      run_ranks(
          cuda::device_count() + 1, [](Communicator&) {}, kNccl);
    });
  };
  if (dist::nccl::library().version >= 23000) {
    const EnvironmentVariable late("CUDA_MODULE_LOADING", "LAZY");
    CHECK_THAT(refused(),
               ContainsSubstring("are threads that share a GPU, and to load a kernel the "
                                 "driver may wait for it, and so for the other rank; set "
                                 "CUDA_MODULE_LOADING=EAGER"));
  }
  const EnvironmentVariable alone("NCCL_MULTI_RANK_GPU_ENABLE", "0");
  CHECK_THAT(refused(), ContainsSubstring("nccl gives every rank a GPU"));
}
