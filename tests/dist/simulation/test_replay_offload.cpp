// Transfers between memories in a simulation: their time by hand, what hides them, and the trace.
#include <fstream>
#include <optional>
#include <sstream>

#include <dist/simulation/recordings.h>
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
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;
using hero_test::HandMade;
using hero_test::plain_cluster;
using Kind = TimelineEvent::Kind;

constexpr double kExact = 1e-12;  // sums of a few doubles

// Links of 50 bytes per second each way; a disk of 40, of which each of four devices has 10.
Cluster with_host() {
  Cluster cluster = plain_cluster();
  cluster.host_link = {0.5, 50.0};
  cluster.disk_bytes_per_second = 40.0;
  return cluster;
}

TEST_CASE("replay: a transfer takes its bytes on its way, and what computes hides it") {
  for (const double computing : {0.0, 1.0, 4.0}) {
    HandMade made(1);
    const int64_t up = made.move(0, Transfer::to_device, 100);
    made.compute(0, computing);
    made.wait(0, up);
    const Simulation step = replay(made.recording, with_host());
    CHECK(step.seconds == Approx(std::max(computing, 2.5)).epsilon(kExact));
    CHECK(step.ranks[0].transfers == Approx(std::max(0.0, 2.5 - computing)).margin(kExact));
    CHECK(step.ranks[0].collectives == 0.0);
    CHECK(step.ranks[0].moved[static_cast<size_t>(Transfer::to_device)] == 100);
  }
}

TEST_CASE("replay: the ways up and down are two, the disk is one, and the devices share it") {
  const auto seconds = [](Transfer first, Transfer second) {
    HandMade made(1);
    const int64_t a = made.move(0, first, 100), b = made.move(0, second, 100);
    made.wait(0, a);
    made.wait(0, b);
    return replay(made.recording, with_host()).seconds;
  };
  CHECK(seconds(Transfer::to_device, Transfer::to_device) == Approx(4.5).epsilon(kExact));
  CHECK(seconds(Transfer::to_device, Transfer::to_host) == Approx(2.5).epsilon(kExact));
  CHECK(seconds(Transfer::from_disk, Transfer::to_disk) == Approx(20.0).epsilon(kExact));
}

TEST_CASE("replay: a gathering behind a copy begins when the copy has arrived") {
  HandMade made(2);
  for (const int rank : {0, 1}) {
    const int64_t up = made.move(rank, Transfer::to_device, 100);
    made.wait(rank, made.begin(rank, Collective::all_gather, 300, 0, -1, up));
  }
  CHECK(replay(made.recording, with_host()).seconds == Approx(2.5 + 3.0).epsilon(kExact));
}

constexpr int kLayers = 4;
constexpr int64_t kWidth = 64;

struct Layers : nn::Module {
  Layers() {
    for (int i = 0; i < kLayers; ++i) {
      layer.push_back(
          &add<nn::Linear>(std::to_string(i), kWidth, kWidth, nn::LinearOptions{.bias = false}));
    }
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (nn::Linear* each : layer) h = (*each)(h);
    return h;
  }
  std::vector<nn::Linear*> layer;
};

// Two steps of units whose shards lie on the host, or in a file.
RankProgram program(const Offload& offload) {
  return [offload](Communicator& world) {
    const nn::DeviceScope meta(kMeta);
    Layers model;
    fully_shard(model, world, {.unit = each<nn::Linear>(), .offload = offload});
    std::unique_ptr<optim::Optimizer> adamw;
    if (offload.disk != nullptr) {
      adamw = std::make_unique<optim::Paged<optim::AdamW>>(*offload.disk, model.parameters(),
                                                           optim::AdamWOptions{},
                                                           optim::PagedOptions{.window_bytes = 1});
    } else {
      adamw = std::make_unique<optim::AdamW>(model.parameters());
    }
    const Tensor x(Array::empty({8, kWidth}, kFloat32, kMeta));
    for (int step = 0; step < 2; ++step) {
      begin_simulated_step();
      sum(model(x)).backward();
      adamw->step();
      adamw->zero_grad();
    }
  };
}

TEST_CASE("simulation: bytes that are offloaded are those of the formulas, at the link's speed") {
  const int64_t psi = 4 * kLayers * kWidth * kWidth;  // bytes
  for (const int ranks : {1, 2, 8}) {
    CAPTURE(ranks);
    const Simulation step = simulate(ranks, program({.parameters = true}), {});
    for (const ReplayRank& rank : step.ranks) {
      CHECK(rank.moved[static_cast<size_t>(Transfer::to_device)] == 2 * psi / ranks);
      CHECK(rank.moved[static_cast<size_t>(Transfer::to_host)] == psi / ranks);
      CHECK(rank.host_peak[static_cast<size_t>(MemoryTag::parameter)] == psi / ranks);
      CHECK(rank.host_peak[static_cast<size_t>(MemoryTag::optimizer)] == 2 * psi / ranks);
      CHECK(rank.peak[static_cast<size_t>(MemoryTag::parameter)] == 0);
      CHECK(rank.peak[static_cast<size_t>(MemoryTag::optimizer)] == 0);
      CHECK(rank.disk_peak == 0);
    }
    // a link that is slow takes as long as its bytes each way, less what goes both ways at once
    Cluster slow;
    slow.host_link = {0.0, 1e3};
    const double seconds = simulate(ranks, program({.parameters = true}), slow).seconds;
    const double up = 2.0 * static_cast<double>(psi) / ranks / 1e3;
    CHECK(seconds > up);
    CHECK(seconds < 1.5 * up + 0.1);
  }
}

TEST_CASE("simulation: a unit's copy and gathering are under way while the unit before computes") {
  const Recording recording = record_ranks(2, program({.parameters = true}), {}, {0});
  const std::vector<TimelineEvent>& events = recording.ranks.front().events;
  int ahead = 0, gathers = 0;
  double now = 0.0;
  std::map<int64_t, double> begun;
  for (const TimelineEvent& event : events) {
    if (event.kind == Kind::compute) now += event.seconds;
    if (event.kind == Kind::move && event.transfer == Transfer::to_device) begun[event.call] = now;
    if (event.kind == Kind::begin && event.op == Collective::all_gather) {
      ++gathers;
      CHECK(begun.contains(event.after));  // each gathering is behind its copy
    }
    if (event.kind == Kind::wait && begun.contains(event.call)) ahead += begun[event.call] < now;
  }
  CHECK(gathers == 2 * kLayers);
  CHECK(ahead == 2 * (kLayers - 1));  // all but the first unit of forward and of backward
}

TEST_CASE("simulation: shards and states in a planned file take its time and its bytes") {
  const int64_t psi = 4 * kLayers * kWidth * kWidth;
  core::SwapFile disk("planned", {.bytes = int64_t{1} << 30, .planned = true});
  const Cluster gpus;
  const Simulation step = simulate(2, program({.disk = &disk}), gpus);
  for (const ReplayRank& rank : step.ranks) {
    CHECK(rank.disk_peak == 3 * psi / 2);
    // shards three times and both moments once; written once
    CHECK(rank.moved[static_cast<size_t>(Transfer::from_disk)] == (3 + 2) * psi / 2);
    CHECK(rank.moved[static_cast<size_t>(Transfer::to_disk)] == (1 + 2) * psi / 2);
    CHECK(rank.host_peak[static_cast<size_t>(MemoryTag::optimizer)] < psi);
  }
  CHECK(disk.used() == 0);
  Cluster slow = gpus;
  slow.disk_bytes_per_second = 8e4;  // 1e4 of each of eight devices
  const double moved = 8.0 * static_cast<double>(psi) / 2 / 1e4;
  CHECK(simulate(2, program({.disk = &disk}), slow).seconds == Approx(moved).epsilon(0.05));
}

TEST_CASE("simulation: a trace has a track for each way that is used, and the host's memory") {
  const hero_test::TempDir dir;
  core::SwapFile disk("planned", {.bytes = int64_t{1} << 30, .planned = true});
  const auto trace = [&](const Offload& offload) {
    const std::string path = dir / "trace.json";
    const Simulation step = simulate(2, program(offload), {}, {.spans = true});
    write_trace(step, path);
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  const std::string plain = trace({});
  CHECK_THAT(plain, !ContainsSubstring("to device") && !ContainsSubstring("memory of the host"));
  CHECK_THAT(trace({.parameters = true}),
             ContainsSubstring("to device") && ContainsSubstring("to host") &&
                 !ContainsSubstring("from disk") && ContainsSubstring("memory of the host"));
  CHECK_THAT(trace({.disk = &disk}),
             ContainsSubstring("from disk") && ContainsSubstring("to disk"));
}

TEST_CASE("simulation: the table says what is offloaded, and a cluster without rates is refused") {
  const std::string text = simulate(2, program({.parameters = true}), {}).table();
  CHECK_THAT(text, ContainsSubstring("waiting for offloaded bytes") &&
                       ContainsSubstring("memory of the host, at most") &&
                       ContainsSubstring("moved to device") && ContainsSubstring("moved to host"));
  CHECK_THAT(simulate(2, program({}), {}).table(), !ContainsSubstring("offloaded"));
  Cluster none;
  none.host_link.bytes_per_second = 0.0;
  CHECK_THROWS_WITH(simulate(2, program({}), none),
                    ContainsSubstring("move more than 0 bytes per second: "));
}

}  // namespace
