// What the nccl backend says when NCCL fails, is missing, or has no GPU.
#include "cuda/gpu.h"

#if defined(HERO_TEST_CUSIM) || __has_include(<nccl.h>)
#include <chrono>
#include <thread>

#include "cuda/nccl/nccl_ranks.h"

#include <hero/dist/backends/nccl/comm.h>

using namespace hero;
using namespace hero::test;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

// Joins a communicator by its id.
ncclComm_t join_by_id(const ncclUniqueId& id, int size, int rank, double timeout) {
  const dist::nccl::Library& library = dist::nccl::library();
  return dist::nccl::connect(library, dist::nccl::by_id(library, id, size, rank),
                             "joining rank " + std::to_string(rank), timeout, [] {});
}

}  // namespace

TEST_CASE("nccl: a library that is not there, or is another one, is an error with its name") {
  CHECK_THROWS_WITH(dist::nccl::load_library("libno_such_nccl.so"),
                    ContainsSubstring("cannot load the library 'libno_such_nccl.so'") &&
                        ContainsSubstring("install NCCL") && ContainsSubstring("HERO_NCCL"));
  CHECK_THROWS_WITH(dist::nccl::load_library("libz.so.1"),
                    ContainsSubstring("the library 'libz.so.1' has no ncclGetVersion"));
}

TEST_CASE("nccl: joining without a GPU is an error with NCCL's own text") {
  const dist::nccl::Library* library = nullptr;
  try {
    library = &dist::nccl::library();
  } catch (const Error& error) {
    std::cout << "skipped: " << error.what() << std::endl;
    SUCCEED("skipped: no NCCL");
    return;
  }
  const NcclDevices devices;
  ncclUniqueId id = {};
  REQUIRE(library->GetUniqueId(&id) == ncclSuccess);
#ifdef HERO_TEST_CUSIM
  cusim::break_nccl("CommInitRankConfig", 0, ncclUnhandledCudaError);
#else
  if (cuda::is_available()) {
    ncclComm_t comm = join_by_id(id, 1, 0, 60);
    CHECK(library->CommFinalize(comm) == ncclSuccess);
    CHECK(library->CommDestroy(comm) == ncclSuccess);
    return;
  }
#endif
  CHECK_THROWS_WITH(join_by_id(id, 1, 0, 60), ContainsSubstring("joining rank 0: NCCL reports: ") &&
                                                  ContainsSubstring("unhandled cuda error"));
}

#ifdef HERO_TEST_CUSIM

TEST_CASE("nccl: a rank that nobody joins gives up after the time-out") {
  const NcclDevices devices;
  const dist::nccl::Library& library = dist::nccl::library();
  ncclUniqueId id = {};
  REQUIRE(library.GetUniqueId(&id) == ncclSuccess);
  const int open = cusim::open_communicators(), aborted = cusim::aborted_communicators();
  CHECK_THROWS_WITH(join_by_id(id, 2, 1, 0.01),
                    ContainsSubstring("joining rank 1: time-out of joining after 0.01 s"));
  CHECK(cusim::open_communicators() == open);
  // Should the others come after all, they meet a communicator that nobody takes, and it is
  // aborted.
  ncclComm_t late = join_by_id(id, 2, 0, 60);
  for (int i = 0; i < 60'000 && cusim::aborted_communicators() == aborted; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(cusim::aborted_communicators() == aborted + 1);
  CHECK(library.CommFinalize(late) == ncclSuccess);
  CHECK(library.CommDestroy(late) == ncclSuccess);
  CHECK(cusim::open_communicators() == open);
}

TEST_CASE("nccl: a call that does not come back is aborted after the time-out") {
  const NcclDevices devices;
  int open = 0;
  std::string line, expected;
  // one that is too short for the ranks to meet on a busy machine is followed by a longer one
  for (const std::string seconds : {"0.2", "5", "60"}) {
    open = cusim::open_communicators();
    cusim::break_nccl("Hang", 1, ncclInternalError);
    dist::RunOptions options = kNccl;
    options.timeout = std::stod(seconds);
    expected = "broadcast (call 1 of 'world', unit 'fc1'): time-out after " + seconds + " s";
    try {
      run_ranks(
          2,
          [](Communicator& world) {
            world.barrier();  // which ends the time of joining
            const Array x = Array::zeros({4}, kFloat32, world.device());
            world.broadcast(x, 0, {.unit = "fc1"});
          },
          options);
    } catch (const Error& error) {
      line = error.what();
    }
    if (line.find(expected) != std::string::npos) break;
  }
  CHECK_THAT(line, ContainsSubstring(expected));
  CHECK(cusim::open_communicators() == open);
}

TEST_CASE("nccl: memory goes back to the driver once no other rank is waited for") {
  const NcclDevices devices;
  run_ranks(
      2,
      [](Communicator& world) {
        const Array x = Array::full({1 << 20}, world.rank() + 1.0, kFloat32, world.device());
        if (world.rank() ==
            1) {  // cusim ends the program where work waits for a call not asked for
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        Work work = world.all_reduce(x, {.async = true});
        { const Array large = Array::empty({1 << 24}, kFloat32, world.device()); }
        cuda::empty_cache();
        work.wait();
        CHECK(x.to(kCpu).to_vector<float>()[0] == 3.0f);
      },
      kNccl);
}

TEST_CASE("nccl: what NCCL fails in on one rank, all ranks hear of, and nothing stays open") {
  const NcclDevices devices;
  struct Fault {
    const char* function;
    int rank;
    const char* said;
  };
  for (const Fault& fault : {Fault{"GetUniqueId", 0, "an id for 'world'"},
                             Fault{"CommInitRankConfig", 1, "joining rank 1 of 'world'"},
                             Fault{"AllGather", 1, "all_gather (call 0 of 'world', unit 'fc1')"},
                             Fault{"Send", 1, "all_reduce (call 1 of 'world')"},
                             Fault{"Async", 0, "all_gather (call 0 of 'world', unit 'fc1')"}}) {
    CAPTURE(fault.function);
    const int open = cusim::open_communicators();
    cusim::break_nccl(fault.function, fault.rank, ncclSystemError);
    const auto program = [](Communicator& world) {
      const Array x = Array::zeros({4}, kFloat32, world.device());
      const Array all = Array::zeros({4 * world.size()}, kFloat32, world.device());
      world.all_gather(all, x, {.unit = "fc1"});
      world.all_reduce(x);
      world.barrier();
    };
    std::string line;
    try {
      run_ranks(3, program, kNccl);
    } catch (const Error& error) {
      line = error.what();
    }
    CHECK_THAT(line,
               ContainsSubstring(fault.said) && ContainsSubstring("NCCL reports: system error"));
    CHECK(cusim::open_communicators() == open);
  }
}

TEST_CASE("nccl: a call that fails under way fails in wait()") {
  const NcclDevices devices;
  const std::vector<std::string> errors = nccl_errors(2, [](Communicator& world) {
    const Array x = Array::zeros({4}, kFloat32, world.device());
    Work work = world.broadcast(x, 0, {.async = true, .unit = "fc2"});
    if (world.rank() == 1) cusim::break_nccl("Async", 1, ncclRemoteError);
    work.wait();
    world.barrier();
  });
  CHECK_THAT(errors[1],
             ContainsSubstring("broadcast (call 0 of 'world', unit 'fc2'): NCCL reports: remote "
                               "process error (told to fail in Async)"));
  CHECK_THAT(errors[0], ContainsSubstring("rank 1 failed"));
}

#endif
#endif
