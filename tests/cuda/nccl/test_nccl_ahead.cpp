// The GPU's stream waits for NCCL's call, the host for the word of the other ranks, later: what is
// enqueued before they have come, and what becomes of it where they never come.
#include "cuda/gpu.h"

#ifdef HERO_TEST_CUSIM
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/nccl/nccl_checks.h"
#include "cuda/nccl/nccl_ranks.h"

using namespace hero;
using namespace hero::test;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

// Raised when this is left, however that comes.
class Flag {
 public:
  explicit Flag(std::atomic<bool>& flag) : flag_(flag) {}
  ~Flag() { flag_ = true; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

 private:
  std::atomic<bool>& flag_;
};

size_t place_of(const std::vector<std::string>& log, const std::string& line) {
  return static_cast<size_t>(std::find(log.begin(), log.end(), line) - log.begin());
}

constexpr auto kLate = std::chrono::milliseconds(50);

// What the ranks throw that make these calls, and then wait for their GPU.
std::vector<std::string> lines_of(const dist::RunOptions& options,
                                  const std::function<void(Communicator&, const Array&)>& calls) {
  return errors_of(
      3,
      [&](Communicator& world) {
        const bool nccl = world.backend_kind() == BackendKind::nccl;
        const Array x = Array::zeros({6}, kFloat32, nccl ? world.device() : kGpu);
        world.barrier();
        calls(world, x);
        x.to(kCpu);
        world.barrier();
      },
      options);
}

}  // namespace

TEST_CASE("nccl: a sum is enqueued, and waited for, before another rank has come to it") {
  const NcclDevices devices;
  std::atomic<bool> went_on = false;
  std::vector<std::string> log;
  const dist::RunOptions options = seconds_of_step(5);
  run_ranks(
      2,
      [&](Communicator& world) {
        const Array x = Array::full({4}, world.rank() + 1.0, kFloat32, world.device());
        const Array copy = copy_on(x, world.device());
        world.barrier();
        if (world.rank() == 0) {
          const Flag flag(went_on);
          cusim::take_nccl_log();
          world.all_reduce(x, {.order = Order::native});
          core::backend(world.device()).run(core::call::Copy{x, copy});
          core::backend(world.device()).run(core::call::Fill{x, 0.0});
          log = cusim::take_nccl_log();
        } else {
          expect(comes([&] { return went_on.load(); }), "rank 0 goes on");
          std::this_thread::sleep_for(kLate);  // meanwhile rank 0 reads
          world.all_reduce(x, {.order = Order::native});
        }
        expect(same_values(world.rank() == 0 ? copy : x, Array::full({4}, 3.0)), "the sum");
      },
      options);
  CHECK(log == std::vector<std::string>{"rank 0 asks for all_reduce"});
}

TEST_CASE("nccl: a thread that is no rank's waits for the GPU until the other ranks have come") {
  const NcclDevices devices;
  std::atomic<bool> went_on = false;
  run_ranks(
      2,
      [&](Communicator& world) {
        const Array x = Array::full({4}, world.rank() + 1.0, kFloat32, world.device());
        world.barrier();
        if (world.rank() == 1) {
          expect(comes([&] { return went_on.load(); }), "rank 0 goes on");
          std::this_thread::sleep_for(kLate);
          world.all_reduce(x);
          return;
        }
        world.all_reduce(x);
        const Array there = cuda::pinned({4}, kFloat32);
        const cuda::Event copied = cuda::copy_async(x, there);
        went_on = true;
        std::thread([&] { copied.synchronize(); }).join();
        expect(same_values(there, Array::full({4}, 3.0)), "the copy");
      },
      kNccl);
}

TEST_CASE("nccl: a GPU takes memory back while another one waits for this rank") {
  const NcclDevices devices;
  std::atomic<bool> asked = false;
  run_ranks(
      2,
      [&](Communicator& world) {
        const Array x = Array::full({4}, world.rank() + 1.0, kFloat32, world.device());
        world.barrier();
        if (world.rank() == 0) {
          expect(comes([&] { return asked.load(); }), "rank 1 asks for the sum");
          cudaSetDevice(world.device().index);
          void* block = nullptr;
          expect(cudaMalloc(&block, 64) == cudaSuccess, "64 bytes");
          expect(cudaFree(block) == cudaSuccess, "rank 0's GPU waits for nobody");
        }
        Work sum = world.all_reduce(x, {.async = true});
        asked = true;
        sum.wait();
        expect(same_values(x, Array::full({4}, 3.0)), "the sum");
      },
      kNccl);
}

TEST_CASE("nccl: ranks that differ behind what is enqueued end with the lines of threads") {
  const NcclDevices devices;
  using Calls = std::function<void(Communicator&, const Array&)>;
  const auto odd = [](const Communicator& world) { return world.rank() == 2; };
  const std::vector<Calls> programs = {
      [&](Communicator& world, const Array& x) {
        world.all_reduce(x.slice(0, 0, odd(world) ? 5 : 6), {.unit = "fc1"});
      },
      [&](Communicator& world, const Array& x) { world.broadcast(x, odd(world) ? 1 : 0); },
      [&](Communicator& world, const Array& x) {
        world.all_reduce(x, {.op = odd(world) ? ReduceOp::max : ReduceOp::sum});
      },
      [&](Communicator& world, const Array& x) {
        if (odd(world)) world.all_reduce(x);
        if (!odd(world)) world.broadcast(x, 0);
      },
      [&](Communicator& world, const Array& x) {  // and more behind it, on which they agree
        world.all_reduce(x, {.unit = odd(world) ? "fc1" : "fc2"});
        world.all_reduce(x);
        world.broadcast(x, 0);
      },
  };
  for (const Calls& calls : programs) {
    const int open = cusim::open_communicators();
    const std::vector<std::string> lines = lines_of(kNccl, calls);
    CHECK_THAT(lines[0], ContainsSubstring("(call 1 of 'world'") &&
                             ContainsSubstring("ranks disagree on the"));
    CHECK(lines == lines_of({}, calls));
    CHECK(cusim::open_communicators() == open);
  }
}

TEST_CASE("nccl: communicators are aborted though the ranks' hosts hear of nothing") {
  const NcclDevices devices;
  struct Case {
    bool comes;
    const char* said;
  };
  for (const Case& each :
       {Case{true,
             "all_reduce (call 1 of 'world', unit 'fc1'): ranks disagree on the size: rank "
             "0 says 4 elements; rank 1 says 5 elements"},
        Case{false,
             "all_reduce (call 1 of 'world', unit 'fc1'): time-out after 0.5 s: rank 1 did "
             "not arrive; set HERO_TIMEOUT to more seconds if they only need longer"}}) {
    CAPTURE(each.comes);
    const int open = cusim::open_communicators(), aborted = cusim::aborted_communicators();
    dist::RunOptions options = kNccl;
    options.timeout = each.comes ? 600 : 0.5;
    const std::vector<std::string> lines = errors_of(
        2,
        [&](Communicator& world) {
          const Array x = Array::zeros({4 + world.rank()}, kFloat32, world.device());
          world.barrier();
          if (world.rank() == 0 || each.comes) world.all_reduce(x, {.unit = "fc1"});
          // no rank makes a call meanwhile
          expect(comes([&] { return cusim::aborted_communicators() > aborted; }), "an abort");
          if (world.rank() == 0) x.to(kCpu);
          world.barrier();
        },
        options);
    CHECK_THAT(lines[0], ContainsSubstring(each.said));
    CHECK(lines[1] == lines[0]);
    CHECK(cusim::open_communicators() == open);
  }
}

TEST_CASE("nccl: a rank that throws behind a sum has waited for the others to ask for it") {
  const NcclDevices devices;
  std::atomic<bool> throws = false;
  std::vector<double> sums(2);
  const std::vector<std::string> errors = nccl_errors(2, [&](Communicator& world) {
    const Array x = Array::full({4}, world.rank() + 1.0, kFloat32, world.device());
    world.barrier();
    if (world.rank() == 1) {
      expect(comes([&] { return throws.load(); }), "rank 0 throws");
      std::this_thread::sleep_for(kLate);
    }
    world.all_reduce(x);
    if (world.rank() == 0) {
      throws = true;
      fail("no more data");
    }
    sums[1] = x.to(kCpu).to_vector<double>()[3];
  });
  CHECK(errors[0] == "no more data");
  CHECK(sums[1] == 3.0);
}

TEST_CASE("nccl: a communicator is destroyed once no other rank is waited for") {
  const NcclDevices devices;
  std::atomic<bool> drops = false;
  cusim::take_nccl_log();
  std::vector<std::string> log;
  run_ranks(
      2,
      [&](Communicator& world) {
        const Array x = Array::full({4}, world.rank() + 1.0, kFloat32, world.device());
        Communicator part = world.split(0, 0, "part");
        part.all_reduce(x, {.order = Order::native});
        x.to(kCpu);
        world.barrier();
        if (world.rank() == 0) cusim::take_nccl_log();
        world.barrier();
        if (world.rank() == 1) {
          expect(comes([&] { return drops.load(); }), "rank 0 drops its group");
          std::this_thread::sleep_for(kLate);
        }
        Work sum = world.all_reduce(x, {.order = Order::native, .async = true});
        drops = true;
        part = {};
        sum.wait();
        expect(same_values(x, Array::full({4}, 6.0)), "the sum");
        world.barrier();
        if (world.rank() == 0) log = cusim::take_nccl_log();
      },
      kNccl);
  CHECK(place_of(log, "rank 1 asks for all_reduce") < place_of(log, "CommFinalize: rank 0 of 2"));
}

TEST_CASE("nccl: joining has a time-out of its own") {
  const NcclDevices devices;
  const int open = cusim::open_communicators(), aborted = cusim::aborted_communicators();
  dist::RunOptions options = seconds_of_step(600);
  options.timeout_join = 0.3;
  cusim::hold_nccl("CommInitRankConfig", true);
  std::string line;
  try {
    run_ranks(
        2, [](Communicator&) {}, options);
  } catch (const Error& error) {
    line = error.what();
  }
  cusim::hold_nccl("CommInitRankConfig", false);
  CHECK_THAT(line, ContainsSubstring("of 'world': time-out of joining after 0.3 s: NCCL still "
                                     "waits for other ranks; set HERO_TIMEOUT_JOIN to more"));
  // those who come late meet nobody who takes what they make
  CHECK(comes([&] { return cusim::aborted_communicators() == aborted + 2; }));
  CHECK(cusim::open_communicators() == open);
}

#endif
