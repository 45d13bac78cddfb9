// A rehearsal of GPT-3 175B on simulated ranks: what one rank costs, from the module on meta
// through fully_shard by Block and one step of AdamW, by the number of ranks. No rank of a real run
// does less, so what grows here with their number would cost every one of them.
#include <vector>

#include <benchmark/benchmark.h>

#include <hero/dist/dist.h>
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

BENCHMARK(gpt3_rank)->Arg(64)->Arg(1024)->Arg(4096)->Arg(16384)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
