// Elementwise operations over ten million floats against a copy of as many, measured in turns.
// "copies" is the ratio of the medians and "copies_best" of the shortest times: 1 is a copy.
#include <string>

#include "bench/measure.h"

#include <hero/autograd/autograd.h>

namespace {

using hero::Tensor;

constexpr int64_t kCount = 10'000'000;

struct Case {
  const char* name;
  Tensor (*run)(const Tensor&);
};

const Case kCases[] = {
    {"exp", [](const Tensor& x) { return exp(x); }},
    {"tanh", [](const Tensor& x) { return tanh(x); }},
    {"gelu_erf", [](const Tensor& x) { return gelu(x); }},
    {"gelu_tanh", [](const Tensor& x) { return gelu(x, hero::Gelu::tanh); }},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
    {"silu", [](const Tensor& x) { return silu(x); }},
    {"erf", [](const Tensor& x) { return erf(x); }},
    {"log", [](const Tensor& x) { return log(x); }},
    {"sin", [](const Tensor& x) { return sin(x); }},
    {"relu", [](const Tensor& x) { return relu(x); }},
    {"mul_scalar", [](const Tensor& x) { return x * 3.0; }},
    {"square", [](const Tensor& x) { return square(x); }},
    {"clone", [](const Tensor& x) { return x.clone(); }},
};

// Values from -4 to 4, in an order that no branch predictor could use.
Tensor input() {
  std::vector<float> values(kCount);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-21f - 4.0f;
  }
  return Tensor(hero::Array::from(values, {kCount}));
}

void run_case(benchmark::State& state, const Case& c, int threads) {
  const hero::ThreadLimit limit(threads);
  const hero::NoGrad no_grad;
  const Tensor x = input();
  const bench::Buffer from(kCount), to(kCount);
  const auto times = bench::in_turns(
      state, [&] { benchmark::DoNotOptimize(c.run(x)); }, [&] { bench::copy(from, to); });
  state.counters["copies"] = times.work / times.reference;
  state.counters["copies_best"] = times.best_work / times.best_reference;
  state.counters["copy_GB/s"] = 8e-9 * kCount / times.best_reference;
  state.counters["ns/element"] = 1e9 * times.best_work / kCount;
}

// a + b against a triad: two arrays are read.
void run_add(benchmark::State& state, int threads) {
  const hero::ThreadLimit limit(threads);
  const hero::NoGrad no_grad;
  const Tensor x = input(), y = input();
  const bench::Buffer a(kCount), b(kCount), to(kCount);
  const auto times = bench::in_turns(
      state, [&] { benchmark::DoNotOptimize(x + y); }, [&] { bench::triad(a, b, to); });
  state.counters["triads"] = times.work / times.reference;
  state.counters["triads_best"] = times.best_work / times.best_reference;
  state.counters["triad_GB/s"] = 12e-9 * kCount / times.best_reference;
}

[[maybe_unused]] const bool registered = [] {
  for (const int threads : {1, 2}) {
    const std::string suffix = "/10M/threads:" + std::to_string(threads);
    for (const Case& c : kCases) {
      benchmark::RegisterBenchmark(
          (c.name + suffix).c_str(),
          [&c, threads](benchmark::State& state) { run_case(state, c, threads); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
    benchmark::RegisterBenchmark(("add" + suffix).c_str(),
                                 [threads](benchmark::State& state) { run_add(state, threads); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace

BENCHMARK_MAIN();
