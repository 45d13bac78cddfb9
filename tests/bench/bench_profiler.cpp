// What a profiler costs: a GPT's training step with one and without, in turns, and small
// operations while one is open; bench_ops has them without.
#include "bench/measure.h"

#include <hero/autograd/profiler.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using hero::Tensor;

// GPT 4 x 128, block 64, batch 12, AdamW.
struct Training {
  hero::nn::GPT gpt =
      hero::nn::GPT({.vocab_size = 96, .block_size = 64, .n_layer = 4, .n_head = 4, .n_embd = 128});
  hero::optim::AdamW adamw{gpt.parameters(), {.lr = 1e-3}};
  Tensor tokens = hero::randint(0, 96, {12, 64});

  void step() {
    adamw.zero_grad();
    gpt.loss(tokens, tokens).backward();
    adamw.step();
  }
};

// `options` of the profiler that stays open over one step at a time.
void gpt_step(benchmark::State& state, const hero::ProfilerOptions& options) {
  Training training;
  const bench::Paired times = bench::in_turns(
      state,
      [&] {
        const hero::Profiler profiler(options);
        training.step();
      },
      [&] { training.step(); });
  state.counters["ms"] = times.work * 1e3;
  state.counters["ms_without"] = times.reference * 1e3;
  state.counters["percent"] = (times.work / times.reference - 1.0) * 100.0;
  state.counters["percent_best"] = (times.best_work / times.best_reference - 1.0) * 100.0;
}

void gpt_step_profiled(benchmark::State& state) { gpt_step(state, {}); }
void gpt_step_without_work(benchmark::State& state) { gpt_step(state, {.work = false}); }

void small_operation(benchmark::State& state) {
  const Tensor p = hero::tensor({1.5}, {.requires_grad = true}), q = hero::tensor({2.5});
  constexpr int kBatch = 1000;
  const auto batch = [&] {
    for (int i = 0; i < kBatch; ++i) benchmark::DoNotOptimize(p * q);
  };
  const bench::Paired times = bench::in_turns(
      state,
      [&] {
        const hero::Profiler profiler;
        batch();
      },
      batch);
  state.counters["ns/op"] = times.work * 1e9 / kBatch;
  state.counters["ns/op_without"] = times.reference * 1e9 / kBatch;
}

}  // namespace

BENCHMARK(gpt_step_profiled)->UseManualTime()->MinTime(10);
BENCHMARK(gpt_step_without_work)->UseManualTime()->MinTime(10);
BENCHMARK(small_operation)->UseManualTime();

BENCHMARK_MAIN();
