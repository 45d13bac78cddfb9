// A simulation of GPT-3 175B on simulated ranks: what one rank costs, from the module on meta
// through fully_shard by Block and one step of AdamW, by the number of ranks. No rank of a real run
// does less, so what grows here with their number would cost every one of them. And a whole step.
#include <vector>

#include <benchmark/benchmark.h>

#include <hero/dist/dist.h>
#include <hero/dist/simulation.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

void gpt3_rank(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const nn::GPTConfig config = {
      .vocab_size = 50304, .block_size = 2048, .n_layer = 96, .n_head = 96, .n_embd = 12288};
  const auto program = [&](dist::Communicator& world) {
    const nn::DeviceScope meta(kMeta);
    nn::GPT model(config);
    dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
    optim::AdamW adamw(model.parameters());
    const Tensor tokens(Array::empty({1, config.block_size}, kInt64, kMeta));
    model.loss(tokens, tokens).backward();
    adamw.step();
  };
  for (auto _ : state) dist::simulate_ranks(ranks, program, {0, 1, ranks / 2, ranks - 1});
  state.counters["a rank"] = benchmark::Counter(
      4, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// All 1024 ranks of a pipeline of 16 stages with 8 slices and 8 shards each, and their step played
// on the default cluster.
void gpt3_step(benchmark::State& state) {
  const auto program = [](dist::Communicator& world) {
    const nn::DeviceScope meta(kMeta);
    nn::GPT model({.vocab_size = 50304,
                   .block_size = 2048,
                   .n_layer = 96,
                   .n_head = 96,
                   .n_embd = 12288,
                   .tie_weights = false});
    const dist::Mesh mesh(world, {{"pipe", 16}, {"data", 8}, {"tensor", 8}});
    dist::tensor_parallel(model, mesh["tensor"]);
    dist::Pipeline pipe(model, mesh["pipe"], {.micro_batches = 32});
    dist::fully_shard(model, mesh["data"], {.unit = dist::each<nn::Block>()});
    optim::AdamW adamw(pipe.parameters());
    const Tensor tokens(Array::empty({32, 2048}, kInt64, kMeta));
    pipe.step(tokens, tokens);
    adamw.step();
  };
  std::vector<int> ranks;  // of each stage the first ones, or all
  for (int64_t stage = 0; stage < 16; ++stage) {
    for (int64_t rank = 0; rank < state.range(0); ++rank) {
      ranks.push_back(static_cast<int>(64 * stage + rank));
    }
  }
  dist::Simulation step;
  for (auto _ : state) step = dist::simulate(1024, program, {}, {.ranks = ranks});
  state.counters["seconds a step"] = step.seconds;
  state.counters["MFU"] = step.mfu;
  state.counters["GB"] = static_cast<double>(step.peak_bytes) * 1e-9;
}

BENCHMARK(gpt3_step)->Arg(1)->Arg(64)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(gpt3_rank)->Arg(64)->Arg(1024)->Arg(4096)->Arg(16384)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
