// When does communication hide behind computing?
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include "support/options/command.h"
#include "support/options/device.h"
#include "support/pictures/plot.h"

#include <hero/core/io/file.h>
#include <hero/dist/dist.h>
#include <hero/dist/simulation.h>
#include <hero/nn/nn.h>

namespace {

namespace dist = hero::dist;
namespace nn = hero::nn;
using dist::Communicator;
using hero::Tensor;
using tutorial::Values;

// [snippet: cluster]
const dist::Cluster kCluster = {.per_host = 8,
                                .half_flops = 312e12,       // an A100's peak in bfloat16
                                .inside = {5e-6, 250e9},    // seconds, bytes a second: NVLink
                                .outside = {10e-6, 25e9}};  // InfiniBand, for each GPU
const double kRate = 0.55 * kCluster.half_flops;            // what matrix products reach
// [end]

// [snippet: calls]
// Seconds of an all_reduce of so many bytes by `ranks` ranks.
double ring(int ranks, double bytes, const dist::LinkSpec& link) {
  const double piece = bytes / ranks;
  return 2 * (ranks - 1) * (link.latency + piece / link.bytes_per_second);
}

double tree(int ranks, double bytes, const dist::LinkSpec& link) {
  return 2 * std::log2(ranks) * (link.latency + bytes / link.bytes_per_second);
}
// [end]

void compare_calls() {
  std::printf("an all_reduce between hosts, in milliseconds\n");
  std::printf("%12s%10s%12s%12s\n", "bytes", "ranks", "ring", "tree");
  for (const double bytes : {1e4, 1e6, 1e8}) {
    for (const int ranks : {8, 64, 1024}) {
      std::printf("%12.0f%10d%12.3f%12.3f\n", bytes, ranks,
                  1e3 * ring(ranks, bytes, kCluster.outside),
                  1e3 * tree(ranks, bytes, kCluster.outside));
    }
  }
}

// [snippet: layers]
// Equal layers, so that every one of them computes and sends the same.
nn::Sequential make_layers(int64_t layers, int64_t width) {
  nn::Sequential made;
  for (int64_t i = 0; i < layers; ++i) {
    made.append<nn::Linear>(width, width, {.bias = false});
    made.append<nn::Tanh>();
  }
  return made;
}

enum class Strategy { ddp, fsdp };
constexpr int64_t kLayers = 24, kWidth = 4096;

// A step of rank 0 of 16, so many on each host; without an optimizer.
dist::Simulation step_of(Strategy strategy, int64_t tokens, int per_host) {
  dist::Cluster cluster = kCluster;
  cluster.per_host = per_host;
  const auto program = [&](Communicator& world) {
    const nn::DeviceScope meta(hero::kMeta);
    nn::Sequential layers = make_layers(kLayers, kWidth);
    layers.to(hero::kBFloat16);
    dist::DataParallel parallel =
        strategy == Strategy::ddp
            ? dist::DDP(layers, world)
            : dist::fully_shard(layers, world, {.unit = dist::each<nn::Linear>()});
    const Tensor x(hero::Array::empty({tokens, kWidth}, hero::kBFloat16, hero::kMeta));
    for (int step = 0; step < 2; ++step) {  // from the second on the order is known
      dist::begin_simulated_step();
      layers(x).sum().backward();
    }
  };
  return dist::simulate(16, program, cluster, {.ranks = {0}});
}
// [end]

// [snippet: rule]
// Tokens of a rank in a step above which its messages hide: operations a second over bytes a
// second.
double tokens_to_hide(const dist::LinkSpec& link) { return kRate / link.bytes_per_second; }
// [end]

void sweep_tokens(const std::string& folder) {
  tutorial::Figure figure("What part of a step waits for messages, simulated", "tokens of a rank",
                          "share of the step");
  figure.x_range(9, 15).y_range(0, 1).patterned();
  std::vector<tutorial::Tick> ticks;
  for (const int per_host : {1, 8, 16}) {
    const bool inside = per_host == 16;
    const dist::LinkSpec& link = inside ? kCluster.inside : kCluster.outside;
    const double rule = tokens_to_hide(link);
    std::printf("\n16 ranks, %d on each host: the rule says %.0f tokens\n", per_host, rule);
    std::printf("%12s%12s%12s%12s%12s\n", "tokens", "computing", "ring", "DDP waits", "FSDP waits");
    Values x, ddp, fsdp;
    for (const int64_t part : {2, 4, 8, 16, 24, 32, 48, 64, 128}) {
      const int64_t tokens = part * (inside ? 32 : 256);
      const dist::Simulation a = step_of(Strategy::ddp, tokens, per_host);
      const dist::Simulation b = step_of(Strategy::fsdp, tokens, per_host);
      const double bytes = 2.0 * static_cast<double>(kLayers * kWidth * kWidth);
      std::printf("%12lld%9.1f ms%9.1f ms%10.1f %%%10.1f %%\n", static_cast<long long>(tokens),
                  1e3 * a.ranks.front().compute, 1e3 * ring(16, bytes, link), 100 * a.exposed,
                  100 * b.exposed);
      x.push_back(std::log2(tokens));
      ddp.push_back(a.exposed);
      fsdp.push_back(b.exposed);
      if (per_host == 1 && (part & (part - 1)) == 0)
        ticks.push_back({x.back(), std::to_string(tokens)});
    }
    if (inside) continue;
    const std::string where = per_host == 8 ? ", two hosts" : "";
    figure.line("DDP" + where, x, ddp).line("FSDP" + where, x, fsdp);
  }
  const double rule = std::log2(tokens_to_hide(kCluster.outside));
  figure.x_ticks(ticks).line("the rule", {rule, rule}, {0, 1}, 1.2).save(folder, "19a_tokens");
}

// [snippet: tensor]
// What the four all_reduces of a block take, as a part of what its products take on `degree` ranks.
double tensor_share(int degree, double width, const dist::LinkSpec& link) {
  return 2.0 / 9.0 * (degree - 1) * kRate / (width * link.bytes_per_second);
}

// The same of a simulated step of two blocks and one sequence.
double simulated_share(int degree, int64_t width, int per_host) {
  dist::Cluster cluster = kCluster;
  cluster.per_host = per_host;
  const auto program = [&](Communicator& world) {
    const nn::DeviceScope meta(hero::kMeta);
    nn::GPT model({.vocab_size = 256,
                   .block_size = 2048,
                   .n_layer = 2,
                   .n_head = 96,
                   .n_embd = width,
                   .tie_weights = false});
    model.to(hero::kBFloat16);
    dist::tensor_parallel(model, world);
    const Tensor tokens(hero::Array::empty({1, 2048}, hero::kInt64, hero::kMeta));
    dist::begin_simulated_step();
    model.loss(tokens, tokens).backward();
  };
  const dist::Simulation step = dist::simulate(degree, program, cluster, {.ranks = {0}});
  return step.ranks.front().collectives / step.ranks.front().compute;
}
// [end]

void sweep_tensor() {
  std::printf("\nblocks of width 12288 on tensor ranks: their messages beside their computing\n");
  std::printf("%8s%11s%11s%16s%11s\n", "degree", "in a host", "simulated", "between hosts",
              "simulated");
  for (const int degree : {2, 4, 8, 16, 32}) {
    std::printf("%8d%9.0f %%%9.0f %%%14.0f %%%9.0f %%\n", degree,
                100 * tensor_share(degree, 12288, kCluster.inside),
                100 * simulated_share(degree, 12288, degree),
                100 * tensor_share(degree, 12288, kCluster.outside),
                100 * simulated_share(degree, 12288, 1));
  }
}

// [snippet: bubble]
// The part of a step in which a rank of a pipeline has nothing to do: its first micro-batch comes
// late, and its last one leaves early.
double bubble(int stages, int micro_batches) {
  return (stages - 1.0) / (micro_batches + stages - 1.0);
}
// [end]

double simulated_bubble(int micro_batches) {
  const auto program = [&](Communicator& world) {
    nn::DeviceScope meta(hero::kMeta);
    nn::GPT model({.vocab_size = 256,
                   .block_size = 1024,
                   .n_layer = 32,
                   .n_head = 16,
                   .n_embd = 2048,
                   .tie_weights = false});
    model.to(hero::kBFloat16);
    std::vector<size_t> first_layers = {0};  // four blocks for each stage, behind the embedding
    while (first_layers.size() < 8) first_layers.push_back(4 * first_layers.size() + 1);
    dist::Pipeline pipe(
        model, world,
        {.micro_batches = micro_batches, .first_layers = first_layers, .device = hero::kMeta});
    const Tensor tokens(hero::Array::empty({micro_batches, 1024}, hero::kInt64, hero::kMeta));
    dist::begin_simulated_step();
    pipe.step(tokens, tokens);
  };
  const dist::Simulation step = dist::simulate(8, program, kCluster);
  return step.bubble + step.exposed;  // waiting for activations and, at the end, for the loss
}

void sweep_micro_batches() {
  std::printf("\nthe bubble of eight stages under 1F1B\n");
  std::printf("%15s%11s%11s\n", "micro-batches", "the rule", "simulated");
  for (const int micro_batches : {8, 16, 32, 64, 128}) {
    std::printf("%15d%9.1f %%%9.1f %%\n", micro_batches, 100 * bubble(8, micro_batches),
                100 * simulated_bubble(micro_batches));
  }
}

// Two threads, each with a core of its own, train equal layers with DDP: the seconds of forward and
// of backward on rank 0, the shortest of 7 steps. 0 bytes a second: as fast as memory.
constexpr int64_t kSmallLayers = 12, kSmallWidth = 512, kRows = 256;

struct Measured {
  double forward = 1e9, backward = 1e9;
};

Measured measure(double bytes_per_second) {
  Measured best;
  const auto program = [&](Communicator& world) {
    hero::manual_seed(1);
    nn::Sequential layers = make_layers(kSmallLayers, kSmallWidth);
    const dist::DataParallel ddp = dist::DDP(layers, world, {.bucket_bytes = 1 << 20});
    const Tensor x = hero::randn({kRows, kSmallWidth});
    const auto now = [] { return std::chrono::steady_clock::now(); };
    for (int step = 0; step < 9; ++step) {
      world.barrier();
      const auto begin = now();
      const Tensor loss = layers(x).sum();
      const auto middle = now();
      loss.backward();
      const auto end = now();
      layers.zero_grad();
      if (world.rank() > 0 || step < 2) continue;
      best.forward = std::min(best.forward, std::chrono::duration<double>(middle - begin).count());
      best.backward = std::min(best.backward, std::chrono::duration<double>(end - middle).count());
    }
  };
  dist::run_ranks(2, program, {.link_bytes_per_second = bytes_per_second, .bind_to_cores = true});
  return best;
}

void measure_links(const std::string& folder) {
  const Measured alone = measure(0);
  // of float32, by a ring of two ranks: what leaves a rank is as much as the gradients
  const double bytes = 4.0 * static_cast<double>(kSmallLayers * kSmallWidth * kSmallWidth);
  const double rule = bytes / alone.backward;
  std::printf("two threads with DDP: forward %.2f ms, backward %.2f ms, %.1f MB to send\n",
              1e3 * alone.forward, 1e3 * alone.backward, 1e-6 * bytes);
  std::printf("the rule: messages hide on links of more than %.0f MB/s\n\n", 1e-6 * rule);
  std::printf("%12s%16s%14s%12s\n", "link, MB/s", "bytes alone, ms", "backward, ms", "exposed");
  tutorial::Figure figure("A backward of DDP on two threads over links of several rates",
                          "link, MB/s", "ms");
  Values x, measured, expected;
  std::vector<tutorial::Tick> ticks;
  for (const double part : {0.25, 0.5, 0.71, 1.0, 1.41, 2.0, 4.0, 8.0}) {
    const double link = part * rule;
    const Measured step = measure(link);
    std::printf("%12.0f%16.2f%14.2f%10.0f %%\n", 1e-6 * link, 1e3 * bytes / link,
                1e3 * step.backward, 100 * std::max(0.0, 1 - alone.backward / step.backward));
    x.push_back(std::log2(part));
    measured.push_back(1e3 * step.backward);
    expected.push_back(1e3 * std::max(alone.backward, bytes / link));
    char text[32];
    std::snprintf(text, sizeof text, "%.0f", 1e-6 * link);
    ticks.push_back({x.back(), text});
  }
  figure.x_range(-2.2, 3.2)
      .y_range(0, 1.1 * measured.front())
      .x_ticks(ticks)
      .patterned()
      .line("computing or sending, whichever is longer", x, expected)
      .points("measured", x, measured)
      .save(folder, "19a_measured");
}

}  // namespace

int main(int argc, char** argv) {
  tutorial::Command command("When messages hide behind computing: rules, and simulations of them.");
  std::string folder = "figures";
  bool measures = false;
  hero::Device device = hero::kCpu;
  command.out(folder)
      .flag("--measure", measures, "no rules; two threads train on links of several rates")
      .device(device);
  return command.run(argc, argv, [&] {
    hero::check(!measures || device == hero::kCpu,
                "--measure: links are compared on the CPU; leave --device out");
    const tutorial::OnDevice on(device);
    command.make_out();
    if (measures) {
      measure_links(folder);
      return 0;
    }
    compare_calls();
    sweep_tokens(folder);
    sweep_tensor();
    sweep_micro_batches();
    return 0;
  });
}
