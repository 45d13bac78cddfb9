// A plan and the run by its file: the same bytes held and sent.
#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/dist/dist.h>
#include <hero/dist/plan.h>
#include <hero/dist/trainer.h>
#include <hero/nn/nn.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

struct Spent {
  int64_t memory = 0, sent = 0;
  bool operator==(const Spent&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Spent& spent) {
  return out << spent.memory << " held, " << spent.sent << " sent";
}

PlanRequest small_request(DType dtype) {
  PlanRequest request;
  request.model = {.vocab_size = 64, .block_size = 16, .n_layer = 3, .n_head = 4, .n_embd = 32};
  request.ranks = 4;
  request.cluster.per_host = 4;
  request.cluster.device = DeviceType::cpu;
  request.cluster.disk_folder = std::filesystem::temp_directory_path().string();
  request.dtype = dtype;
  return request;
}

Spent planned(const PlanRequest& request, const Strategy& s) {
  const PlanCost cost = simulate_strategy(request, s);
  return {cost.memory, static_cast<int64_t>(cost.inside)};
}

// The fullest and the busiest of the ranks that train by the strategy's file.
Spent trained(const PlanRequest& request, const Strategy& s) {
  Config config = Config::parse(config_text(request, s));
  config.loss_scale.initial_power = 10;  // so that no step is skipped
  Spent spent;
  std::mutex mutex;
  run_ranks(s.ranks(), [&](Communicator& world) {
    std::optional<nn::DeviceScope> meta(kMeta);
    nn::GPT model(request.model);
    meta.reset();
    Trainer trainer(model, world, config, {.unit = each<nn::Block>()});
    const Tensor tokens(Array::zeros({s.micro_batch, request.model.block_size}, kInt64));
    for (int step = 0; step < 2; ++step) {
      world.traffic().reset();
      for (int64_t i = 0; i < s.micro_batches; ++i) {
        trainer.backward(trainer.forward([&] { return model.loss(tokens, tokens); }));
        trainer.step();
      }
    }
    const std::lock_guard<std::mutex> lock(mutex);
    spent.memory = std::max(spent.memory, current_ledger().peak());
    spent.sent = std::max(spent.sent, world.traffic().bytes());
  });
  return spent;
}

}  // namespace

TEST_CASE("trainer: a run by a plan's file holds and sends the plan's bytes") {
  const std::vector<Strategy> ways = {
      {.replicate = 4, .sharding = PlanSharding::ddp},
      {.shard = 4, .sharding = PlanSharding::zero1},
      {.shard = 4, .sharding = PlanSharding::zero2},
      {.shard = 4, .sharding = PlanSharding::fsdp},
      {.shard = 4, .sharding = PlanSharding::fsdp, .reshard = false},
      {.replicate = 2, .shard = 2, .sharding = PlanSharding::hybrid},
      {.tensor = 2, .shard = 2, .sharding = PlanSharding::zero1},
      {.tensor = 4},
      {.shard = 4, .sharding = PlanSharding::zero1, .offload = PlanOffload::disk},
      {.shard = 4, .sharding = PlanSharding::fsdp, .offload = PlanOffload::disk},
      {.replicate = 2, .shard = 2, .sharding = PlanSharding::hybrid, .offload = PlanOffload::disk},
  };
  for (const DType dtype : {kBFloat16, kFloat16, kFloat32}) {
    for (const int64_t micro_batches : {1, 3}) {
      for (const bool checkpoint : {false, true}) {
        PlanRequest request = small_request(dtype);
        for (Strategy s : ways) {
          s.micro_batch = 2;
          s.micro_batches = micro_batches;
          s.checkpoint = checkpoint;
          request.global_batch = s.data() * s.micro_batch * s.micro_batches;
          CAPTURE(name(dtype), s.text());
          CHECK(trained(request, s) == planned(request, s));
        }
      }
    }
  }
}
