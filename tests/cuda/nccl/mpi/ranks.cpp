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

#ifdef HERO_TEST_CUSIM
// What a reduce_scatter sends to each rank, itself included, with h ranks of each host; 0: one
// level.
void check_sent(const Communicator& world, int h, DType dtype) {
  const int n = world.size(), me = world.rank(), hosts = h > 0 ? n / h : 1;
  const int64_t share = 1000, item = item_size(dtype), sum_item = is_half(dtype) ? 4 : item;
  const Array whole = contribution(me, share * n, dtype).to(world.device());
  const Array part = Array::zeros({share}, dtype, world.device());
  std::vector<cusim::NcclSent> before;
  for (int to = 0; to < n; ++to) before.push_back(cusim::nccl_sent(me, to));
  world.traffic().reset();
  world.reduce_scatter(part, whole);
  part.to(kCpu);
  int64_t bytes_to_others = 0;
  for (int to = 0; to < n; ++to) {
    const bool within = h == 0 ? to != me : to / h == me / h, across = h > 0 && to % h == me % h;
    const int64_t messages = within ? hosts : across ? 1 : 0;
    const cusim::NcclSent now = cusim::nccl_sent(me, to), old = before[static_cast<size_t>(to)];
    const int64_t bytes = now.bytes - old.bytes;
    expect(now.messages - old.messages == messages, now.messages - old.messages, " messages from ",
           me, " to ", to, ", not ", messages);
    expect(bytes == messages * share * (within ? item : sum_item), bytes, " bytes from ", me,
           " to ", to);
    if (to != me) bytes_to_others += bytes;
  }
  expect(bytes_to_others == world.traffic().bytes(), "what the traffic says");
}

// Each rank's part is more than lies in memory at a time.
void check_steps(const Communicator& world) {
  const int64_t n = world.size() * (int64_t{64} << 20) / 32 + 1000003;
  std::vector<float> mine(static_cast<size_t>(n)), sum(mine);
  const int ranks = world.size();
  for (size_t i = 0; i < mine.size(); ++i) {
    const auto value = static_cast<float>(i % 1013);
    mine[i] = value * static_cast<float>(world.rank() + 1);
    sum[i] = value * static_cast<float>(ranks * (ranks + 1) / 2);
  }
  const Array x = Array::from(mine, {n}).to(world.device());
  world.all_reduce(x);
  expect(same_values(x, Array::from(sum, {n})), "a sum of several steps");
}

// Reductions over hosts, for which HERO_HOST stands. HERO_LEVELS says how many ranks of each host
// there are, or 0 for ranks that lie in another way.
void check_hosts(Communicator& world) {
  const Device device = world.device();
  const char* const levels = std::getenv("HERO_LEVELS");
  check(levels != nullptr, "hosts: HERO_LEVELS says how many ranks of each host there are");
  for (const DType dtype : {kFloat32, kBFloat16}) check_sent(world, std::atoi(levels), dtype);
  check_steps(world);
  std::vector<int64_t> uneven(static_cast<size_t>(world.size()), 1001);
  uneven.front() = 90007;
  uneven.back() = 0;
  const std::vector<DType> some = {kFloat32, kBFloat16};
  for (const DType dtype : world.size() <= 4 ? kDTypes : some) {
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::mean && !is_floating(dtype)) continue;
      for (const int64_t n : {0, 3, 5021}) {
        check_reductions(world, op, Order::tree, dtype, n, device);
      }
      check_reduce_scatter(world, op, Order::tree, dtype, Parts(world, 40, {}), device);
    }
    check_reduce_scatter(world, ReduceOp::sum, Order::tree, dtype, Parts(world, 0, uneven), device);
    check_reductions(world, ReduceOp::sum, Order::ranks, dtype, 5003, device);
    if (is_half(dtype)) {
      check_float_sums(world, Order::tree, dtype, Parts(world, 0, uneven), device);
    }
  }
}
#endif

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
  if (what == "hosts") {
    return launch(argc, argv, [](Communicator& world) {
      check_hosts(world);
      if (world.size() > 4) return;
      check_everything(world);
      into_files(print_training)(world);
    });
  }
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
