// The same as collectives_hero.cpp in plain MPI.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include <mpi.h>

namespace {

using Clock = std::chrono::steady_clock;

double time_of(long bytes, const std::function<void()>& call) {
  const long times = std::clamp((32L << 20) / bytes, 3L, 300L);
  double best = 1e30;
  call();
  for (int round = 0; round < 5; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const Clock::time_point start = Clock::now();
    for (long i = 0; i < times; ++i) call();
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    best = std::min(best, took.count() / static_cast<double>(times));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto print = [rank](const char* op, long bytes, double us) {
    if (rank != 0) return;
    std::printf("{\"op\": \"%s\", \"bytes\": %ld, \"us\": %g}\n", op, bytes, us);
    std::fflush(stdout);
  };
  for (const long bytes : {1L << 10, 1L << 16, 1L << 20, 1L << 24, 1L << 26}) {
    const int n = static_cast<int>(bytes / 4), share = n / size;
    std::vector<float> x(static_cast<size_t>(n)), part(static_cast<size_t>(share));
    print("all_reduce", bytes, time_of(bytes, [&] {
            MPI_Allreduce(MPI_IN_PLACE, x.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
          }));
    print("reduce_scatter", bytes, time_of(bytes, [&] {
            MPI_Reduce_scatter_block(x.data(), part.data(), share, MPI_FLOAT, MPI_SUM,
                                     MPI_COMM_WORLD);
          }));
    print("all_gather", bytes, time_of(bytes, [&] {
            MPI_Allgather(part.data(), share, MPI_FLOAT, x.data(), share, MPI_FLOAT,
                          MPI_COMM_WORLD);
          }));
  }
  MPI_Finalize();
}
