// Byte-pair encoding on one core: the King James text, 4.4 MB. Items are tokens.
#include <string>

#include <benchmark/benchmark.h>

#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bpe_split.h>
#include <hero/nn/data/king_james.h>

namespace {

using hero::nn::data::BPETokenizer;

const std::string& text() {
  static const std::string all = hero::nn::data::king_james();
  return all;
}

void train(benchmark::State& state) {
  text();
  for (auto _ : state) {
    benchmark::DoNotOptimize(BPETokenizer::train(text(), {.vocab_size = state.range(0)}));
  }
}
BENCHMARK(train)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);

void encode(benchmark::State& state) {
  const BPETokenizer tokenizer = BPETokenizer::train(text(), {.vocab_size = state.range(0)});
  size_t tokens = 0;
  for (auto _ : state) tokens += tokenizer.encode(text()).size();
  state.SetItemsProcessed(static_cast<int64_t>(tokens));
}
BENCHMARK(encode)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);

// A line at a time: nothing to remember from the rest of the text.
void encode_lines(benchmark::State& state) {
  const BPETokenizer tokenizer = BPETokenizer::train(text(), {.vocab_size = 4096});
  size_t tokens = 0;
  for (auto _ : state) {
    for (size_t at = 0; at < text().size();) {
      const size_t end = text().find('\n', at) + 1;
      tokens += tokenizer.encode(std::string_view(text()).substr(at, end - at)).size();
      at = end;
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(tokens));
}
BENCHMARK(encode_lines)->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const BPETokenizer tokenizer = BPETokenizer::train(text(), {.vocab_size = 4096});
  const std::vector<int64_t> tokens = tokenizer.encode(text());
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.decode(tokens));
  state.SetItemsProcessed(static_cast<int64_t>(tokens.size()) *
                          static_cast<int64_t>(state.iterations()));
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
