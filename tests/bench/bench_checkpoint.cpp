// How long a save in the background stops a program, beside a plain copy of as many bytes: AdamW's
// moments and the parameters of so many MiB. HERO_SWAP_FOLDER says where the checkpoints go; the
// temporary folder else.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/measure.h"
#include <benchmark/benchmark.h>

#include <hero/nn/nn.h>
#include <hero/nn/training/training.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

std::string bench_folder() {
  const char* const folder = std::getenv("HERO_SWAP_FOLDER");
  const std::string parent = folder ? folder : std::filesystem::temp_directory_path().string();
  std::string name = parent + "/hero-bench-XXXXXX";
  return ::mkdtemp(name.data()) == nullptr ? "" : name;
}

// Layers of 1024 x 1024: 4 MiB of parameters, 8 of states.
struct ManyLayers : nn::Module {
  explicit ManyLayers(int64_t layers) {
    for (int64_t i = 0; i < layers; ++i) {
      add<nn::Linear>("layer" + std::to_string(i), 1024, 1024, nn::LinearOptions{.bias = false});
    }
  }
};

void stall_of_a_save(benchmark::State& state) {
  const int64_t layers = state.range(0) / 12;
  const std::string folder = bench_folder();
  if (folder.empty()) return state.SkipWithError("no folder to write to");
  {
    ManyLayers model(layers);
    optim::AdamW adamw(model.parameters(), {.lr = 1e-4});
    for (const Tensor& p : model.parameters()) p.set_grad(Tensor(Array::ones(p.shape())));
    adamw.step();
    nn::Checkpointer checkpoint(folder, {.keep = 1});
    checkpoint.track("model", model);
    checkpoint.track("optimizer", adamw);
    const int64_t elements = layers * 3 << 20;
    const bench::Buffer from(elements), to(elements);
    std::vector<double> stalls, writes, copies;
    int64_t step = 0;
    const auto save = [&] { checkpoint.save(++step, {.async = true}); };
    save();
    checkpoint.wait();
    for (auto _ : state) {
      copies.push_back(bench::seconds([&] { bench::copy(from, to); }));
      stalls.push_back(bench::seconds(save));
      state.SetIterationTime(stalls.back());
      writes.push_back(bench::seconds([&] { checkpoint.wait(); }));
    }
    state.counters["ratio"] = bench::median(stalls) / bench::median(copies);
    state.counters["best_ratio"] = *std::min_element(stalls.begin(), stalls.end()) /
                                   *std::min_element(copies.begin(), copies.end());
    state.counters["copy_ms"] = bench::median(copies) * 1e3;
    state.counters["write_ms"] = bench::median(writes) * 1e3;
  }
  std::filesystem::remove_all(folder);
}

BENCHMARK(stall_of_a_save)
    ->Arg(48)
    ->Arg(384)
    ->Iterations(9)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
