// What a profiler costs: a GPT's training step with one and without, in turns; small operations
// while one is open; and what there is of it in a small operation while none is, beside the same
// operation without that, and beside itself, which says what such a comparison can see.
#include "bench/measure.h"

#include <hero/autograd/graph/op.h>
#include <hero/autograd/profile/profiler.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
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

// The product of two numbers with its node.
struct Product : hero::Op {
  static constexpr hero::AutocastRule kAutocast = hero::AutocastRule::fallthrough;
  const char* name() const override { return "product"; }
  static constexpr unsigned kSaveInputs = 0b11;
  static hero::Array forward(const hero::Array& a, const hero::Array& b) {
    return hero::core::map<hero::core::kernels::Mul>(a, b);
  }
  hero::Grads backward(const Tensor& g) override { return {g * input(1), g * input(0)}; }
};

// record() but for the one comparison that profilers, autocast and searches for NaN share.
template <class O, class... In>
Tensor record_unwatched(O op, const In&... inputs) {
  const Tensor* list[] = {&inputs...};
  return hero::detail::run_one(op, list, hero::detail::forward_each(list));
}

constexpr int kOffBatch = 1000;

template <class Work, class Reference>
void compare_off(benchmark::State& state, const Work& work, const Reference& reference) {
  const auto batch_of = [](const auto& one) {
    return [&one] {
      for (int i = 0; i < kOffBatch; ++i) benchmark::DoNotOptimize(one());
    };
  };
  const bench::Paired times = bench::in_turns(state, batch_of(work), batch_of(reference));
  state.counters["ns/op"] = times.work * 1e9 / kOffBatch;
  state.counters["ns/op_bare"] = times.reference * 1e9 / kOffBatch;
  state.counters["percent"] = (times.work / times.reference - 1.0) * 100.0;
  state.counters["percent_best"] = (times.best_work / times.best_reference - 1.0) * 100.0;
}

// No profiler is open. Each pair is of one operation with the comparison and one without.
void small_operation_off(benchmark::State& state) {
  const Tensor p = hero::tensor({1.5}, {.requires_grad = true}), q = hero::tensor({2.5});
  compare_off(
      state, [&] { return hero::record(Product{}, p, q); },
      [&] { return record_unwatched(Product{}, p, q); });
}

// The same operation on both sides.
void small_operation_beside_itself(benchmark::State& state) {
  const Tensor p = hero::tensor({1.5}, {.requires_grad = true}), q = hero::tensor({2.5});
  compare_off(
      state, [&] { return record_unwatched(Product{}, p, q); },
      [&] { return record_unwatched(Product{}, p, q); });
}

// The other comparison, where a kernel's backend is asked for: whether somebody counts work.
void backend_off(benchmark::State& state) {
  compare_off(
      state, [] { return &hero::core::backend(hero::kCpu); },
      [] { return &hero::core::cpu_backend(); });
}

}  // namespace

BENCHMARK(gpt_step_profiled)->UseManualTime()->MinTime(10);
BENCHMARK(gpt_step_without_work)->UseManualTime()->MinTime(10);
BENCHMARK(small_operation)->UseManualTime();
BENCHMARK(small_operation_off)->UseManualTime()->MinTime(3);
BENCHMARK(small_operation_beside_itself)->UseManualTime()->MinTime(3);
BENCHMARK(backend_off)->UseManualTime();

BENCHMARK_MAIN();
