// Times collectives of float32 sums on the ranks it is started with, as threads (--ranks N) or
// under mpirun, and prints a line of JSON for each; see collectives.py.
//   collectives_hero [native] [launch's options]
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>

#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Clock = std::chrono::steady_clock;

// Microseconds a call: the best of the rounds.
double time_of(Communicator& world, int64_t bytes, const std::function<void()>& call) {
  const int times = static_cast<int>(std::clamp<int64_t>((int64_t{32} << 20) / bytes, 3, 300));
  double best = 1e30;
  call();
  for (int round = 0; round < 5; ++round) {
    world.barrier();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < times; ++i) call();
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    best = std::min(best, took.count() / times);
  }
  return best;
}

void measure(Communicator& world, Order order) {
  const auto print = [&](const char* op, int64_t bytes, double us) {
    world.out() << "{\"op\": \"" << op << "\", \"bytes\": " << bytes << ", \"us\": " << us << "}"
                << std::endl;
  };
  for (const int64_t bytes : {1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26}) {
    const int64_t n = bytes / 4;
    const Array x = Array::zeros({n}), part = Array::zeros({n / world.size()});
    const CallOptions sum{.order = order};
    print("all_reduce", bytes, time_of(world, bytes, [&] { world.all_reduce(x, sum); }));
    print("reduce_scatter", bytes,
          time_of(world, bytes, [&] { world.reduce_scatter(part, x, sum); }));
    if (order == Order::native) continue;
    print("all_gather", bytes, time_of(world, bytes, [&] { world.all_gather(x, part); }));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool native = argc > 1 && std::strcmp(argv[1], "native") == 0;
  return launch(argc, argv, [native](Communicator& world) {
    measure(world, native ? Order::native : Order::ranks);
  });
}
