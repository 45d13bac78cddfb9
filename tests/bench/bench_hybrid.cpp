// What hybrids cost on a slow network: steps of eight layers of 256 x 256 on eight ranks, each with
// a link of 50 MB/s, sharded over all of them and in H replicas of 8 / H shards.
//   bench_hybrid [STEPS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 8, kLayers = 8;
constexpr int64_t kWidth = 256;
constexpr double kRate = 50e6;

struct Stack : nn::Module {
  Stack() {
    for (int i = 0; i < kLayers; ++i) {
      layers.push_back(&add<nn::Linear>(std::to_string(i), kWidth, kWidth));
    }
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (nn::Linear* layer : layers) h = tanh((*layer)(h));
    return h;
  }
  std::vector<nn::Linear*> layers;
};

struct Times {
  double step = 0.0;     // median, ms
  double between = 0.0;  // MB that a rank sends to its replicas in a step
};

Times measure(int replicas, int steps) {
  Times times;
  const auto program = [&](dist::Communicator& world) {
    Stack model;
    const dist::FSDPOptions options = {.unit = dist::each<nn::Linear>()};
    if (replicas == 1) {
      dist::fully_shard(model, world, options);
    } else {
      const dist::Mesh mesh(world, {{"replicate", replicas}, {"shard", kRanks / replicas}});
      dist::fully_shard(model, mesh, options);
    }
    optim::SGD sgd(model.parameters(), {.lr = 0.01});
    const Tensor x = ones({4, kWidth});
    std::vector<double> seconds;
    for (int i = -2; i < steps; ++i) {
      if (i == 0) world.traffic().reset();
      const Clock::time_point start = Clock::now();
      sum(model(x)).backward();
      sgd.step();
      sgd.zero_grad();
      world.barrier();
      if (i >= 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    if (world.rank() != 0) return;
    std::sort(seconds.begin(), seconds.end());
    times.step = 1e3 * seconds[seconds.size() / 2];
    times.between = 1e-6 * static_cast<double>(world.traffic().bytes_of_axis("replicate")) / steps;
  };
  dist::run_ranks(kRanks, program, {.link_bytes_per_second = kRate});
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 9;
  std::printf("replicas x shards ms per step   of flat   MB between replicas\n");
  double flat = 0.0;
  for (const int replicas : {1, 2, 4, 8}) {
    const Times times = measure(replicas, steps);
    if (replicas == 1) flat = times.step;
    std::printf("%8d x %-6d %12.1f %9.2f %21.2f\n", replicas, kRanks / replicas, times.step,
                times.step / flat, times.between);
    std::fflush(stdout);
  }
}
