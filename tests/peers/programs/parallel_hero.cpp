// Training steps of a GPT on several ranks, for comparison with the same in PyTorch; see
// parallel.py. Prints a line of JSON.
//   parallel_hero step STRATEGY MODEL STEPS [launch's options]
//       STRATEGY: none, ddp, fsdp (by a policy), fsdp_blocks (block by block, then the model),
//       tensor, or a pipeline of eight micro-batches, whose weights are not tied: pipeline (1F1B)
//       or zero_bubble
//   parallel_hero overhead MODEL STEPS    fully_shard on one rank beside the bare model, in turns
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/autograd/autograd.h>
#include <hero/core/random.h>
#include <hero/dist/dist.h>
#include <hero/nn/gpt.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Clock = std::chrono::steady_clock;

struct Size {
  int64_t layers, heads, width, block, batch;
};
const std::map<std::string, Size> kSizes = {{"gpt_128", {4, 4, 128, 64, 12}},
                                            {"gpt_384", {6, 6, 384, 128, 4}}};
constexpr int64_t kVocabulary = 512;
constexpr int kMicroBatches = 8;

const std::map<std::string, Schedule> kSchedules = {{"pipeline", Schedule::one_f_one_b()},
                                                    {"zero_bubble", Schedule::zero_bubble()}};

// Whether the ranks share one batch: along data they have one each.
bool shares_batch(const std::string& strategy) {
  return strategy == "tensor" || kSchedules.contains(strategy);
}

class Training {
 public:
  // The batch is for all ranks together twice the size's, so that one rank of two threads and two
  // ranks of one do the same work.
  Training(const std::string& strategy, const Size& size, int64_t batch, const Communicator& world)
      : model_({.vocab_size = kVocabulary,
                .block_size = size.block,
                .n_layer = size.layers,
                .n_head = size.heads,
                .n_embd = size.width,
                .tie_weights = !kSchedules.contains(strategy)}),
        tokens_(randint(0, kVocabulary, {batch, size.block})),
        targets_(randint(0, kVocabulary, {batch, size.block})) {
    if (strategy == "ddp") DDP(model_, world);
    if (strategy == "fsdp") fully_shard(model_, world, {.unit = each<nn::Block>()});
    if (strategy == "fsdp_blocks") {
      for (nn::Module* module : model_.modules()) {
        if (dynamic_cast<nn::Block*>(module) != nullptr) fully_shard(*module, world);
      }
      fully_shard(model_, world);
    }
    if (strategy == "tensor") tensor_parallel(model_, world);
    if (kSchedules.contains(strategy)) {
      pipe_.emplace(
          model_, world,
          PipelineOptions{.schedule = kSchedules.at(strategy), .micro_batches = kMicroBatches});
    }
    check(strategy == "none" || strategy == "ddp" || strategy == "fsdp" ||
              strategy == "fsdp_blocks" || shares_batch(strategy),
          "no strategy '", strategy, "'");
    optimizer_.emplace(model_.parameters(), optim::AdamWOptions{.lr = 3e-4});
  }

  double step() {
    const Clock::time_point start = Clock::now();
    optimizer_->zero_grad();
    if (pipe_) {
      pipe_->step(tokens_, targets_);
    } else {
      model_.loss(tokens_, targets_).backward();
    }
    optim::clip_grad_norm(model_.parameters(), 1.0);
    optimizer_->step();
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

 private:
  nn::GPT model_;
  Tensor tokens_, targets_;
  std::optional<Pipeline> pipe_;
  std::optional<optim::AdamW> optimizer_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void time_steps(Communicator& world, const std::string& strategy, const Size& size, int steps) {
  const int shares = shares_batch(strategy) ? 1 : world.size();
  Training training(strategy, size, 2 * size.batch / shares, world);
  for (int i = 0; i < 3; ++i) training.step();
  world.barrier();
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) times.push_back(training.step());
  world.out() << "{\"ms\": " << median(times) << "}" << std::endl;
}

void time_overhead(Communicator& world, const Size& size, int steps) {
  Training bare("none", size, size.batch, world), sharded("fsdp", size, size.batch, world);
  std::vector<double> alone, shares;
  for (int i = -3; i < steps; ++i) {
    // in turns, now one first and now the other, so that what else the machine does meets both
    double bare_ms = i % 2 == 0 ? bare.step() : 0.0;
    const double ms = sharded.step();
    if (i % 2 != 0) bare_ms = bare.step();
    if (i < 0) continue;
    alone.push_back(bare_ms);
    shares.push_back(ms / bare_ms - 1.0);
  }
  world.out() << "{\"bare_ms\": " << median(alone) << ", \"share\": " << median(shares) << "}"
              << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  return launch(argc, argv, [&argc, argv](Communicator& world) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 4 && words[0] == "step") {
      time_steps(world, words[1], kSizes.at(words[2]), std::stoi(words[3]));
    } else if (words.size() == 3 && words[0] == "overhead") {
      time_overhead(world, kSizes.at(words[1]), std::stoi(words[2]));
    } else {
      fail("parallel_hero: see the first lines of its source");
    }
  });
}
