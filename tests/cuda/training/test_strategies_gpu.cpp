// The strategies of distributed training with all ranks on one GPU.
#include <map>
#include <mutex>
#include <string>

#include "cuda/nccl/nccl_ranks.h"
#include "dist/data_parallel/strategies.h"

using namespace hero;
using namespace hero::test;
using namespace hero_test;

namespace {

constexpr ShardingStrategy kStrategies[] = {ShardingStrategy::ddp,   ShardingStrategy::zero1,
                                            ShardingStrategy::zero2, ShardingStrategy::zero3,
                                            ShardingStrategy::fsdp,  ShardingStrategy::fsdp_kept,
                                            ShardingStrategy::hybrid};

// Two steps on a GPU.
Climb two_steps(Subject subject, Method method, int ranks, double clip = 0.0,
                DType dtype = kFloat32) {
  Climb c{ShardingStrategy::single, subject, method, ranks, 2, clip, kGpu};
  c.dtype = dtype;
  return c;
}

void check_strategies(const Climb& single, const dist::RunOptions& options = {}) {
  Whole alone;
  train(single, alone, nullptr);
  REQUIRE(alone.size() >= 4);
  for (const ShardingStrategy strategy : kStrategies) {
    if (strategy == ShardingStrategy::hybrid && single.ranks % 2 != 0) continue;
    CAPTURE(name(strategy), single.ranks);
    Climb c = single;
    c.strategy = strategy;
    Whole got;
    dist::run_ranks(
        c.ranks, [&](dist::Communicator& world) { train(c, got, &world); }, options);
    CHECK(alone.difference(got) == "");
    CHECK(got.sha256() == alone.sha256());
  }
}

// The most bytes of each kind that a rank held.
std::map<std::string, int64_t> peaks(ShardingStrategy strategy, int ranks, Device device) {
  std::map<std::string, int64_t> result;
  std::mutex mutex;
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    Whole whole;
    const Climb c{strategy, Subject::mlp, Method::adamw, ranks, 2, 0.0, device};
    auto model = make_subject(c.subject);
    model->to(device);
    current_ledger().reset_peak();
    climb(c.strategy, c.subject, *model, world);
    auto optimizer = make_method(c.method, model->parameters());
    train(c.subject, *model, *optimizer, world, c.steps, 0.0);
    const std::lock_guard<std::mutex> lock(mutex);
    for (const MemoryTag tag : {MemoryTag::parameter, MemoryTag::gradient, MemoryTag::optimizer,
                                MemoryTag::communication}) {
      result[std::to_string(world.rank()) + " " + name(tag)] =
          current_ledger().peak(tag, device.type);
    }
  });
  return result;
}

}  // namespace

TEST_CASE("on one GPU every strategy ends with the bits of one process there: MLP, AdamW") {
  HERO_NEEDS_GPU();
  for (const int ranks : {2, 3, 4}) check_strategies(two_steps(Subject::mlp, Method::adamw, ranks));
}

TEST_CASE("on one GPU every strategy ends with the bits of one process there: GPT, AdamW") {
  HERO_NEEDS_GPU();
  for (const int ranks : {2, 3, 4}) check_strategies(two_steps(Subject::gpt, Method::adamw, ranks));
}

// In the products' epilogues gelu is taken of sums that are not yet rounded: a strategy that
// computed it apart would show.
TEST_CASE(
    "on one GPU every strategy ends with the bits of one process there: GPT with gelu by tanh") {
  HERO_NEEDS_GPU();
  check_strategies(two_steps(Subject::gpt_tanh, Method::adamw, 3));
  // Of halves one process rounds its sum of gradients after each micro-batch, ranks round it once.
  check_strategies(two_steps(Subject::gpt_tanh, Method::adamw, 2, 0.0, kBFloat16));
  check_strategies(two_steps(Subject::gpt_tanh, Method::sgd, 2, 0.0, kFloat16));
}

TEST_CASE(
    "on one GPU every strategy ends with the bits of one process there: GPT::loss, encoders") {
  HERO_NEEDS_GPU();
  for (const Subject subject : {Subject::gpt_untied, Subject::encoder}) {
    check_strategies(two_steps(subject, Method::adamw, 2));
    check_strategies(two_steps(subject, Method::adamw, 2, 0.0, kBFloat16));
  }
}

TEST_CASE(
    "on one GPU norms of shards are those of the whole: LAMB with clipping under every strategy") {
  HERO_NEEDS_GPU();
  check_strategies(two_steps(Subject::odd, Method::lamb, 3, 0.5));
  check_strategies(two_steps(Subject::mlp, Method::lamb, 4, 0.5));
}

TEST_CASE("nccl: norms of shards are those of the whole: LAMB with clipping") {
  HERO_NEEDS_GPUS(3);
  for (const ShardingStrategy strategy :
       {ShardingStrategy::zero1, ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
    CAPTURE(name(strategy));
    const Climb c{strategy, Subject::odd, Method::lamb, 3, 2, 0.5, kGpu, dist::BackendKind::nccl};
    CHECK(climb_difference(c) == "");
  }
}

TEST_CASE("nccl: every strategy ends with the bits of one process, on as many GPUs as there are") {
  HERO_NEEDS_NCCL();
  for (const int ranks : nccl_worlds())
    check_strategies(two_steps(Subject::mlp, Method::adamw, ranks), kNccl);
}

TEST_CASE("on one GPU a rank of each strategy holds at most what it holds on the CPU") {
  HERO_NEEDS_GPU();
  for (const ShardingStrategy strategy : kStrategies) {
    CAPTURE(name(strategy));
    const auto on_gpu = peaks(strategy, 4, kGpu);
    CHECK(on_gpu.size() == 16);
    for (const auto& [what, bytes] : peaks(strategy, 4, kCpu)) {
      INFO("rank and kind: " << what);
      CHECK(on_gpu.at(what) == bytes);
    }
  }
}
