// States on disk: SwapFile beside plain loops of pwrite and pread past the page cache, and a step
// of Paged<AdamW> beside the larger of those loops and a step in memory. HERO_SWAP_FOLDER says
// where; the temporary folder else.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <hero/core/swap_file.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

constexpr int64_t kPiece = int64_t{4} << 20;
constexpr int kThreads = 2;

std::string swap_folder() {
  const char* const folder = std::getenv("HERO_SWAP_FOLDER");
  return folder ? folder : std::filesystem::temp_directory_path().string();
}

// Two threads that move every other piece of a file of their own.
class PlainLoop {
 public:
  explicit PlainLoop(int64_t bytes) : bytes_(bytes) {
    std::string name = swap_folder() + "/hero-bench-XXXXXX";
    fd_ = ::mkostemp(name.data(), O_DIRECT);
    ::unlink(name.c_str());
    ok_ = fd_ >= 0 && ::posix_fallocate(fd_, 0, bytes) == 0;
    memory_ = static_cast<char*>(std::aligned_alloc(4096, static_cast<size_t>(bytes)));
    std::fill_n(memory_, bytes, 'x');
  }
  ~PlainLoop() {
    ::close(fd_);
    std::free(memory_);
  }
  PlainLoop(const PlainLoop&) = delete;
  PlainLoop& operator=(const PlainLoop&) = delete;

  void write() {
    each_piece([&](int64_t at) { return ::pwrite(fd_, memory_ + at, kPiece, at); });
  }
  void read() {
    each_piece([&](int64_t at) { return ::pread(fd_, memory_ + at, kPiece, at); });
  }
  bool ok() const { return ok_; }

 private:
  template <class Move>
  void each_piece(const Move& move) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t at = t * kPiece; at < bytes_; at += kThreads * kPiece) {
          if (move(at) != kPiece) ok_ = false;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  int64_t bytes_;
  int fd_ = -1;
  std::atomic<bool> ok_ = true;
  char* memory_ = nullptr;
};

void report(benchmark::State& state, const bench::Paired& times, int64_t bytes) {
  state.counters["ratio"] = times.reference / times.work;
  state.counters["best_ratio"] = times.best_reference / times.best_work;
  state.counters["MB/s"] = static_cast<double>(bytes) / times.work / 1e6;
}

void swap_out_and_in(benchmark::State& state) {
  const int64_t bytes = state.range(0) << 20;
  PlainLoop plain(bytes);
  core::SwapFile file(swap_folder(), {.bytes = bytes, .threads = kThreads});
  const core::Ref<core::Storage> storage = core::Storage::create(bytes, kCpu);
  std::fill_n(storage->data(), bytes, std::byte{1});
  core::Swapped swapped(file, storage);
  const auto ours = [&] {
    swapped.begin_write();
    swapped.wait();
    swapped.begin_read();
    swapped.wait();
  };
  const auto loop = [&] {
    plain.write();
    plain.read();
  };
  report(state, bench::in_turns(state, ours, loop), 2 * bytes);
  if (!plain.ok()) state.SkipWithError("the plain loop failed");
  state.counters["direct"] = file.direct();
}

std::vector<Tensor> bench_leaves(int64_t elements) {
  std::vector<Tensor> leaves;
  for (int64_t left = elements; left > 0; left -= int64_t{1} << 20) {
    leaves.emplace_back(Array::ones({std::min(left, int64_t{1} << 20)}), true);
    leaves.back().set_grad(Tensor(Array::ones(leaves.back().shape())));
  }
  return leaves;
}

// A ratio of 1 is a step that is hidden behind its transfers, or they behind it.
void paged_step(benchmark::State& state) {
  const int64_t elements = state.range(0) << 20;
  const int64_t bytes = 8 * elements;
  PlainLoop plain(bytes);
  core::SwapFile file(swap_folder(), {.bytes = bytes, .threads = kThreads});
  const std::vector<Tensor> here = bench_leaves(elements), there = bench_leaves(elements);
  optim::AdamW in_memory(here, {.lr = 1e-4});
  optim::Paged<optim::AdamW> paged(file, there, {.lr = 1e-4}, {.window_bytes = 64 << 20});
  const auto ours = [&] { paged.step(); };
  const auto loop = [&] {
    plain.read();
    plain.write();
  };
  const bench::Paired disk = bench::in_turns(state, ours, loop);
  in_memory.step();
  std::vector<double> steps;
  for (int i = 0; i < 5; ++i) steps.push_back(bench::seconds([&] { in_memory.step(); }));
  const double compute = bench::median(steps);
  report(state,
         {disk.work, std::max(disk.reference, compute), disk.best_work,
          std::max(disk.best_reference, compute)},
         2 * bytes);
  state.counters["in_memory_ms"] = compute * 1e3;
  if (!plain.ok()) state.SkipWithError("the plain loop failed");
}

BENCHMARK(swap_out_and_in)
    ->Arg(64)
    ->Arg(512)
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(paged_step)
    ->Arg(16)
    ->Arg(64)
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
