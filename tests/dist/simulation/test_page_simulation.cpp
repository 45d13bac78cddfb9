// The programs of docs/guides/simulation.md, and what the page says that they tell.
#include <algorithm>
#include <memory>

#include <nlohmann/json.hpp>
#include <support/catch.h>
#include <support/temp_dir.h>

#include <hero/core/swap_file.h>
#include <hero/dist/dist.h>
#include <hero/dist/simulation.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>
#include <hero/optim/paged.h>

namespace {

using namespace hero;

// [snippet: program]
const nn::GPTConfig config = {
    .vocab_size = 50304, .block_size = 2048, .n_layer = 24, .n_head = 16, .n_embd = 2048};

void train(dist::Communicator& world) {
  const nn::DeviceScope meta(kMeta);  // shapes, no values
  nn::GPT model(config);
  dist::fully_shard(model, world,
                    {.unit = dist::each<nn::Block>(),
                     .mixed_precision = {.parameters = kBFloat16, .reduce = kBFloat16}});
  optim::AdamW adamw(model.parameters());
  const Tensor tokens(Array::empty({4, config.block_size}, kInt64, kMeta));
  for (int step = 0; step < 2; ++step) {
    dist::begin_simulated_step();  // the last one counts
    dist::simulated_part("forward and backward");
    model.loss(tokens, tokens).backward();
    dist::simulated_part("optimizer");
    adamw.step();
    adamw.zero_grad();
  }
}
// [end]

TEST_CASE("the simulation page: a step of a GPT on 64 GPUs") {
  // [snippet: simulate]
  dist::Cluster cluster;  // hosts of eight A100; every number can be another
  cluster.outside = {.latency = 10e-6, .bytes_per_second = 12.5e9};
  const dist::Simulation step = dist::simulate(64, train, cluster, {.ranks = {0}});
  const std::string text = step.table();
  // [end]
  CHECK(step.seconds > 0.1);
  CHECK(step.seconds < 10);
  CHECK(step.bubble == 0.0);
  CHECK(step.mfu > 0.2);
  CHECK(text.find("exposed communication") != std::string::npos);
}

TEST_CASE("the simulation page: the same step with checkpointed blocks") {
  const auto checkpointed = [](dist::Communicator& world) {
    const nn::DeviceScope meta(kMeta);
    nn::GPTConfig other = config;
    other.checkpoint = true;
    nn::GPT model(other);
    dist::fully_shard(model, world,
                      {.unit = dist::each<nn::Block>(),
                       .mixed_precision = {.parameters = kBFloat16, .reduce = kBFloat16}});
    optim::AdamW adamw(model.parameters());
    const Tensor tokens(Array::empty({4, config.block_size}, kInt64, kMeta));
    for (int step = 0; step < 2; ++step) {
      dist::begin_simulated_step();
      model.loss(tokens, tokens).backward();
      adamw.step();
      adamw.zero_grad();
    }
  };
  dist::Cluster cluster;
  cluster.outside = {.latency = 10e-6, .bytes_per_second = 12.5e9};
  const dist::Simulation plain = dist::simulate(64, train, cluster, {.ranks = {0}});
  const dist::Simulation step = dist::simulate(64, checkpointed, cluster, {.ranks = {0}});
  // the numbers of the page
  CHECK(plain.seconds == Approx(0.551).epsilon(1e-3));
  CHECK(plain.mfu == Approx(0.404).margin(5e-4));
  CHECK(plain.hfu == plain.mfu);
  CHECK(step.seconds == Approx(0.684).epsilon(1e-3));
  CHECK(step.mfu == Approx(0.325).margin(5e-4));
  CHECK(step.hfu == Approx(0.425).margin(5e-4));
  CHECK(step.mfu * step.seconds == Approx(plain.mfu * plain.seconds).epsilon(1e-9));
  CHECK(static_cast<double>(step.peak_bytes) < 2.45 * (1 << 30));
  CHECK(static_cast<double>(plain.peak_bytes) > 13.4 * (1 << 30));
}

TEST_CASE("the simulation page: the same step as a trace file") {
  const hero_test::TempDir folder;
  const std::string path = folder / "step.json";
  const dist::Simulation step = dist::simulate(64, train, {}, {.ranks = {0}, .spans = true});
  dist::write_trace(step, path);  // open it in ui.perfetto.dev
  const auto trace = nlohmann::json::parse(hero_test::slurp(path));
  bool computes = false, gathers = false;
  for (const auto& event : trace.at("traceEvents")) {
    const std::string name = event.at("name");
    computes = computes || name == "forward and backward";
    gathers = gathers || name.starts_with("all_gather transformer.h.");
  }
  CHECK(computes);
  CHECK(gathers);
}

// One GPU, with shards and states in its host's memory or, where there is a file, in that.
void train_offloaded(dist::Communicator& world, core::SwapFile* disk) {
  const nn::DeviceScope meta(kMeta);
  nn::GPT model(config);
  model.to(kBFloat16);
  dist::fully_shard(
      model, world,
      {.unit = dist::each<nn::Block>(), .offload = {.parameters = disk == nullptr, .disk = disk}});
  std::unique_ptr<optim::Optimizer> adamw;
  if (disk != nullptr) {
    using Paged = optim::Paged<optim::MasterWeights<optim::AdamW>>;
    adamw = std::make_unique<Paged>(*disk, model.parameters());
  } else {
    adamw = std::make_unique<optim::MasterWeights<optim::AdamW>>(model.parameters());
  }
  const Tensor tokens(Array::empty({4, config.block_size}, kInt64, kMeta));
  for (int step = 0; step < 2; ++step) {
    dist::begin_simulated_step();
    model.loss(tokens, tokens).backward();
    adamw->step();
    adamw->zero_grad();
  }
}

TEST_CASE("the simulation page: a GPT whose states lie on the host, or on disk") {
  dist::Cluster cluster;
  cluster.per_host = 1;
  cluster.host_bytes_per_second = 100e9;  // of the host's memory
  cluster.host_link.bytes_per_second = 25e9;
  cluster.disk_bytes_per_second = 6e9;
  core::SwapFile disk("/nvme", {.bytes = int64_t{1} << 40, .planned = true});  // no file
  const auto host_home = [](dist::Communicator& world) { train_offloaded(world, nullptr); };
  const auto disk_home = [&](dist::Communicator& world) { train_offloaded(world, &disk); };
  const dist::Simulation on_host = dist::simulate(1, host_home, cluster);
  const dist::Simulation on_disk = dist::simulate(1, disk_home, cluster);
  const int64_t psi = [] {
    const nn::DeviceScope meta(kMeta);
    return nn::GPT(config).parameter_count();
  }();
  const dist::ReplayRank &host = on_host.ranks.front(), &file = on_disk.ranks.front();
  CHECK(host.host_peak_total >= 16 * psi);  // as the page says
  CHECK(host.host_peak_total <= 17 * psi);
  CHECK(host.disk_peak == 0);
  CHECK(file.disk_peak >= 14 * psi);
  CHECK(file.disk_peak <= 14 * psi + (14 * psi) / 100);
  CHECK(file.host_peak_total < host.host_peak_total / 2);
  CHECK(on_host.peak_bytes < 16 * psi);
  CHECK(on_disk.seconds > 3 * on_host.seconds);
}

TEST_CASE("the simulation page: what a slower network costs") {
  std::vector<double> seconds;
  for (const double rate : {50e9, 25e9, 12.5e9, 6.25e9}) {
    dist::Cluster cluster;
    cluster.outside.bytes_per_second = rate;
    seconds.push_back(dist::simulate(64, train, cluster, {.ranks = {0}}).seconds);
  }
  CHECK(std::is_sorted(seconds.begin(), seconds.end()));
  CHECK(seconds.front() == Approx(0.453).epsilon(2e-3));  // as the page says
  CHECK(seconds.back() == Approx(0.950).epsilon(1e-3));
}

}  // namespace
