// The nccl backend over GPUs that do not go on where others do: streams share the GPU's queues, and
// memory comes when the GPU is idle.
#include "cuda/gpu.h"

#ifdef HERO_TEST_CUSIM
#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda/nccl/nccl_checks.h"
#include "cuda/nccl/nccl_ranks.h"
#include "cuda/nccl/queues.h"
#include "cusim/streams.h"
#include <cusim_device.h>

#include <hero/cuda/cuda.h>
#include <hero/cuda/graph.h>
#include <hero/cuda/runtime/streams.cuh>

using namespace hero;
using namespace hero::test;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

// Two messages, of which rank 0 asks for the one that it sends first, and rank 1, too.
void messages_in_a_circle(const Communicator& world, std::atomic<int>& turn) {
  const int me = world.rank(), other = 1 - me;
  const Array mine = Array::full({5}, me + 1.0, kFloat32, world.device());
  const Array come = Array::zeros({5}, kFloat32, world.device());
  const auto wait_for = [&](int number) {
    expect(comes([&] { return turn == number; }), "turn ", number);
  };
  for (const int sender : {0, 1}) {  // both lanes are there
    if (me == sender) world.send(mine, other);
    if (me != sender) world.recv(come, other);
  }
  world.barrier();
  if (me == 0) cusim::take_nccl_log();
  world.barrier();
  Work first, second;  // from rank 1 to rank 0, and back
  if (me == 0) {
    first = world.recv(come, 1, {.async = true});
    turn = 1;
    wait_for(2);
    second = world.send(mine, 1, {.async = true});
    turn = 3;
    wait_for(4);
  } else {
    first = world.send(mine, 0, {.async = true});
    wait_for(1);
    expect(comes([&] { return first.test() || is_logged("rank 0 asks for send"); }), "it asks");
    turn = 2;
    wait_for(3);
    second = world.recv(come, 0, {.async = true});
    turn = 4;
  }
  second.wait();
  first.wait();
  expect(same_values(come, Array::full({5}, other + 1.0)), "what has come");
}

}  // namespace

TEST_CASE("nccl: what is asked for in a hardware queue waits for what others wait for before it") {
  const auto second_stream_is_done = [](int queues) {
    const Patience patience;
    const Queues some(queues);
    std::atomic<bool> done = false;
    run_ranks(
        2,
        [&](Communicator& world) {
          const Array x = Array::ones({4}, kFloat32, world.device());
          world.barrier();
          cusim::hold_nccl("all_reduce", true);
          world.barrier();
          world.all_reduce(x, {.order = Order::native});  // the rank's stream waits for it
          cuda::Event copied;
          Array filled;  // kept, since to free it could wait for the GPU
          if (world.rank() == 0) {
            const cuda::Stream second(world.device());
            const cuda::StreamScope scope(second);
            filled = Array::full({4}, 2.0, kFloat32, world.device());
            copied = second.record();
            for (int looks = 0; looks < 100 && !copied.query(); ++looks) {
            }
            done = copied.query();
          }
          world.barrier();
          cusim::hold_nccl("all_reduce", false);
          expect(same_values(x, Array::full({4}, 2.0)), "the sum");
        },
        kNccl);
    return done.load();
  };
  CHECK(second_stream_is_done(0));
  CHECK_FALSE(second_stream_is_done(1));
}

TEST_CASE(
    "nccl: messages that wait for each other in a GPU's queue end with an error that says so") {
  std::atomic<int> turn = 0;
  const auto program = [&](Communicator& world) { messages_in_a_circle(world, turn); };
  {
    const Patience patience;
    const Queues queues(0);  // each stream has one of its own
    CHECK(errors_of(2, program, seconds_of_step(60)) == std::vector<std::string>(2));
  }
  turn = 0;
  const Patience patience;
  const Queues queues(1);
  const std::vector<std::string> errors = errors_of(2, program, seconds_of_step(1));
  CHECK_THAT(errors[0] + errors[1],
             ContainsSubstring("time-out after 1 s: all ranks have asked for it") &&
                 ContainsSubstring(" share 1 queue of the GPU: set CUDA_DEVICE_MAX_CONNECTIONS to "
                                   "32"));
}

TEST_CASE("nccl: ranks that share a GPU are told when their streams are more than its queues") {
  const Patience patience;
  const SharedGPUs shared;
  const Queues few(3);  // the two ranks on cuda:0 need a stream each, and one for the sum
  const int ranks = cuda::device_count() + 1;
  std::string said;
  for (const std::string& error : errors_of(
           ranks,
           [](Communicator& world) {
             const Array x = Array::ones({4}, kFloat32, world.device());
             world.all_reduce(x);
             x.to(kCpu);
           },
           seconds_of_step(60))) {
    if (error.find("stream: ") != std::string::npos) said = error;
  }
  CHECK_THAT(said, ContainsSubstring("stream: the 2 ranks of this process on cuda:0 would use ") &&
                       ContainsSubstring(
                           " streams, and the GPU has 3 queues for them: calls of two ranks in "
                           "one queue may wait for each other for ever; set "
                           "CUDA_DEVICE_MAX_CONNECTIONS to 32"));
}

TEST_CASE("nccl: streams of ranks that share a GPU have a queue each, however many were made") {
  using Priority = cuda::Stream::Priority;
  const NcclDevices devices;
  const Device last = {DeviceType::cuda, 3};
  constexpr int kQueues = 16;
  const auto take = [&](Priority priority, int count) {
    std::vector<cuda::Stream> taken;
    for (int i = 0; i < count; ++i) taken.emplace_back(last, priority);
    return taken;
  };
  const int others = cuda::streams_in_use(3);
  REQUIRE(others <= 2);
  take(Priority::normal, kQueues);  // and given back
  const Queues queues(kQueues);
  for (const int by : {1, 1}) cuda::count_rank(3, by);
  {
    std::vector<cuda::Stream> all = take(Priority::normal, 6);
    for (const cuda::Stream& each : take(Priority::high, 8)) all.push_back(each);
    std::set<const void*> used;
    for (const cuda::Stream& each : all) {
      used.insert(static_cast<cudaStream_t>(each.handle())->hardware.get());
    }
    CHECK(used.size() == all.size());
    CHECK_THROWS_WITH(take(Priority::high, kQueues - others - 13),
                      ContainsSubstring("would use 17 streams") &&
                          ContainsSubstring("set CUDA_DEVICE_MAX_CONNECTIONS to 32"));
  }
  for (const int by : {-1, -1}) cuda::count_rank(3, by);
  CHECK(cuda::streams_in_use(3) == others);
}

TEST_CASE("nccl: a rank makes streams on its own GPU alone, whatever its caller and others use") {
  const NcclDevices devices;
  const int ranks = cuda::device_count();
  const auto in_use = [&] {
    std::vector<int> streams;
    for (int index = 0; index < ranks; ++index) streams.push_back(cuda::streams_in_use(index));
    return streams;
  };
  const auto program = [&] {  // which has work for the first GPU, and after a run for all
    const Array x = Array::full({4}, 2.5, kFloat32, {DeviceType::cuda, 0});
    for (int run = 0; run < 2; ++run) {
      std::vector<int> one_more = in_use();
      for (int& streams : one_more) ++streams;
      run_ranks(
          ranks,
          [&](Communicator& world) {
            const Array mine = Array::full({4}, 1.0, kFloat32, world.device());
            world.barrier();
            expect(in_use() == one_more, "a stream of each rank");
            world.barrier();
            // behind what the caller's stream was asked for
            if (world.rank() == ranks - 1) expect(same_values(x, Array::full({4}, 2.5)), "x");
          },
          kNccl);
    }
  };
  std::string said = "not begun";
  std::thread([&] { said = error_of(program); }).join();
  CHECK(said.empty());
}

TEST_CASE("nccl: a captured step that exchanges arrays with other ranks is an error") {
  const NcclDevices devices;
  const std::vector<std::string> errors = nccl_errors(2, [](Communicator& world) {
    const auto sum_of = [&](const std::vector<Array>& in) {
      const Array sum = in[0].clone();
      world.all_reduce(sum);
      return std::vector<Array>{sum};
    };
    cuda::GraphedStep captured(sum_of);  // on cuda:0
    const Array x = Array::ones({4}, kFloat32, world.device());
    for (int i = 0; i < 10; ++i) world.rank() == 0 ? captured({x}) : sum_of({x});
  });
  CHECK_THAT(errors[0],
             ContainsSubstring("all_reduce: arrays of the GPU go to other ranks, which a "
                               "captured step cannot do; keep it out of the step"));
}

TEST_CASE("nccl: where memory comes when a GPU is idle, ranks with a GPU each go on") {
  const Patience patience;
  cuda::empty_cache();
  cusim::allocate_late(true);
  std::atomic<bool> allocates = false;
  run_ranks(
      3,
      [&](Communicator& world) {
        check_all(world, {kFloat32}, {5}, world.device());
        const Array x = Array::full({4}, world.rank(), kFloat32, world.device());
        world.barrier();
        if (world.rank() != 0) {
          expect(comes([&] { return allocates.load(); }), "rank 0 allocates");
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        Work sum = world.all_reduce(x, {.async = true});
        allocates = true;
        Array::empty({1 << 26}, kUInt8, world.device());  // a segment of its own
        sum.wait();
        expect(same_values(x, Array::full({4}, 3.0)), "the sum");
      },
      kNccl);
}

// The last rank asks for a sum that rank 0, on its GPU, has begun and not asked for. The driver
// waits for it in whatever rank 0 does then.
TEST_CASE("nccl: where memory comes when a GPU is idle, ranks that share it go on") {
  const Patience patience;
  const SharedGPUs shared;
  const int ranks = cuda::device_count() + 1, last = ranks - 1;
  const std::function<void(Device)> calls[] = {
      [](Device device) { Array::empty({1 << 26}, kUInt8, device); },
      [](Device) { cuda::pinned({1 << 26}, kUInt8); },
      [](Device device) {
        std::vector<cuda::Stream> some;
        for (int i = 0; i < 12; ++i) some.emplace_back(device, cuda::Stream::Priority::high);
      },
  };
  for (size_t i = 0; i < std::size(calls); ++i) {
    CAPTURE(i);
    cuda::empty_cache();
    std::atomic<int> begun = 0;
    run_ranks(
        ranks,
        [&](Communicator& world) {
          const Array x = Array::full({4}, world.rank(), kFloat32, world.device());
          world.all_reduce(x);  // all are connected
          world.barrier();
          cusim::allocate_late(true);
          world.barrier();
          const bool is_last = world.rank() == last;
          if (is_last) expect(comes([&] { return begun == last; }), "the others begin");
          Work sum = world.all_reduce(x, {.async = true});
          ++begun;
          if (world.rank() == 0) {
            expect(comes([&] { return begun == ranks; }), "the last rank asks");
            calls[i](world.device());
          }
          sum.wait();
          expect(same_values(x, Array::full({4}, ranks * (ranks - 1) / 2 * ranks)), "the sum");
          world.barrier();
          cusim::allocate_late(false);
        },
        seconds_of_step(20));
  }
}

// Rank 0 waits for rank 1 in NCCL, which then allocates, when the last rank, on its GPU, asks for a
// message that rank 0 has begun and not asked for.
TEST_CASE("nccl: where memory comes when a GPU is idle, ranks that share it make groups") {
  const Patience patience;
  const SharedGPUs shared;
  const int ranks = cuda::device_count() + 1, last = ranks - 1;
  dist::RunOptions options = seconds_of_step(20);
  options.timeout_join = 20;
  run_ranks(
      ranks,
      [&](Communicator& world) {
        const int me = world.rank();
        const Array x = Array::full({4}, me, kFloat32, world.device());
        const Communicator pair = world.split(me < 2 ? 0 : -1, 0, "pair");
        if (me == last) world.send(x, 0);  // the lane is there
        if (me == 0) world.recv(x, last);
        world.barrier();
        if (me == 0) {
          cusim::take_nccl_log();
          cusim::allocate_late(true);
          cusim::hold_nccl("CommSplit", true, 1);
        }
        world.barrier();
        if (me == 0) {
          Work message = world.recv(x, last, {.async = true});
          const Communicator part = pair.split(0, 0, "part");
          message.wait();
          expect(same_values(x, Array::full({4}, last)), "the message");
        }
        if (me == 1) pair.split(0, 0, "part");
        if (me == last) {
          expect(comes([] { return is_logged("CommSplit: rank 0 of 2, color 0, key 0"); }),
                 "rank 0 joins");
          Work message = world.send(x, 0, {.async = true});
          expect(comes([&] { return message.test() || is_logged("rank 0 asks for send"); }),
                 "the last rank asks");
          cusim::hold_nccl("CommSplit", false, 1);
          message.wait();
        }
        world.barrier();
      },
      options);
}

// The last rank measures behind a sum for which rank 0 has not asked.
TEST_CASE(
    "nccl: a rank measures a product while its GPU waits for another rank that does so, too") {
  const NcclDevices devices;
  const SharedGPUs shared;
  const int ranks = cuda::device_count() + 1, last = ranks - 1;
  std::atomic<bool> measures = false;
  std::atomic<int> begun = 0;
  run_ranks(
      ranks,
      [&](Communicator& world) {
        const int me = world.rank();
        const Array x = Array::full({4}, me, kFloat32, world.device());
        const Array a = Array::ones({1, 19, 37}, kFloat32, world.device());
        const Array b = Array::ones({1, 37, 11}, kFloat32, world.device());
        const Array product = Array::zeros({1, 19, 11}, kFloat32, world.device());
        world.all_reduce(Array::ones({1}, kFloat32, world.device()));  // the ranks are connected
        world.barrier();
        if (me == last) expect(comes([&] { return begun == last; }), "the others begin");
        Work sum = world.all_reduce(x, {.async = true});
        ++begun;
        if (me == last) {
          sum.wait();
          measures = true;
          core::backend(world.device()).run(core::call::Matmul{a, b, product});
        }
        if (me == 0) {
          expect(comes([&] { return measures.load(); }), "the last rank begins");
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          core::backend(world.device()).run(core::call::Matmul{a, b, product});
        }
        sum.wait();
        expect(same_values(x, Array::full({4}, last * ranks / 2)), "the sum");
        if (me == 0 || me == last) {
          expect(same_values(product, Array::full({1, 19, 11}, 37.0)), "the product");
        }
      },
      seconds_of_step(5));
}

#endif
