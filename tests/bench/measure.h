#pragma once
// What the benchmarks share: the ceilings of the machine as loops of our own, and measuring a
// program against one of them in turns, so that a ratio does not depend on who else is running.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <hero/core/memory/allocator.h>
#include <hero/core/thread_pool.h>

namespace bench {

inline constexpr int64_t kChunk = 65536;  // elements a thread takes at a time

/// Floats from the library's own allocator: the same pages that the measured operations get.
class Buffer {
 public:
  explicit Buffer(int64_t n, float value = 1.0f)
      : n_(n), data_(static_cast<float*>(hero::core::allocate(n * int64_t{sizeof(float)}))) {
    std::fill_n(data_, n, value);
  }
  ~Buffer() { hero::core::deallocate(data_, n_ * int64_t{sizeof(float)}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* data() const { return data_; }
  int64_t size() const { return n_; }

 private:
  int64_t n_;
  float* data_;
};

/// to[i] = from[i]
inline void copy(const Buffer& from, const Buffer& to) {
  hero::parallel_for(from.size(), kChunk, [&](int64_t begin, int64_t end) {
    const float* x = from.data();
    float* y = to.data();
    for (int64_t i = begin; i < end; ++i) y[i] = x[i];
  });
  benchmark::ClobberMemory();
}

/// to[i] = a[i] + 3 b[i]
inline void triad(const Buffer& a, const Buffer& b, const Buffer& to) {
  hero::parallel_for(a.size(), kChunk, [&](int64_t begin, int64_t end) {
    const float *x = a.data(), *y = b.data();
    float* z = to.data();
    for (int64_t i = begin; i < end; ++i) z[i] = x[i] + 3.0f * y[i];
  });
  benchmark::ClobberMemory();
}

/// Reads every element once and keeps nothing.
inline void read(const Buffer& from) {
  typedef float Vector __attribute__((vector_size(64), aligned(4)));
  hero::parallel_for(from.size(), kChunk, [&](int64_t begin, int64_t end) {
    Vector sums[8] = {};
    int64_t i = begin;
    for (; i + 128 <= end; i += 128) {
      for (int64_t j = 0; j < 8; ++j) {
        sums[j] += *reinterpret_cast<const Vector*>(from.data() + i + 16 * j);
      }
    }
    for (const Vector& sum : sums) benchmark::DoNotOptimize(sum);
  });
}

/// Seconds that one call takes.
template <class Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Paired {
  double work, reference;            // medians, seconds
  double best_work, best_reference;  // shortest, seconds
};

/// Times `work` and `reference` in turns until the benchmark has enough; its own time is that of
/// `work`.
template <class Work, class Reference>
Paired in_turns(benchmark::State& state, const Work& work, const Reference& reference) {
  std::vector<double> worked, referred;
  work();
  reference();
  for (auto _ : state) {
    referred.push_back(seconds(reference));
    worked.push_back(seconds(work));
    state.SetIterationTime(worked.back());
  }
  return {median(worked), median(referred), *std::min_element(worked.begin(), worked.end()),
          *std::min_element(referred.begin(), referred.end())};
}

}  // namespace bench
