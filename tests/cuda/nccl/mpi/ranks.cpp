// A program for the tests of the nccl backend between processes, over tests/cusim or a GPU:
//   hero_nccl_ranks WHAT [launch's options]
// Its ranks check themselves; what threads and processes must agree on is printed.
#include <cstdlib>
#include <iostream>
#include <string>

#include "cuda/nccl/nccl_checks.h"
#include "dist/mpi/go_wrong.h"
#include "dist/mpi/texts.h"

#include <hero/cuda/cuda.h>
#include <hero/dist/backends/mpi/run.h>
#include <hero/dist/backends/nccl/lane.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

// Ranks of the local backend are threads that share a GPU.
Device device_of(const Communicator& world) {
  return world.device() == kCpu ? Device{DeviceType::cuda, 0} : world.device();
}

void check_groups(const Communicator& world) {
  const int me = world.rank(), n = world.size();
  const Device device = world.device();
  const Communicator turned = world.split(0, -me, "turned");
  const Array x = Array::full({3}, me, kFloat32, device);
  turned.broadcast(x, 0);
  expect(same_values(x, Array::full({3}, n - 1)), "the last rank's");
  const Communicator parity = world.split(me % 2, me, "parity");
  check_reductions(parity, ReduceOp::sum, Order::tree, kBFloat16, 37, device);
  if (n % 2 != 0) return;
  const Mesh mesh(world, {{"replicate", 2}, {"shard", n / 2}});
  const Array y = Array::full({3}, me, kFloat32, device);
  mesh["shard"].all_reduce(y);
  mesh["replicate"].all_reduce(y);
  expect(same_values(y, Array::full({3}, n * (n - 1) / 2)), "along both axes");
}

void check_everything(Communicator& world) {
  const Device device = world.device();
  expect(world.backend_kind() == BackendKind::nccl, "the backend");
  expect(device.type == DeviceType::cuda, "a GPU");
  check_all(world, {kFloat32, kBFloat16, kInt64}, {0, 37}, device);
  check_moves(world, kFloat32, Parts(world, 3, {}));  // of the host
  check_native_of_all(world);
  check_groups(world);
  check_ring(world);
  if (world.size() == 2) check_message_beside_host(world);
  const Array dropped = Array::full({5}, 1.0, kFloat32, device);
  world.all_reduce(dropped, {.async = true});  // nobody waits for it
}

void print_training(Communicator& world) {
  print_strategies(world, 3, {Subject::mlp, Subject::gpt}, {Method::adamw}, device_of(world));
}

void fail_after_sum(Communicator& world) {
  say_of_rank(world, "has " + std::to_string(sum_beside_failure(world)));
}

#ifdef HERO_TEST_CUSIM
// All ranks ask for a sum, and the GPU of rank 1 never does its part.
void stand_still(Communicator& world) {
  const Array x = Array::full({10}, 1.0, kFloat32, world.device());
  const CallOptions options = {.order = Order::native, .unit = "fc1"};
  world.all_reduce(x, options);
  x.to(kCpu);
  cusim::wait_patiently(true);
  if (world.rank() == 1) cusim::hold_nccl("all_reduce", true);
  world.all_reduce(x, options);
  x.to(kCpu);
}

// NCCL itself: rank 1 never asks for a sum, and the GPU of rank 0 waits for it.
void wait_in_vain(Communicator& world) {
  const Device device{DeviceType::cuda, 0};
  const Array id = world.rank() == 0 ? nccl::make_id("vain") : Array::zeros({128}, kUInt8);
  world.broadcast(id, 0);
  const nccl::Library& library = nccl::library();
  nccl::Comm comm(nccl::connect(library, nccl::by_id(library, nccl::id_in(id), 2, world.rank()),
                                "vain", 600, [] {}),
                  {"vain", world.rank()}, {device, {}});
  const Array x = Array::full({10}, 1.0, kFloat32, device);
  cuda::synchronize(device);
  if (world.rank() == 0) {
    const cuda::StreamScope scope(comm.stream());
    comm.group("vain", Phase::step, [&] {
      (void)comm.library().AllReduce(x.bytes(), x.bytes(), 10, ncclFloat32, ncclSum, comm.handle(),
                                     comm.queue());
    });
    cuda::synchronize(device);
  }
  world.barrier();
}

// An NCCL that cannot split: groups join by an id, and where one does not, the error says why.
void join_groups(Communicator& world) {
  check_groups(world);
  if (world.rank() == 1) cusim::break_nccl("CommInitRankConfig", 1, ncclSystemError);
  world.split(0, 0, "half");
}
#endif

void print_devices(Communicator& world) {
  world.out() << "rank " << world.rank() << " of " << world.size() << " on "
              << name(world.backend_kind()) << " has " << to_string(world.device()) << ", GPU "
              << cuda::device_properties(world.device()).uuid << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "training") return launch(argc, argv, into_files(print_training));
  if (what == "checks") {
    return launch(argc, argv, [](Communicator& world) {
      check_everything(world);
      world.traffic().reset();
      into_files(print_training)(world);
#ifdef HERO_TEST_CUSIM
      expect(cusim::contexts() == std::vector<int>{world.device().index}, "only its own GPU");
#endif
    });
  }
  if (what == "print") return launch(argc, argv, print_devices);
  if (what == "late") return launch(argc, argv, fail_after_sum);
#ifdef HERO_TEST_CUSIM
  if (what == "groups") return launch(argc, argv, join_groups);
  if (what == "still") return launch(argc, argv, stand_still);
  if (what == "vain") return launch(argc, argv, wait_in_vain);
#endif
  for (const char* how : {"throw", "exit", "kill", "hang"}) {
    if (what == how) return launch(argc, argv, [&](Communicator& world) { go_wrong(world, what); });
  }
  std::cerr << "no '" << what << "'\n";
  return 2;
}
