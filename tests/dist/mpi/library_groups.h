#pragma once
// The communicators that MPI needs for its own reductions: when they are freed, and what happens
// when MPI waits for one for ever.
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "dist/backends/collective_checks.h"
#include "dist/mpi/go_wrong.h"
#include <dlfcn.h>

#include <hero/core/array.h>
#include <hero/dist/backends/mpi/run.h>
#include <hero/dist/backends/mpi/transport.h>

/// Stands before the library's own. Every argument fits a register, whichever MPI it is. In the
/// process of the number HERO_STOPPED it never calls it.
extern "C" inline __attribute__((used)) int MPI_Comm_create_group(long comm, long group, int tag,
                                                                  void* made) {
  const char* const victim = std::getenv("HERO_STOPPED");
  const std::string me = std::to_string(hero::dist::mpi_world_rank());
  if (victim != nullptr && me == victim) hero::test::forever();
  using Make = int (*)(long, long, int, void*);
  return reinterpret_cast<Make>(::dlsym(RTLD_NEXT, "MPI_Comm_create_group"))(comm, group, tag,
                                                                             made);
}

namespace hero::test {

/// Groups that come and go, in two runs of the same processes.
inline int check_library_groups() {
  using namespace dist;
  std::string wrong;
  const auto groups = [] { return mpi_transport(nullptr).groups(); };
  const auto sum = [](const Communicator& group) {
    const Array x = Array::ones({5});
    group.all_reduce(x, {.order = Order::native});
    expect(same(x, Array::full({5}, group.size())), "the number of its ranks");
  };
  const auto come_and_go = [&](Communicator& world) {
    sum(world);
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      const Communicator half = world.split(world.rank() % 2, 0), all = world.split(0, 0);
      const Communicator quiet = world.split(0, 0);  // makes no such call
      sum(half);
      sum(all);
      // let go of while its call is under way
      works.push_back(
          world.split(0, -world.rank())
              .all_reduce(Array::ones({70000}), {.order = Order::native, .async = true}));
    }
    for (Work& work : works) work.wait();
    for (int looks = 0; groups() > 1 && looks < 20000; ++looks) {  // the last ones, soon
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    expect(groups() == 1, "groups that are left beside the world: ", groups() - 1);
    const Communicator kept = world.split(0, 0);
    sum(kept);
    expect(groups() == 2, "the world's and that which is kept");
  };
  for (int run = 0; run < 2; ++run) {
    const auto failure = run_on_mpi(
        [&](Communicator& world) {
          try {
            come_and_go(world);
          } catch (const std::exception& error) {
            wrong = error.what();
            throw;
          }
        },
        {}, [](const Failure&) {});
    if (failure) wrong += failure->line;
    if (groups() != 0) wrong += "; " + std::to_string(groups()) + " are left after the run";
  }
  if (!wrong.empty()) std::cerr << wrong << "\n";
  return wrong.empty() ? 0 : 1;
}

}  // namespace hero::test
