// Sums and softmax against reading the same bytes (sums) or copying them (softmax, which reads and
// writes), measured in turns. "of_read%" and "of_copy%" are shares of that bandwidth.
#include <string>

#include "bench/measure.h"

#include <hero/autograd/autograd.h>

namespace {

using hero::Tensor;

constexpr int64_t kRows = 10'000;
constexpr int64_t kColumns = 1'000;
constexpr int64_t kCount = kRows * kColumns;

struct Case {
  const char* name;
  Tensor (*run)(const Tensor&);
};

const Case kSums[] = {
    {"sum_all", [](const Tensor& x) { return sum(x); }},
    {"sum_rows", [](const Tensor& x) { return sum(x, {1}); }},
    {"sum_columns", [](const Tensor& x) { return sum(x, {0}); }},
    {"mean_all", [](const Tensor& x) { return mean(x); }},
    {"max_rows", [](const Tensor& x) { return amax(x, {1}); }},
};

const Case kSoftmax[] = {
    {"softmax_rows", [](const Tensor& x) { return softmax(x, 1); }},
    {"log_softmax_rows", [](const Tensor& x) { return log_softmax(x, 1); }},
    {"softmax_columns", [](const Tensor& x) { return softmax(x, 0); }},
};

Tensor input() {
  std::vector<float> values(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    values[static_cast<size_t>(i)] = static_cast<float>(i % 1013) * 0.01f - 5.0f;
  }
  return Tensor(hero::Array::from(values, {kRows, kColumns}));
}

void run_sum(benchmark::State& state, const Case& c, int threads) {
  const hero::ThreadLimit limit(threads);
  const hero::NoGrad no_grad;
  const Tensor x = input();
  const bench::Buffer from(kCount);
  const auto times = bench::in_turns(
      state, [&] { benchmark::DoNotOptimize(c.run(x)); }, [&] { bench::read(from); });
  state.counters["of_read%"] = 100.0 * times.reference / times.work;
  state.counters["of_read%_best"] = 100.0 * times.best_reference / times.best_work;
  state.counters["read_GB/s"] = 4e-9 * kCount / times.best_reference;
}

void run_softmax(benchmark::State& state, const Case& c, int threads) {
  const hero::ThreadLimit limit(threads);
  const hero::NoGrad no_grad;
  const Tensor x = input();
  const bench::Buffer from(kCount), to(kCount);
  const auto times = bench::in_turns(
      state, [&] { benchmark::DoNotOptimize(c.run(x)); }, [&] { bench::copy(from, to); });
  state.counters["of_copy%"] = 100.0 * times.reference / times.work;
  state.counters["of_copy%_best"] = 100.0 * times.best_reference / times.best_work;
  state.counters["copy_GB/s"] = 8e-9 * kCount / times.best_reference;
}

[[maybe_unused]] const bool registered = [] {
  for (const int threads : {1, 2}) {
    const std::string suffix = "/10000x1000/threads:" + std::to_string(threads);
    const auto add = [&](const Case& c, auto run) {
      benchmark::RegisterBenchmark(
          (c.name + suffix).c_str(),
          [&c, run, threads](benchmark::State& state) { run(state, c, threads); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    };
    for (const Case& c : kSums) add(c, run_sum);
    for (const Case& c : kSoftmax) add(c, run_softmax);
  }
  return true;
}();

}  // namespace

BENCHMARK_MAIN();
