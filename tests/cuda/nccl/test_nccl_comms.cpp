// The nccl backend's communicators: how groups get theirs, that gathers and reductions have one
// each, and how they end.
#include "cuda/gpu.h"

#ifdef HERO_TEST_CUSIM
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cuda/nccl/nccl_checks.h"
#include "cuda/nccl/nccl_ranks.h"

#include <hero/dist/backends/nccl/library.h>
#include <hero/dist/mesh.h>

using namespace hero;
using namespace hero::test;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

int64_t lines_with(const std::vector<std::string>& log, const std::string& text) {
  return std::count_if(log.begin(), log.end(), [&](const std::string& line) {
    return line.find(text) != std::string::npos;
  });
}

// While it lives, calls of that kind do not begin on any rank.
class HeldBack {
 public:
  explicit HeldBack(std::string kind) : kind_(std::move(kind)) { cusim::hold_nccl(kind_, true); }
  ~HeldBack() { release(); }
  HeldBack(const HeldBack&) = delete;
  HeldBack& operator=(const HeldBack&) = delete;
  void release() { cusim::hold_nccl(kind_, false); }

 private:
  const std::string kind_;
};

// While it lives, communicators connect their ranks in the first call.
class LateConnections {
 public:
  LateConnections() { cusim::connect_nccl_late(true); }
  ~LateConnections() { cusim::connect_nccl_late(false); }
  LateConnections(const LateConnections&) = delete;
  LateConnections& operator=(const LateConnections&) = delete;
};

// A rank that is missing in a sum.
void sum_over_ranks(const Communicator& world) {
  world.all_reduce(Array::ones({4}, kFloat32, world.device()), {.unit = "fc1"});
}

}  // namespace

TEST_CASE("nccl: the axes of a mesh are split from the world's communicator", "[nccl_comms]") {
  const NcclDevices devices;
  cusim::take_nccl_log();
  run_ranks(
      4,
      [](Communicator& world) {
        const Mesh mesh(world, {{"replicate", 2}, {"shard", 2}});
        const Array x = Array::full({3}, world.rank(), kFloat32, world.device());
        mesh["shard"].all_reduce(x);
        expect(same_values(x, Array::full({3}, world.rank() < 2 ? 1 : 5)), "along an axis");
        mesh["replicate"].broadcast(x, 1);
        expect(same_values(x, Array::full({3}, 5)), "along the other");
      },
      kNccl);
  const std::vector<std::string> log = cusim::take_nccl_log();
  CHECK(lines_with(log, "CommInitRankConfig") == 4);  // the world alone
  CHECK(lines_with(log, "CommSplit: rank ") == 20);   // the second of the world, and two an axis
  CHECK(lines_with(log, "CommSplit: rank 3 of 4, color 1, key 1") == 1);  // "replicate": 1 and 3
  CHECK(lines_with(log, "CommSplit: rank 3 of 4, color 2, key 1") == 1);  // "shard": 2 and 3
  CHECK(lines_with(log, "CommFinalize") == 24);
}

TEST_CASE("nccl: ranks of no group take part in the split that makes the others'", "[nccl_comms]") {
  const NcclDevices devices;
  cusim::take_nccl_log();
  const int open = cusim::open_communicators();
  run_ranks(
      3,
      [](Communicator& world) {
        const int me = world.rank();
        const Array x = Array::full({3}, me, kFloat32, world.device());
        Work added = world.all_reduce(x, {.async = true});  // done before the split
        const Communicator part = world.split(me == 1 ? -1 : 0, -me);
        expect(part.defined() == (me != 1), "rank 1 is in none");
        const std::vector<int> pair = {2, 1};
        const Communicator other =
            world.group(me == 0 ? std::span<const int>() : std::span(pair), "pair");
        added.wait();
        if (part.defined()) part.broadcast(x, 0);
        if (other.defined()) other.all_reduce(x);
        expect(same_values(x, Array::full({3}, me == 0 ? 3 : 6)), "the sums");
      },
      kNccl);
  const std::vector<std::string> log = cusim::take_nccl_log();
  CHECK(lines_with(log, "CommSplit: rank 1 of 3, color -1") == 1);
  CHECK(lines_with(log, "CommSplit: rank 2 of 3, color 0, key 0") == 1);  // ordered by its key
  CHECK(lines_with(log, "CommSplit: rank 0 of 3, color -1") == 1);
  CHECK(cusim::open_communicators() == open);
}

TEST_CASE("nccl: a split that fails on one rank is an error on all", "[nccl_comms]") {
  const NcclDevices devices;
  const int open = cusim::open_communicators();
  const std::vector<std::string> errors = nccl_errors(3, [](Communicator& world) {
    world.barrier();  // the world has both of its own
    if (world.rank() == 2) cusim::break_nccl("CommSplit", 2, ncclSystemError);
    world.split(world.rank() % 2, 0, "parity");
  });
  CHECK_THAT(errors[2], ContainsSubstring("nccl: splitting 'world' for rank 1 of 'parity': NCCL "
                                          "reports: system error"));
  for (const int rank : {0, 1}) {
    CHECK_THAT(errors[static_cast<size_t>(rank)], ContainsSubstring("rank 2 failed"));
  }
  CHECK(cusim::open_communicators() == open);
}

TEST_CASE("nccl: an older library has no split and says so", "[nccl_comms]") {
  CHECK(dist::nccl::load_library("libnccl.so.2").CommSplit != nullptr);
  CHECK(dist::nccl::load_library("libnccl.so.2").no_split.empty());
  ::setenv("HERO_CUSIM_NCCL_VERSION", "21701", 1);
  const dist::nccl::Library older = dist::nccl::load_library("libnccl.so.2");
  ::setenv("HERO_CUSIM_NCCL_VERSION", "21300", 1);
  CHECK_THROWS_WITH(dist::nccl::load_library("libnccl.so.2"),
                    ContainsSubstring("is of version 2.13.0; install NCCL 2.14 or newer"));
  ::unsetenv("HERO_CUSIM_NCCL_VERSION");
  CHECK(older.CommSplit == nullptr);
  CHECK(older.no_split == "NCCL 2.17.1 has no ncclCommSplit");
}

TEST_CASE("nccl: a gather does not wait for a reduction that was posted before it",
          "[nccl_comms]") {
  const NcclDevices devices;
  HeldBack reductions("reduce_scatter");
  std::vector<std::string> log;
  run_ranks(
      2,
      [&](Communicator& world) {
        const int me = world.rank();
        const Device device = world.device();
        const Array mine = Array::full({4}, me, kFloat32, device);
        const Array all = Array::zeros({8}, kFloat32, device);
        const Array x = Array::full({8}, me + 1, kFloat32, device);
        const Array part = Array::zeros({4}, kFloat32, device);
        if (me == 0) cusim::take_nccl_log();
        Work reduction = world.reduce_scatter(part, x, {.order = Order::native, .async = true});
        world.all_gather(all, mine);
        const std::vector<float> values = all.to(kCpu).to_vector<float>();
        expect(values.front() == 0 && values.back() == 1, "the gathered parts");
        world.barrier();
        if (me == 0) {
          log = cusim::take_nccl_log();
          reductions.release();
        }
        world.barrier();
        reduction.wait();
        expect(same_values(part, Array::full({4}, 3)), "the sum");
      },
      kNccl);
  CHECK(lines_with(log, "all_gather of ") == 1);
  CHECK(lines_with(log, "reduce_scatter of ") == 0);
  CHECK(lines_with(cusim::take_nccl_log(), "reduce_scatter of ") == 1);
}

TEST_CASE("nccl: a failure ends both communicators of a group", "[nccl_comms]") {
  const NcclDevices devices;
  const int open = cusim::open_communicators(), aborted = cusim::aborted_communicators();
  nccl_errors(2, [](Communicator& world) {
    check(world.rank() != 1, "no more data");
    sum_over_ranks(world);
  });
  CHECK(cusim::open_communicators() == open);
  CHECK(cusim::aborted_communicators() == aborted + 4);
}

TEST_CASE("nccl: communicators that connect in their first call", "[nccl_comms]") {
  const NcclDevices devices;
  const LateConnections late;
  run_ranks(
      3,
      [](Communicator& world) {
        check_all(world, {kFloat32}, {5}, world.device());
        const Communicator part = world.split(world.rank() == 1 ? -1 : 0, 0);
        if (part.defined()) sum_over_ranks(part);
        check_ring(world);
      },
      kNccl);
}

TEST_CASE("nccl: a host that NCCL does not let go hears of a rank that fails", "[nccl_comms]") {
  const NcclDevices devices;
  const LateConnections late;
  const int open = cusim::open_communicators();
  const std::vector<std::string> errors = nccl_errors(3, [](Communicator& world) {
    check(world.rank() != 1, "no more data");
    sum_over_ranks(world);
  });
  for (const int rank : {0, 2}) {
    CHECK_THAT(errors[static_cast<size_t>(rank)],
               ContainsSubstring("all_reduce (call 0 of 'world', unit 'fc1'): rank 1 failed") &&
                   ContainsSubstring("no more data"));
  }
  CHECK(cusim::open_communicators() == open);
}

TEST_CASE("nccl: the first call has the time of joining, and names the rank that never comes",
          "[nccl_comms]") {
  const NcclDevices devices;
  const LateConnections late;
  const int open = cusim::open_communicators();
  dist::RunOptions options = seconds_of_step(0.2);
  const auto comes_late = [](Communicator& world) {
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    sum_over_ranks(world);
  };
  CHECK(errors_of(2, comes_late, options) == std::vector<std::string>(2));
  std::vector<std::string> errors;
  std::string expected;
  for (const std::string seconds : {"0.5", "10", "60"}) {  // to join on a busy machine
    options.timeout_join = std::stod(seconds);
    expected = "all_reduce (call 0 of 'world', unit 'fc1'): time-out of joining after " + seconds +
               " s: rank 1 did not arrive; set HERO_TIMEOUT_JOIN to more seconds if they only need "
               "longer";
    std::atomic<int> heard = 0;
    errors = errors_of(
        3,
        [&](Communicator& world) {
          if (world.rank() != 1) {
            try {
              sum_over_ranks(world);
            } catch (const Error&) {
              ++heard;
              throw;
            }
          }
          while (heard < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        },
        options);
    if (errors[0] == expected) break;
  }
  CHECK(errors[0] == expected);
  CHECK(errors[2] == expected);
  CHECK(cusim::open_communicators() == open);
}

TEST_CASE("nccl: a communicator that cannot be finalized is aborted after the time-out",
          "[nccl_comms]") {
  const NcclDevices devices;
  const int open = cusim::open_communicators(), aborted = cusim::aborted_communicators();
  const dist::RunOptions options = seconds_of_step(0.3);
  cusim::break_nccl("CommFinalize", 1, ncclInternalError);
  run_ranks(2, sum_over_ranks, options);
  CHECK(cusim::open_communicators() == open);
  CHECK(cusim::aborted_communicators() == aborted + 1);
}

#endif
