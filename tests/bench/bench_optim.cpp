// Fused optimizer steps against the bandwidth of this machine: a pass that reads and writes as many
// bytes as AdamW and computes next to nothing, over the same arrays in the same chunks. For a ratio
// take both from one run with --benchmark_repetitions=20
// --benchmark_enable_random_interleaving=true and compare the least times.
#include <benchmark/benchmark.h>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/core/functions/update_step.h>
#include <hero/core/thread_pool.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

// 16 Mi parameters: four arrays of 64 MiB, far beyond the caches.
constexpr int64_t kCount = int64_t{1} << 24;

Tensor param_with_grad(int64_t n) {
  const Tensor x(Array::full({n}, 0.5), true);
  x.set_grad(Tensor(Array::full({n}, 0.25)));
  return x;
}

void finish(benchmark::State& state, int64_t n, int64_t bytes_per_parameter) {
  state.SetItemsProcessed(state.iterations() * n);
  state.SetBytesProcessed(state.iterations() * n * bytes_per_parameter);
}

// p, m, v read and written, g read: AdamW's 28 bytes, with one multiply-add an array.
void in_place_pass(benchmark::State& state) {
  const ThreadLimit limit(static_cast<int>(state.range(0)));
  const int64_t n = state.range(1);
  const Array arrays[] = {Array::full({n}, 0.5), Array::full({n}, 0.25), Array::full({n}, 0.0),
                          Array::full({n}, 0.0)};
  auto* p = arrays[0].data<float>();
  const auto* g = arrays[1].data<float>();
  auto* m = arrays[2].data<float>();
  auto* v = arrays[3].data<float>();
  for (auto _ : state) {
    parallel_for(n, 32768, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) {
        m[i] = m[i] + 0.5f * g[i];
        v[i] = v[i] + 0.25f * g[i];
        p[i] = p[i] + 0.125f * g[i];
      }
    });
    benchmark::ClobberMemory();
  }
  finish(state, n, 28);
}

// kBytes: what a step must move for each parameter.
template <class O, int64_t kBytes>
void step(benchmark::State& state) {
  const ThreadLimit limit(static_cast<int>(state.range(0)));
  const int64_t n = state.range(1);
  O optimizer({param_with_grad(n)}, {.lr = 1e-3});
  optimizer.step();  // states are made here
  for (auto _ : state) optimizer.step();
  finish(state, n, kBytes);
}

// The norm alone: nothing is above the limit.
void clip(benchmark::State& state) {
  const ThreadLimit limit(static_cast<int>(state.range(0)));
  const int64_t n = state.range(1);
  const Tensor x(Array::full({n}, 0.5), true);
  Array g = Array::empty({n});
  for (int64_t i = 0; i < n; ++i) {
    g.data<float>()[i] = static_cast<float>((i * 2654435761) % 1000003 - 500000) * 1e-7f;
  }
  x.set_grad(Tensor(g));
  for (auto _ : state) benchmark::DoNotOptimize(optim::clip_grad_norm({x}, 1e9));
  finish(state, n, 4);
}

}  // namespace

BENCHMARK(in_place_pass)->ArgsProduct({{1, 2}, {kCount, 16384}})->UseRealTime();
BENCHMARK(step<optim::AdamW, 28>)->ArgsProduct({{1, 2}, {kCount, 16384}})->UseRealTime();
BENCHMARK(step<optim::SGD, 12>)->ArgsProduct({{1, 2}, {kCount}})->UseRealTime();
BENCHMARK(step<optim::Adagrad, 20>)->ArgsProduct({{1, 2}, {kCount}})->UseRealTime();
BENCHMARK(step<optim::RMSprop, 20>)->ArgsProduct({{1, 2}, {kCount}})->UseRealTime();
BENCHMARK(step<optim::Lion, 20>)->ArgsProduct({{1, 2}, {kCount}})->UseRealTime();
BENCHMARK(step<optim::LAMB, 32>)->ArgsProduct({{1, 2}, {kCount}})->UseRealTime();
BENCHMARK(clip)->ArgsProduct({{1, 2}, {kCount, 16384}})->UseRealTime();
BENCHMARK_MAIN();
