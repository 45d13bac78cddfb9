// Products of a few rows and a weight [n, k], as a linear layer has it while it decodes: how fast
// they read the weight, beside a loop that only reads as many bytes, in turns.
//   bench_few_rows [ROUNDS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "measure.h"

#include <hero/core/cpu/kernels.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/io/gguf_blocks.h>
#include <hero/core/thread_pool.h>

namespace {

using hero::Array;
using hero::BFloat16;
using hero::core::cpu::Bf16Matrix;

struct Weight {
  int64_t n, k;
};
constexpr Weight kWeights[] = {{50304, 768}, {4096, 4096}, {2304, 768}, {768, 3072}, {1024, 1024}};
constexpr int64_t kRows[] = {1, 2, 4, 8};

// Reads every element once and keeps nothing. Its vectors are those of the level that this file is
// compiled for, so that none is split.
void read_all(const bench::Buffer& from) {
  typedef float Vector __attribute__((vector_size(32), aligned(4)));
  hero::parallel_for(from.size(), bench::kChunk, [&](int64_t begin, int64_t end) {
    Vector sums[8] = {};
    for (int64_t i = begin; i + 64 <= end; i += 64) {
#pragma GCC unroll 8
      for (int64_t j = 0; j < 8; ++j) {
        sums[j] += *reinterpret_cast<const Vector*>(from.data() + i + 8 * j);
      }
    }
    for (const Vector& sum : sums) benchmark::DoNotOptimize(sum);
  });
}

// The least time of `work` and of reading `weight`, which has the work's bytes; small ones are
// gone over several times.
template <class Work>
void report(const char* dtype, int64_t rows, const Weight& w, const bench::Buffer& weight,
            int rounds, const Work& work) {
  const double bytes = 4.0 * static_cast<double>(weight.size());
  const int times = std::max(1, static_cast<int>(2e7 / bytes));
  double worked = 1e30, read = 1e30;
  for (int round = 0; round < rounds; ++round) {
    read = std::min(read, bench::seconds([&] {
                      for (int i = 0; i < times; ++i) read_all(weight);
                    }));
    worked = std::min(worked, bench::seconds([&] {
                        for (int i = 0; i < times; ++i) work();
                      }));
  }
  std::printf("%-8s %d threads, %lld x [%5lld, %4lld]: %6.1f of %6.1f GB/s, %.2f\n", dtype,
              hero::num_threads(), static_cast<long long>(rows), static_cast<long long>(w.n),
              static_cast<long long>(w.k), 1e-9 * bytes * times / worked,
              1e-9 * bytes * times / read, read / worked);
  std::fflush(stdout);
}

void run_float(int64_t rows, const Weight& w, int rounds) {
  const bench::Buffer weight(w.n * w.k, 0.9f), x(rows * w.k, 1.1f), y(rows * w.n);
  report("float32", rows, w, weight, rounds, [&] {
    hero::core::cpu::kernels().of_float.gemm(rows, w.n, w.k, x.data(), w.k, 1, weight.data(), 1,
                                             w.k, y.data(), w.n);
  });
}

void run_half(int64_t rows, const Weight& w, int rounds) {
  const bench::Buffer weight(w.n * w.k / 2, 0.9f);  // two halves each
  const std::vector<BFloat16> x(static_cast<size_t>(rows * w.k), BFloat16(1.1f));
  std::vector<BFloat16> y(static_cast<size_t>(rows * w.n));
  const Bf16Matrix left{x.data(), w.k, 1};
  const Bf16Matrix right{reinterpret_cast<const BFloat16*>(weight.data()), 1, w.k};
  report("bfloat16", rows, w, weight, rounds, [&] {
    hero::core::cpu::kernels().gemm_bf16_rounded(rows, w.n, w.k, left, right, y.data(), w.n);
  });
}

// Zeros in blocks of a type; how fast they are multiplied does not depend on them.
void run_blocks(const char* name, int64_t rows, const Weight& w, int rounds) {
  const hero::core::gguf::BlockType& type = *hero::core::gguf::block_type(name);
  const bench::Buffer weight(w.n * (w.k / type.elements) * type.bytes / 4, 0.0f);
  const int64_t row_bytes = w.k / type.elements * type.bytes;
  const Array blocks(hero::core::Storage::borrow(weight.data(), w.n * row_bytes, hero::kCpu, {}),
                     {w.n, row_bytes}, {row_bytes, 1}, 0, hero::kUInt8);
  const Array x = Array::full({rows, w.k}, 1.1), y = Array::empty({rows, w.n});
  hero::core::Backend& cpu = hero::core::cpu_backend();
  report(name, rows, w, weight, rounds, [&] {
    cpu.run(hero::core::call::QuantizedProduct{type, x, blocks, y});
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  for (const int threads : {1, 2}) {
    const hero::ThreadLimit limit(threads);
    for (const Weight& w : kWeights) {
      for (const int64_t rows : kRows) run_float(rows, w, rounds);
      for (const char* type : {"Q8_0", "Q4_1", "Q4_K", "Q6_K"}) {
        for (const int64_t rows : kRows) run_blocks(type, rows, w, rounds);
      }
      if (!hero::native_half_products()) continue;
      for (const int64_t rows : kRows) run_half(rows, w, rounds);
    }
  }
}
