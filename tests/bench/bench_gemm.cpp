// Matrix products of float as a percentage of the peak of fused multiply-adds, which a loop of
// nothing else measures in the same run. "peak%" is the share of the peak of as many cores as the
// row has threads. Products of bfloat16 (gemm_bf16_..), where the processor has them, are beside
// the same peak: twice as many of their multiply-adds fit into an instruction. Eigen's products of
// float (eigen_..), built for this processor, at one thread, where Eigen is installed.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#if __has_include(<Eigen/Core>)
#define HERO_HAS_EIGEN
#include <Eigen/Core>
#endif

#include <hero/core/array.h>
#include <hero/core/cpu/kernels.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/thread_pool.h>

namespace {

using Clock = std::chrono::steady_clock;

#if defined(__AVX512F__)
typedef float Vector __attribute__((vector_size(64)));
#elif defined(__AVX2__)
typedef float Vector __attribute__((vector_size(32)));
#else
typedef float Vector __attribute__((vector_size(16)));
#endif
constexpr int kLanes = sizeof(Vector) / sizeof(float);
constexpr int kChains =
    12;  // independent sums: more than the latency of a multiply-add, less than the registers

void multiply_add(Vector& sum, const Vector& x) {
#if defined(__FMA__)
  asm volatile("vfmadd231ps %1, %1, %0" : "+v"(sum) : "v"(x));
#else
  sum += x * x;
  benchmark::DoNotOptimize(sum);
#endif
}

// Flops a second of `threads` threads: measured again at every call, the best one so far counts, so
// that another program's work does not pass for a lower peak.
double peak_of(int threads) {
  static std::map<int, double> known;
  double& best = known[threads];
  constexpr int64_t kSteps = 1'000'000;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    hero::parallel_for(threads, 1, [](int64_t, int64_t) {
      Vector sums[kChains] = {};
      const Vector x = 0.5f - Vector{};
      for (int64_t s = 0; s < kSteps; ++s) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) multiply_add(sums[c], x);
      }
    });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, 2.0 * kSteps * kChains * kLanes * threads / seconds);
  }
  return best;
}

struct Case {
  const char* name;
  int64_t m, n, k;
  bool a_transposed, b_transposed;
};

constexpr Case kCases[] = {
    {"square_NN", 128, 128, 128, false, false},
    {"square_NN", 256, 256, 256, false, false},
    {"square_NN", 512, 512, 512, false, false},
    {"square_NT", 512, 512, 512, false, true},
    {"square_TN", 512, 512, 512, true, false},
    {"square_NN", 768, 768, 768, false, false},
    {"square_NN", 1024, 1024, 1024, false, false},
    {"square_NT", 1024, 1024, 1024, false, true},
    {"square_TN", 1024, 1024, 1024, true, false},
    {"square_NN", 2048, 2048, 2048, false, false},
    {"layer_NN", 64, 512, 784, false, false},
    {"layer_forward_NT", 64, 512, 784, false, true},
    {"layer_weight_grad_TN", 512, 784, 64, true, false},
    {"layer_input_grad_NN", 64, 784, 512, false, false},
    {"head_NN", 64, 10, 512, false, false},
    {"head_forward_NT", 64, 10, 512, false, true},
    {"head_weight_grad_TN", 10, 512, 64, true, false},
    {"head_input_grad_NN", 64, 512, 10, false, false},
    {"matrix_vector", 1024, 1, 1024, false, false},
    {"vector_matrix", 1, 1024, 1024, false, false},
    {"vector_matrix_NT", 1, 1024, 1024, false, true},
    {"tiny", 1, 1, 1, false, false},
    {"tiny", 16, 7, 5, false, false},
    {"small", 32, 32, 32, false, false},
};

template <class Work>
void measure(benchmark::State& state, double flops, int threads, const Work& work) {
  const double peak = peak_of(threads);
  work();
  const auto start = Clock::now();
  for (auto _ : state) {
    work();
    benchmark::ClobberMemory();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const double rate = flops * static_cast<double>(state.iterations()) / seconds;
  state.counters["gflops"] = rate / 1e9;
  state.counters["peak%"] = 100.0 * rate / peak;
}

void run_product(benchmark::State& state, const Case& c, int threads) {
  const hero::ThreadLimit limit(threads);
  const std::vector<float> a(static_cast<size_t>(c.m * c.k), 1.1f);
  const std::vector<float> b(static_cast<size_t>(c.k * c.n), 0.9f);
  std::vector<float> result(static_cast<size_t>(c.m * c.n));
  const int64_t a_rs = c.a_transposed ? 1 : c.k;
  const int64_t a_cs = c.a_transposed ? c.m : 1;
  const int64_t b_rs = c.b_transposed ? 1 : c.n;
  const int64_t b_cs = c.b_transposed ? c.k : 1;
  const auto gemm = hero::core::cpu::kernels().of_float.gemm;
  measure(state, 2.0 * static_cast<double>(c.m * c.n * c.k), threads, [&] {
    gemm(c.m, c.n, c.k, a.data(), a_rs, a_cs, b.data(), b_rs, b_cs, result.data(), c.n);
  });
}

#ifdef HERO_HAS_EIGEN
void run_eigen_product(benchmark::State& state, const Case& c) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const std::vector<float> a(static_cast<size_t>(c.m * c.k), 1.1f);
  const std::vector<float> b(static_cast<size_t>(c.k * c.n), 0.9f);
  Matrix result(c.m, c.n);
  // With the order known at compile time, which Eigen's fast ways need.
  const auto run = [&](const auto& left, const auto& right) {
    measure(state, 2.0 * static_cast<double>(c.m * c.n * c.k), 1,
            [&] { result.noalias() = left * right; });
  };
  const Eigen::Map<const Matrix> rows_a(a.data(), c.m, c.k), rows_b(b.data(), c.k, c.n);
  const Eigen::Map<const Matrix> columns_a(a.data(), c.k, c.m), columns_b(b.data(), c.n, c.k);
  if (c.a_transposed) {
    run(columns_a.transpose(), rows_b);
  } else if (c.b_transposed) {
    run(rows_a, columns_b.transpose());
  } else {
    run(rows_a, rows_b);
  }
}
#endif

void run_half_product(benchmark::State& state, const Case& c, int threads) {
  const hero::ThreadLimit limit(threads);
  // arrays, which begin at a cache line
  const auto a = hero::core::Array::full({c.m, c.k}, 1.1, hero::kBFloat16);
  const auto b = hero::core::Array::full({c.k, c.n}, 0.9, hero::kBFloat16);
  const auto result = hero::core::Array::empty({c.m, c.n}, hero::kBFloat16);
  const hero::core::cpu::Bf16Matrix left{a.data<hero::BFloat16>(), c.a_transposed ? 1 : c.k,
                                         c.a_transposed ? c.m : 1};
  const hero::core::cpu::Bf16Matrix right{b.data<hero::BFloat16>(), c.b_transposed ? 1 : c.n,
                                          c.b_transposed ? c.k : 1};
  const auto gemm = hero::core::cpu::kernels().gemm_bf16_rounded;
  measure(state, 2.0 * static_cast<double>(c.m * c.n * c.k), threads,
          [&] { gemm(c.m, c.n, c.k, left, right, result.data<hero::BFloat16>(), c.n); });
}

// The products of attention: 48 heads of 64 positions, 32 wide.
void run_attention(benchmark::State& state, int threads) {
  const hero::ThreadLimit limit(threads);
  constexpr int64_t kHeads = 48, kTime = 64, kWide = 32;
  const std::vector<float> q(kHeads * kTime * kWide, 1.1f);
  std::vector<float> scores(kHeads * kTime * kTime);
  const auto gemm_batched = hero::core::cpu::kernels().of_float.gemm_batched;
  measure(state, 2.0 * kHeads * kTime * kTime * kWide, threads, [&] {
    gemm_batched(kHeads, kTime, kTime, kWide, q.data(), kTime * kWide, kWide, 1, q.data(),
                 kTime * kWide, 1, kWide, scores.data(), kTime * kTime, kTime);
  });
}

// What it costs to share an empty region of two chunks.
void run_region(benchmark::State& state, int threads) {
  const hero::ThreadLimit limit(threads);
  for (auto _ : state) {
    hero::parallel_for(2, 1, [](int64_t begin, int64_t) { benchmark::DoNotOptimize(begin); });
  }
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const int threads : {1, 2}) {
    const std::string suffix = "/threads:" + std::to_string(threads);
    for (const Case& c : kCases) {
      const std::string name = std::string(c.name) + "/" + std::to_string(c.m) + "x" +
                               std::to_string(c.n) + "x" + std::to_string(c.k) + suffix;
      benchmark::RegisterBenchmark(("gemm_" + name).c_str(), [&c, threads](benchmark::State& s) {
        run_product(s, c, threads);
      })->UseRealTime();
#ifdef HERO_HAS_EIGEN
      if (threads == 1) {
        benchmark::RegisterBenchmark(("eigen_" + name).c_str(), [&c](benchmark::State& s) {
          run_eigen_product(s, c);
        })->UseRealTime();
      }
#endif
      if (!hero::native_half_products()) continue;
      benchmark::RegisterBenchmark(("gemm_bf16_" + name).c_str(), [&c, threads](auto& s) {
        run_half_product(s, c, threads);
      })->UseRealTime();
    }
    benchmark::RegisterBenchmark(
        ("gemm_batched_attention_NT" + suffix).c_str(),
        [threads](benchmark::State& state) { run_attention(state, threads); })
        ->UseRealTime();
    benchmark::RegisterBenchmark(("parallel_region" + suffix).c_str(),
                                 [threads](benchmark::State& state) { run_region(state, threads); })
        ->UseRealTime();
  }
  return true;
}();

}  // namespace

BENCHMARK_MAIN();
