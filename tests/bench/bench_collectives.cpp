// Collectives of the local backend beside the copies of memory that they cannot do without.
//   bench_collectives            all sizes, 2 and 4 ranks
// Counters: GB/s of the array (algorithm bandwidth), over all repetitions of rank 0.
#include <chrono>
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include <hero/dist/backends/ordered_reduce.h>
#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Clock = std::chrono::steady_clock;

// Seconds that one of `times` calls takes on rank 0 when all ranks make them.
template <class Body>
double seconds_of(int ranks, int times, const Body& prepare) {
  double seconds = 0;
  run_ranks(ranks, [&](Communicator& world) {
    const auto call = prepare(world);
    call();
    world.barrier();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < times; ++i) call();
    const std::chrono::duration<double> took = Clock::now() - start;
    if (world.rank() == 0) seconds = took.count() / times;
  });
  return seconds;
}

template <class Body>
void measure(benchmark::State& state, const Body& prepare) {
  const int ranks = static_cast<int>(state.range(0));
  const int64_t bytes = state.range(1);
  const int times = static_cast<int>(std::max<int64_t>(5, (int64_t{64} << 20) / (bytes + 65536)));
  for (auto _ : state) state.SetIterationTime(seconds_of(ranks, times, prepare));
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void all_reduce(benchmark::State& state) {
  measure(state, [n = state.range(1) / 4](Communicator& world) {
    return [&world, x = Array::ones({n})] { world.all_reduce(x, {.op = ReduceOp::mean}); };
  });
}

void reduce_scatter(benchmark::State& state) {
  measure(state, [n = state.range(1) / 4](Communicator& world) {
    return [&world, x = Array::ones({n}), part = Array::ones({n / world.size()})] {
      world.reduce_scatter(part, x);
    };
  });
}

void all_gather(benchmark::State& state) {
  measure(state, [n = state.range(1) / 4](Communicator& world) {
    return [&world, x = Array::ones({n}), part = Array::ones({n / world.size()})] {
      world.all_gather(x, part);
    };
  });
}

// The limit: the reads and writes of each operation, by the same number of threads, without any
// agreement but two barriers: a part is read from all and written, then the others' are copied.
void bare_all_reduce(benchmark::State& state) {
  std::vector<float*> arrays(8);
  measure(state, [&arrays, n = state.range(1) / 4](Communicator& world) {
    return [&arrays, &world, n, x = Array::ones({n})] {
      const int64_t ranks = world.size(), me = world.rank(), share = n / ranks;
      arrays[static_cast<size_t>(me)] = x.data<float>();
      world.barrier();
      float* const own = x.data<float>() + me * share;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        if (rank == me) continue;
        const float* const other = arrays[static_cast<size_t>(rank)] + me * share;
        for (int64_t i = 0; i < share; ++i) own[i] += other[i];
      }
      world.barrier();
      for (int64_t rank = 0; rank < ranks; ++rank) {
        if (rank == me) continue;
        std::memcpy(x.data<float>() + rank * share,
                    arrays[static_cast<size_t>(rank)] + rank * share,
                    static_cast<size_t>(share) * 4);
      }
      world.barrier();
    };
  });
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int ranks : {2, 4}) {
    for (const int64_t bytes : {int64_t{1} << 10, int64_t{1} << 16, int64_t{1} << 20,
                                int64_t{1} << 24, int64_t{1} << 26}) {
      bench->Args({ranks, bytes});
    }
  }
  bench->UseManualTime()->Iterations(5);
}

// The sum alone: so many arrays of 64 Ki floats, one after the other or in a tree.
void sum_of_arrays(benchmark::State& state) {
  constexpr int64_t kCount = int64_t{1} << 16;
  const auto arrays = static_cast<size_t>(state.range(0));
  std::vector<Array> inputs;
  std::vector<const std::byte*> places;
  for (size_t i = 0; i < arrays; ++i) {
    inputs.push_back(Array::ones({kCount}));
    places.push_back(inputs.back().bytes());
  }
  const Array output = Array::zeros({kCount});
  const core::Fold fold = {.op = core::Combine::mean, .tree = state.range(1) != 0};
  for (auto _ : state) ordered_reduce(fold, places, output.bytes(), kCount);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(arrays + 1) * kCount * 4);
}

BENCHMARK(sum_of_arrays)
    ->ArgNames({"arrays", "tree"})
    ->ArgsProduct({{2, 3, 4, 5, 8, 16, 32, 64}, {0, 1}});
BENCHMARK(all_reduce)->Apply(sizes);
BENCHMARK(bare_all_reduce)->Apply(sizes);
BENCHMARK(reduce_scatter)->Apply(sizes);
BENCHMARK(all_gather)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
