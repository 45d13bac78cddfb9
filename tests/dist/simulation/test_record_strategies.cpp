// What a simulation says of data parallelism, strategy by strategy: the bytes of real ranks, and
// the waits that decide how much communication is hidden.
#include <array>
#include <functional>
#include <string>
#include <vector>

#include <support/catch.h>
#include <support/kernel_cost.h>

#include <hero/dist/dist.h>
#include <hero/dist/simulation.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Kind = TimelineEvent::Kind;

const Cluster kThreads = {.device = DeviceType::cpu};

struct ShardingStrategy {
  std::string name;
  std::function<DataParallel(nn::Module&, Communicator&)> wrap;
  std::vector<int> ranks = {2, 3, 8};
};

// Buckets of about a third of a block, so that there are several.
constexpr int64_t kBucket = 16 << 10;

DataParallel zero(nn::Module& model, const Communicator& world, int stage) {
  return ZeRO(model, world, {.stage = stage, .bucket_bytes = kBucket});
}

DataParallel fsdp(nn::Module& model, const Communicator& world, bool reshards) {
  return fully_shard(model, world, {.unit = each<nn::Block>(), .reshard_after_forward = reshards});
}

DataParallel hybrid(nn::Module& model, Communicator& world) {
  const Mesh mesh(world, {{"replicate", 2}, {"shard", world.size() / 2}});
  return fully_shard(model, mesh, {.unit = each<nn::Block>()});
}

std::vector<ShardingStrategy> strategies() {
  return {
      {"DDP",
       [](nn::Module& model, Communicator& world) -> DataParallel {
         return DDP(model, world, {.bucket_bytes = kBucket, .first_bucket_bytes = kBucket});
       }},
      {"ZeRO-1", [](nn::Module& m, Communicator& world) { return zero(m, world, 1); }},
      {"ZeRO-2", [](nn::Module& m, Communicator& world) { return zero(m, world, 2); }},
      {"ZeRO-3", [](nn::Module& m, Communicator& world) { return zero(m, world, 3); }},
      {"FSDP", [](nn::Module& m, Communicator& world) { return fsdp(m, world, true); }},
      {"FSDP, kept", [](nn::Module& m, Communicator& world) { return fsdp(m, world, false); }},
      {"hybrid", [](nn::Module& m, Communicator& world) { return hybrid(m, world); }, {4, 8}},
  };
}

// Two steps, of which the second counts; its head is tied.
void train(const ShardingStrategy& strategy, Communicator& world, Device device) {
  manual_seed(3);
  const nn::DeviceScope scope(device);
  nn::GPT model({.vocab_size = 24, .block_size = 8, .n_layer = 3, .n_head = 2, .n_embd = 32});
  const DataParallel parallel = strategy.wrap(model, world);
  current_ledger().reset_peak();  // building it on meta takes less than cutting whole values
  optim::AdamW adamw(model.parameters(), {.lr = 1e-3});
  const Tensor tokens(Array::zeros({2, 8}, kInt64, device));
  for (int step = 0; step < 2; ++step) {
    begin_simulated_step();
    if (device == kCpu) world.traffic().reset();
    model.loss(tokens, tokens).backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    adamw.step();
    adamw.zero_grad();
  }
}

using Peaks = std::array<int64_t, kMemoryTagCount + 1>;

std::string rows_of(const Traffic& traffic) {
  std::string text;
  for (const Traffic::Row& row : traffic.rows()) {
    text += row.axis + " " + name(row.op) + " " + row.unit + " " + std::to_string(row.calls) + " " +
            std::to_string(row.bytes) + "\n";
  }
  return text;
}

TEST_CASE(
    "simulation: under every strategy memory by tag and traffic by row are those of real ranks") {
  for (const ShardingStrategy& strategy : strategies()) {
    for (const int ranks : strategy.ranks) {
      std::vector<Peaks> peaks(static_cast<size_t>(ranks));
      std::vector<std::string> rows(static_cast<size_t>(ranks));
      run_ranks(ranks, [&](Communicator& world) {
        train(strategy, world, kCpu);
        const auto me = static_cast<size_t>(world.rank());
        for (int tag = 0; tag < kMemoryTagCount; ++tag) {
          peaks[me][static_cast<size_t>(tag)] = current_ledger().peak(static_cast<MemoryTag>(tag));
        }
        peaks[me].back() = current_ledger().peak();
        rows[me] = rows_of(world.traffic());
      });
      const Recording recording = record_ranks(
          ranks, [&](Communicator& world) { train(strategy, world, kMeta); }, kThreads);
      REQUIRE(recording.ranks.size() == static_cast<size_t>(ranks));
      for (const RankTimeline& rank : recording.ranks) {
        CAPTURE(strategy.name, ranks, rank.rank);
        const auto me = static_cast<size_t>(rank.rank);
        Peaks recorded{};
        std::copy(rank.peak.begin(), rank.peak.end(), recorded.begin());
        recorded.back() = rank.peak_total;
        CHECK(recorded == peaks[me]);
        CHECK(rows_of(rank.traffic) == rows[me]);
      }
    }
  }
}

// Seconds of computing between the beginning of each call and its wait, by operation: what the rank
// can hide the call behind.
double hidden_behind(const RankTimeline& rank, Collective op) {
  double now = 0.0, hidden = 0.0;
  std::vector<std::pair<int64_t, double>> begun;
  for (const TimelineEvent& event : rank.events) {
    if (event.kind == Kind::compute) now += event.seconds;
    if (event.kind == Kind::begin && event.op == op) begun.emplace_back(event.call, now);
    if (event.kind != Kind::wait) continue;
    for (const auto& [call, since] : begun) hidden += call == event.call ? now - since : 0.0;
  }
  return hidden;
}

TEST_CASE("simulation: every call of a step is waited for once, after it has begun") {
  for (const ShardingStrategy& strategy : strategies()) {
    const Recording recording =
        record_ranks(4, [&](Communicator& world) { train(strategy, world, kMeta); }, kThreads, {0});
    std::vector<int64_t> under_way;
    for (const TimelineEvent& event : recording.ranks.front().events) {
      CAPTURE(strategy.name, event.call);
      if (event.kind == Kind::begin) {
        // the all_reduce of a hybrid goes on where its reduce_scatter ends
        std::erase(under_way, event.after);
        under_way.push_back(event.call);
      }
      if (event.kind == Kind::wait) CHECK(std::erase(under_way, event.call) == 1);
    }
    CAPTURE(strategy.name);
    CHECK(under_way.empty());
  }
}

TEST_CASE("simulation: gradients travel while backward computes, gathering while forward does") {
  for (const ShardingStrategy& strategy : strategies()) {
    const Recording recording =
        record_ranks(4, [&](Communicator& world) { train(strategy, world, kMeta); }, kThreads, {0});
    const RankTimeline& rank = recording.ranks.front();
    CAPTURE(strategy.name);
    // of a hybrid the all_reduce is waited for, which goes on where its reduce_scatter ends
    const bool sums = strategy.name == "DDP" || strategy.name == "hybrid";
    CHECK(hidden_behind(rank, sums ? Collective::all_reduce : Collective::reduce_scatter) > 0.0);
    // ZeRO-1 and ZeRO-2 gather everything before forward begins
    const bool by_unit =
        strategy.name != "DDP" && strategy.name != "ZeRO-1" && strategy.name != "ZeRO-2";
    CHECK((hidden_behind(rank, Collective::all_gather) > 0.0) == by_unit);
  }
}

// Products of matrices and of attention, on all ranks of a world.
int64_t products(int ranks, const RankProgram& program) {
  int64_t flops = 0;
  simulate_ranks(ranks, [&](Communicator& world) {
    hero_test::CostSum sum;
    const core::CostScope scope(&sum);
    program(world);
    flops += sum.flops_of(core::KernelKind::matmul) + sum.flops_of(core::KernelKind::attention);
  });
  return flops;
}

TEST_CASE(
    "simulation: ranks of a tensor axis and of a pipeline divide the products of one process") {
  const auto step = [](Communicator& world, int pipe, int tensor) {
    const nn::DeviceScope meta(kMeta);
    nn::GPT model({.vocab_size = 24,
                   .block_size = 8,
                   .n_layer = 4,
                   .n_head = 4,
                   .n_embd = 16,
                   .tie_weights = false});
    const Mesh mesh(world, {{"pipe", pipe}, {"tensor", tensor}});
    if (tensor > 1) tensor_parallel(model, mesh["tensor"]);
    const Tensor tokens(Array::zeros({8, 8}, kInt64, kMeta));
    if (pipe == 1) return model.loss(tokens, tokens).backward();
    Pipeline(model, mesh["pipe"], {.micro_batches = 4}).step(tokens, tokens);
  };
  const int64_t one = products(1, [&](Communicator& world) { step(world, 1, 1); });
  CHECK(one > 0);
  for (const auto& [pipe, tensor] :
       std::vector<std::pair<int, int>>{{1, 2}, {1, 4}, {2, 1}, {4, 1}, {2, 2}, {2, 4}, {4, 2}}) {
    CAPTURE(pipe, tensor);
    CHECK(products(pipe * tensor,
                   [&, p = pipe, t = tensor](Communicator& world) { step(world, p, t); }) == one);
  }
}

}  // namespace
