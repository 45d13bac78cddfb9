// How much of its communication a rung hides behind its computing: training steps of a GPT on two
// ranks, first on a link as fast as memory, then on one whose rate makes a step's communication as
// long as its backward pass. What the second takes longer was not hidden.
//   bench_overlap [STEPS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <hero/autograd/autograd.h>
#include <hero/autograd/creation.h>
#include <hero/dist/dist.h>
#include <hero/nn/gpt.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Clock = std::chrono::steady_clock;

constexpr nn::GPTConfig kModel = {
    .vocab_size = 256, .block_size = 64, .n_layer = 12, .n_head = 4, .n_embd = 128};
constexpr int64_t kBatch = 8;

using Rung = std::function<void(nn::Module&, const Communicator&)>;

struct Times {
  double step = 0.0, backward = 0.0;  // medians, seconds
  double bytes = 0.0;                 // that a rank sends in a step
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Times train(Communicator& world, const Rung& rung, int steps) {
  constexpr int kWarm = 2;
  nn::GPT model(kModel);
  rung(model, world);
  optim::AdamW adamw(model.parameters(), {.lr = 3e-4});
  const Tensor tokens = randint(0, kModel.vocab_size, {kBatch, kModel.block_size});
  const Tensor targets = randint(0, kModel.vocab_size, {kBatch * kModel.block_size});
  std::vector<double> step_times, backward_times;
  for (int i = -kWarm; i < steps; ++i) {
    if (i == 0) world.traffic().reset();
    const Clock::time_point start = Clock::now();
    adamw.zero_grad();
    const Tensor loss = cross_entropy(flatten(model(tokens), 0, 1), targets);
    const Clock::time_point turn = Clock::now();
    loss.backward();
    const double backward = seconds_since(turn);
    adamw.step();
    if (i < 0) continue;
    step_times.push_back(seconds_since(start));
    backward_times.push_back(backward);
  }
  const double bytes = static_cast<double>(world.traffic().bytes()) / steps;
  return {median(step_times), median(backward_times), bytes};
}

Times measure(const Rung& rung, int steps, double rate) {
  Times times;
  run_ranks(2,
            [&](Communicator& world) {
              const Times mine = train(world, rung, steps);
              if (world.rank() == 0) times = mine;
            },
            {.link_bytes_per_second = rate});
  return times;
}

void report(const char* name, const Rung& rung, int steps) {
  const Times before = measure(rung, steps, 0.0);
  const double rate = before.bytes / before.backward;
  const Times slow = measure(rung, steps, rate);
  const Times after = measure(rung, steps, 0.0);  // what else the machine does meets both
  const double free = 0.5 * (before.step + after.step);
  const double hidden = 1.0 - (slow.step - free) / before.backward;
  std::printf("%-28s %8.2f %9.2f %9.2f %10.2f %8.0f %%\n", name, 1e-6 * rate, 1e3 * before.backward,
              1e3 * free, 1e3 * slow.step, 100.0 * hidden);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 15;
  std::printf("%-28s %8s %9s %9s %10s %10s\n", "rung, times in ms", "MB/s", "backward", "step",
              "on a link", "hidden");
  report(
      "DDP, buckets of 512 KiB",
      [](nn::Module& model, const Communicator& world) {
        DDP(model, world, {.bucket_bytes = 512 << 10, .first_bucket_bytes = 256 << 10});
      },
      steps);
  report(
      "DDP, one bucket",
      [](nn::Module& model, const Communicator& world) {
        DDP(model, world, {.bucket_bytes = 1 << 30, .first_bucket_bytes = 1 << 30});
      },
      steps);
  report(
      "fully_shard",
      [](nn::Module& model, const Communicator& world) {
        fully_shard(model, world, {.unit = each<nn::Block>()});
      },
      steps);
  report(
      "fully_shard, no prefetch",
      [](nn::Module& model, const Communicator& world) {
        fully_shard(model, world, {.unit = each<nn::Block>(), .prefetch = false});
      },
      steps);
}
