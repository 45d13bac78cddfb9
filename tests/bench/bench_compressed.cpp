// What fewer bytes are worth: training steps of a GPT on two ranks, on a link on which DDP's
// communication alone takes three times as long as the step's computing.
//   bench_compressed [STEPS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <hero/autograd/autograd.h>
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
constexpr double kShare = 3.0;  // of DDP's communication in its computing

enum class Method { adam, bf16, int8, int4, one_bit };
constexpr const char* kNames[] = {"Adam", "Adam, bf16 hook", "Adam, int8 hook", "Adam, int4 hook",
                                  "1-bit Adam, frozen"};

struct Times {
  double step = 0.0;   // median, seconds
  double bytes = 0.0;  // that a rank sends in a step
};

Times train(Communicator& world, Method method, int steps) {
  constexpr int kWarm = 8;
  nn::GPT model(kModel);
  const DDP ddp(model, world, {.bucket_bytes = 2 << 20, .first_bucket_bytes = 1 << 18});
  std::unique_ptr<optim::Optimizer> optimizer;
  if (method == Method::one_bit) {
    optimizer = std::make_unique<OneBitAdam>(
        ddp, model.parameters(),
        OneBitAdamOptions{.lr = 3e-4, .eps = 1e-4, .freeze_step = kWarm - 2});
  } else {
    optimizer = std::make_unique<optim::Adam>(model.parameters(), optim::AdamOptions{.lr = 3e-4});
  }
  if (method == Method::bf16) ddp.register_comm_hook(bf16_compress_hook());
  if (method == Method::int8) ddp.register_comm_hook(CodecHook({.codec = Codec::int8}));
  if (method == Method::int4) ddp.register_comm_hook(CodecHook({.codec = Codec::int4}));
  const Tensor tokens = randint(0, kModel.vocab_size, {kBatch, kModel.block_size});
  const Tensor targets = randint(0, kModel.vocab_size, {kBatch * kModel.block_size});
  std::vector<double> times;
  for (int i = -kWarm; i < steps; ++i) {
    if (i == 0) world.traffic().reset();
    world.barrier();
    const Clock::time_point start = Clock::now();
    cross_entropy(flatten(model(tokens), 0, 1), targets).backward();
    optimizer->step();
    optimizer->zero_grad();
    if (i >= 0) times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], static_cast<double>(world.traffic().bytes()) / steps};
}

Times measure(Method method, int steps, double link) {
  Times seen;
  run_ranks(2,
            [&](Communicator& world) {
              const Times mine = train(world, method, steps);
              if (world.rank() == 0) seen = mine;
            },
            {.link_bytes_per_second = link});
  return seen;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 15;
  const Times alone = measure(Method::adam, steps, 0.0);
  const double rate = alone.bytes / (kShare * alone.step);
  std::printf("2 ranks; DDP without a link %.1f ms per step, %.1f MB; link of %.1f MB/s\n",
              1e3 * alone.step, 1e-6 * alone.bytes, 1e-6 * rate);
  double plain = 0.0;
  for (const Method method :
       {Method::adam, Method::bf16, Method::int8, Method::int4, Method::one_bit}) {
    const Times seen = measure(method, steps, rate);
    if (method == Method::adam) plain = seen.step;
    std::printf("  %-20s %8.1f ms per step, its bytes alone %8.1f ms, %5.2f times as fast\n",
                kNames[static_cast<int>(method)], 1e3 * seen.step, 1e3 * seen.bytes / rate,
                plain / seen.step);
  }
}
