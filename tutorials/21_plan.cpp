// Plans: GPT-3 on 1024 GPUs, by simulations on none
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "support/lessons/planned.h"
#include "support/options/command.h"
#include "support/options/device.h"

#include <hero/core/io/file.h>
#include <hero/dist/dist.h>
#include <hero/dist/plan.h>
#include <hero/dist/simulation.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

namespace dist = hero::dist;
namespace nn = hero::nn;
using dist::Communicator;
using hero::Tensor;

// [snippet: request]
constexpr const char* kRequest = R"({
  "model": {
    "layers": 96,
    "width": 12288,
    "heads": 96,
    "vocabulary": 50304,
    "sequence": 2048
  },
  "ranks": 1024,
  "global_batch": 1536,
  "dtype": "bfloat16",
  "cluster": {
    "per_host": 8,
    "memory": "80 GB",
    "bf16_flops": 312e12,
    "efficiency": 0.55,
    "hbm": 2.0e12,
    "inside": {"latency": 5e-6, "bytes_per_second": 250e9},
    "outside": {"latency": 10e-6, "bytes_per_second": 25e9}
  }
})";
// [end]

void plan_gpt3(const std::string& folder) {
  // [snippet: plan]
  dist::PlanRequest request = dist::parse_plan_request(kRequest);
  request.best = 8;
  request.simulations = 24;
  const dist::Plan plan = dist::plan(request);
  std::fputs(table(plan).c_str(), stdout);
  // [end]
  tutorial::draw_groups(plan, folder);
  // [snippet: timeline]
  const dist::Strategy& best = plan.best.front().strategy;
  const dist::Simulation step = dist::strategy_timeline(request, best);
  dist::write_trace(step, folder + "/21_plan.json");  // for ui.perfetto.dev
  // [end]
  std::printf("\na step of the first one, with %d micro-batches alone\n%s", 2 * best.pipe,
              step.table().c_str());
  tutorial::draw_plan(step, request.cluster, folder);
}

// [snippet: scale]
// GPT-3 under fully_shard alone, whose shards lie on all ranks or, in a hybrid, on 64.
void train_gpt3(Communicator& world, int shards) {
  const nn::DeviceScope meta(hero::kMeta);
  nn::GPT model({.vocab_size = 50304,
                 .block_size = 2048,
                 .n_layer = 96,
                 .n_head = 96,
                 .n_embd = 12288,
                 .checkpoint = true});
  const dist::FSDPOptions options = {
      .unit = dist::each<nn::Block>(),
      .mixed_precision = {.parameters = hero::kBFloat16, .reduce = hero::kBFloat16}};
  const dist::Mesh mesh(world, {{"replicate", world.size() / shards}, {"shard", shards}});
  if (shards == world.size()) dist::fully_shard(model, world, options);
  if (shards < world.size()) dist::fully_shard(model, mesh, options);
  hero::optim::AdamW adamw(model.parameters());
  const Tensor tokens(hero::Array::empty({1, 2048}, hero::kInt64, hero::kMeta));
  for (int step = 0; step < 2; ++step) {
    dist::begin_simulated_step();
    model.loss(tokens, tokens).backward();
    adamw.step();
    adamw.zero_grad();
  }
}
// [end]

void scale_gpt3(const std::string& folder) {
  std::printf(
      "\nGPT-3 under fully_shard alone, one sequence per rank: what a rank has in a step\n");
  std::printf("   ranks  shards   calls   GB sent   GB held   seconds   exposed\n");
  std::vector<tutorial::ScaledStep> steps;
  for (const bool hybrid : {false, true}) {
    for (const int ranks : {64, 256, 1024, 4096, 16384}) {
      if (hybrid && ranks == 64) continue;
      const int shards = hybrid ? 64 : ranks;
      const dist::Cluster cluster;
      const dist::Recording recording = dist::record_ranks(
          ranks, [&](Communicator& world) { train_gpt3(world, shards); }, cluster, {0});
      const dist::Simulation step = dist::replay(recording, cluster);
      const dist::Traffic& traffic = recording.ranks.front().traffic;
      steps.push_back({hybrid, ranks, step.seconds});
      std::printf("  %6d  %6d  %6lld  %8.1f  %8.1f  %8.2f  %7.1f %%\n", ranks, shards,
                  static_cast<long long>(traffic.calls()),
                  static_cast<double>(traffic.bytes()) * 1e-9,
                  static_cast<double>(step.peak_bytes) * 1e-9, step.seconds, 100 * step.exposed);
    }
  }
  tutorial::draw_scale(steps, folder);
}

// One way to train a small GPT on two ranks.
struct Way {
  const char* name;
  enum { ddp, zero1, zero2, fsdp, fsdp_kept, tensor, pipe } kind;
  dist::Schedule schedule = dist::Schedule::gpipe();
  int micro_batches = 1;
};
const std::vector<Way> kWays = {
    {"DDP", Way::ddp},
    {"ZeRO-1", Way::zero1},
    {"ZeRO-2", Way::zero2},
    {"FSDP", Way::fsdp},
    {"FSDP, kept until backward", Way::fsdp_kept},
    {"tensor parallel", Way::tensor},
    {"pipeline, 2 by gpipe", Way::pipe, dist::Schedule::gpipe(), 2},
    {"pipeline, 4 by 1f1b", Way::pipe, dist::Schedule::one_f_one_b(), 4},
};

const nn::GPTConfig kSmall = {.vocab_size = 256,
                              .block_size = 64,
                              .n_layer = 4,
                              .n_head = 4,
                              .n_embd = 128,
                              .tie_weights = false};

// The same program on a device and on meta, where it is simulated: the seconds of each step.
std::vector<double> train(const Way& way, Communicator& world, hero::Device device, int steps) {
  const nn::DeviceScope planned(hero::kMeta);
  hero::manual_seed(1);
  nn::GPT model(kSmall);
  std::optional<dist::Pipeline> pipe;
  const bool divides_data = way.kind < Way::tensor;
  if (way.kind == Way::tensor) dist::tensor_parallel(model, world);
  if (way.kind == Way::pipe) {
    const dist::PipelineOptions options{
        .schedule = way.schedule, .micro_batches = way.micro_batches, .device = device};
    pipe.emplace(model, world, options);
  } else if (way.kind != Way::fsdp && way.kind != Way::fsdp_kept) {
    model.materialize(device);
  }
  constexpr int64_t kBucket = 512 << 10;
  std::optional<dist::DataParallel> parallel;
  if (way.kind == Way::ddp) {
    parallel = dist::DDP(model, world, {.bucket_bytes = kBucket, .first_bucket_bytes = kBucket});
  } else if (way.kind == Way::zero1 || way.kind == Way::zero2) {
    const int stage = way.kind == Way::zero1 ? 1 : 2;
    parallel = dist::ZeRO(model, world, {.stage = stage, .bucket_bytes = kBucket});
  } else if (divides_data) {
    parallel = dist::fully_shard(model, world,
                                 {.unit = dist::each<nn::Block>(),
                                  .reshard_after_forward = way.kind == Way::fsdp,
                                  .device = device});
  }
  hero::optim::AdamW adamw(model.parameters(), {.lr = 1e-3});
  const int64_t sequences = divides_data ? 16 / world.size() : 16;
  const Tensor tokens(hero::Array::zeros({sequences, kSmall.block_size}, hero::kInt64, device));
  std::vector<double> seconds;
  for (int step = 0; step < steps; ++step) {
    dist::begin_simulated_step();
    const auto begin = std::chrono::steady_clock::now();
    pipe ? void(pipe->step(tokens, tokens)) : model.loss(tokens, tokens).backward();
    adamw.step();
    adamw.zero_grad();
    world.barrier();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Kendall's tau of two orders: of all pairs those that they agree on, less those that they do not,
// as a part of all. `told_apart`: the same of those pairs that all rounds but at most one of nine
// order alike, which chance does in 4 % of cases; the others are nearer to each other than can be
// measured.
struct Agreement {
  double all = 0.0, told_apart = 0.0;
  int pairs = 0, tied = 0;
};

Agreement agreement(const std::vector<double>& simulated,
                    const std::vector<std::vector<double>>& rounds,
                    const std::vector<double>& measured) {
  Agreement result;
  double told_apart = 0.0;
  for (size_t i = 0; i < simulated.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool less = simulated[i] < simulated[j];
      const double agrees = less == (measured[i] < measured[j]) ? 1.0 : -1.0;
      const auto shorter = std::count_if(rounds.begin(), rounds.end(),
                                         [&](const auto& round) { return round[i] < round[j]; });
      const auto longer = static_cast<int64_t>(rounds.size()) - shorter;
      const bool same = std::min<int64_t>(shorter, longer) <= 1;
      ++result.pairs;
      result.tied += same ? 0 : 1;
      result.all += agrees;
      told_apart += same ? agrees : 0.0;
    }
  }
  result.all /= result.pairs;
  result.told_apart = told_apart / std::max(1, result.pairs - result.tied);
  return result;
}

// The median step of each way on two threads, in many short rounds: what else the machine does
// comes and goes, and so meets all ways alike. The first two of a round's steps do not count. Each
// rank has a core to itself, as each has a device in a simulation.
std::vector<std::vector<double>> measure(double bytes_per_second, size_t count) {
  std::vector<std::vector<double>> rounds(count);
  for (std::vector<double>& round : rounds) {
    for (const Way& way : kWays) {
      dist::run_ranks(2,
                      [&](Communicator& world) {
                        std::vector<double> steps = train(way, world, hero::kCpu, 9);
                        steps.erase(steps.begin(), steps.begin() + 2);
                        if (world.rank() == 0) round.push_back(median(std::move(steps)));
                      },
                      {.link_bytes_per_second = bytes_per_second, .bind_to_cores = true});
    }
  }
  return rounds;
}

void validate(double bytes_per_second, size_t count) {
  dist::Cluster machine = dist::calibrate(2, kSmall);  // measured here
  machine.inside.bytes_per_second = bytes_per_second;
  const std::vector<std::vector<double>> rounds = measure(bytes_per_second, count);
  std::printf("\ntwo threads on a link of %.0f MB/s%16s%14s\n", bytes_per_second / 1e6, "simulated",
              "measured");
  std::vector<double> simulated, measured, errors;
  for (size_t i = 0; i < kWays.size(); ++i) {
    const auto on_meta = [&](Communicator& world) { train(kWays[i], world, hero::kMeta, 3); };
    simulated.push_back(dist::simulate(2, on_meta, machine).seconds);
    std::vector<double> times;
    for (const std::vector<double>& round : rounds) times.push_back(round[i]);
    measured.push_back(median(times));
    const double error = 100 * (simulated[i] / measured[i] - 1);
    errors.push_back(std::abs(error));
    std::printf("  %-32s%12.2f ms%11.2f ms  %+5.0f %%\n", kWays[i].name, 1e3 * simulated[i],
                1e3 * measured[i], error);
  }
  const auto fastest = std::min_element(simulated.begin(), simulated.end()) - simulated.begin();
  const double least = *std::min_element(measured.begin(), measured.end());
  const Agreement order = agreement(simulated, rounds, measured);
  std::printf("median error %.0f %%, Kendall's tau of the order %.2f\n", median(errors), order.all);
  std::printf("%d of %d pairs change places from one round to another; tau of the others %.2f\n",
              order.tied, order.pairs, order.told_apart);
  std::printf("first choice: %s, %.0f %% above the fastest\n",
              kWays[static_cast<size_t>(fastest)].name,
              100 * (measured[static_cast<size_t>(fastest)] / least - 1));
}

}  // namespace

int main(int argc, char** argv) {
  tutorial::Command command("Which way to divide GPT-3 among 1024 GPUs, by simulations.");
  std::string folder = "figures";
  std::optional<double> link;
  std::optional<int64_t> rounds;
  hero::Device device = hero::kCpu;
  command.out(folder)
      .number(
          "--link", link,
          "bytes per second: no plans; simulations are compared with threads that send no faster")
      .count("--rounds", rounds, "of these measurements: 9")
      .device(device);
  return command.run(argc, argv, [&] {
    hero::check(!link || device == hero::kCpu,
                "--link: plans are compared on the CPU; leave --device out");
    const tutorial::OnDevice on(device);
    if (link) {
      validate(*link, static_cast<size_t>(rounds.value_or(9)));
      return 0;
    }
    command.make_out();
    hero::make_folders("--out", folder);  // its own, too: the best plan's step is written there
    plan_gpt3(folder);
    scale_gpt3(folder);
    return 0;
  });
}
