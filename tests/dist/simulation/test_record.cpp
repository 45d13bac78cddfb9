// What simulated ranks are recorded to do is what real ones do.
#include <array>
#include <optional>

#include <dist/ranks.h>
#include <support/catch.h>

#include <hero/dist/dist.h>
#include <hero/dist/simulation.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Kind = TimelineEvent::Kind;

const Cluster kThreads = {.device = DeviceType::cpu};

// A mesh of pipe x data x tensor ranks, and what a step of a small GPT does on it.
struct Axes {
  int pipe = 1, data = 1, tensor = 1;
  Schedule schedule = Schedule::one_f_one_b();
  int context = 1;
  int ranks() const { return pipe * data * tensor * context; }
};

void train(const Axes& axes, Communicator& world, bool simulated) {
  const Device device = simulated ? kMeta : kCpu;
  std::optional<nn::DeviceScope> meta(kMeta);
  nn::GPT model({.vocab_size = 24,
                 .block_size = 8,
                 .n_layer = 4,
                 .n_head = 2,
                 .n_embd = 16,
                 .tie_weights = false});
  meta.reset();
  const Mesh mesh(world, {{"pipe", axes.pipe},
                          {"data", axes.data},
                          {"tensor", axes.tensor},
                          {"context", axes.context}});
  if (axes.tensor > 1) tensor_parallel(model, mesh["tensor"]);
  std::optional<Pipeline> pipe;
  if (axes.pipe > 1) {
    pipe.emplace(model, mesh["pipe"],
                 PipelineOptions{.schedule = axes.schedule, .micro_batches = 4});
  }
  if (axes.context > 1) {
    context_parallel(model, mesh["context"]);
    fully_shard(model, world, {.unit = each<nn::Block>()});  // over both axes
  } else {
    fully_shard(model, mesh["data"], {.unit = each<nn::Block>()});
  }
  optim::AdamW adamw(model.parameters(), {.lr = 1e-3});
  const Tensor tokens(Array::zeros({8, 8}, kInt64, device));
  for (int step = 0; step < 2; ++step) {
    begin_simulated_step();
    if (!simulated) world.traffic().reset();
    if (pipe) {
      pipe->step(tokens, tokens);
    } else {
      model.loss(tokens, tokens).backward();
    }
    optim::clip_grad_norm(model.parameters(), 1.0);
    adamw.step();
    adamw.zero_grad();
  }
}

using Peaks = std::array<int64_t, kMemoryTagCount + 1>;

std::string rows_of(const Traffic& traffic) {
  std::string text;
  for (const Traffic::Row& row : traffic.rows()) {
    if (row.bytes == 0) continue;
    text += row.axis + " " + name(row.op) + " " + row.unit + " " + std::to_string(row.bytes) + "\n";
  }
  return text;
}

const std::vector<Axes> kAxes = {{.data = 2},
                                 {.data = 4},
                                 {.tensor = 2},
                                 {.data = 2, .tensor = 2},
                                 {.pipe = 2},
                                 {.pipe = 2, .schedule = Schedule::zero_bubble()},
                                 {.pipe = 2, .data = 2},
                                 {.pipe = 2, .data = 2, .tensor = 2},
                                 {.pipe = 4, .schedule = Schedule::gpipe()},
                                 {.pipe = 4, .data = 2, .schedule = Schedule::zero_bubble()},
                                 {.pipe = 2, .data = 2, .schedule = Schedule::interleaved(2)},
                                 {.context = 2},
                                 {.data = 2, .context = 2},
                                 {.data = 2, .context = 4}};

TEST_CASE("simulation: memory by tag and traffic by row are those of real ranks") {
  for (const Axes& axes : kAxes) {
    const auto ranks = static_cast<size_t>(axes.ranks());
    std::vector<Peaks> peaks(ranks);
    std::vector<std::string> rows(ranks);
    run_ranks(axes.ranks(), [&](Communicator& world) {
      train(axes, world, false);
      const auto me = static_cast<size_t>(world.rank());
      for (int tag = 0; tag < kMemoryTagCount; ++tag) {
        peaks[me][static_cast<size_t>(tag)] = current_ledger().peak(static_cast<MemoryTag>(tag));
      }
      peaks[me].back() = current_ledger().peak();
      rows[me] = rows_of(world.traffic());
    });
    const Recording recording = record_ranks(
        axes.ranks(), [&](Communicator& world) { train(axes, world, true); }, kThreads);
    for (const RankTimeline& rank : recording.ranks) {
      CAPTURE(axes.pipe, axes.data, axes.tensor, axes.schedule.name(), rank.rank);
      Peaks recorded{};
      std::copy(rank.peak.begin(), rank.peak.end(), recorded.begin());
      recorded.back() = rank.peak_total;
      const Peaks& real = peaks[static_cast<size_t>(rank.rank)];
      // What a stage sends is held until it has come, which on real ranks is a matter of time. The
      // receiver asks for what two of its actions need: so of a pipeline two micro-batches at a
      // border, [2, 8, 16] of float32, may be there or not, and as many gradients. Parameters and
      // states are the same to the byte.
      const int64_t sides = axes.pipe > 2 || axes.schedule.chunks() > 1 ? 2 : 1;
      const int64_t border = axes.pipe > 1 ? sides * 2 * 8 * 16 * 4 : 0;
      for (size_t tag = 0; tag < real.size(); ++tag) {
        CAPTURE(tag);
        const bool of_messages = tag != static_cast<size_t>(MemoryTag::parameter) &&
                                 tag != static_cast<size_t>(MemoryTag::optimizer);
        CHECK(recorded[tag] <= real[tag]);
        CHECK(real[tag] <=
              recorded[tag] + (of_messages ? 2 * border : 0) * (tag == kMemoryTagCount ? 2 : 1));
      }
      CHECK(rows_of(rank.traffic) == rows[static_cast<size_t>(rank.rank)]);
    }
  }
}

TEST_CASE("simulation: all ranks together compute the flops of one process") {
  const auto products = [](const Axes& axes) {
    int64_t flops = 0;
    const Recording recording = record_ranks(
        axes.ranks(), [&](Communicator& world) { train(axes, world, true); }, kThreads);
    for (const RankTimeline& rank : recording.ranks) {
      for (const TimelineEvent& event : rank.events) flops += event.flops;
    }
    return static_cast<double>(flops);
  };
  const double one = products({});
  // Norms, residuals and optimizer steps of whole parameters are done on each rank of a tensor
  // axis.
  CHECK(products({.pipe = 2}) == Approx(one).epsilon(0.01));
  CHECK(products({.pipe = 4}) == Approx(one).epsilon(0.01));
  CHECK(products({.tensor = 2}) == Approx(one).epsilon(0.1));
  // A batch for each of two ranks, but the optimizer's step is divided.
  CHECK(products({.data = 2}) == Approx(2 * one).epsilon(0.03));
}

TEST_CASE("simulation: every wait is for a call that was begun, and units are gathered ahead") {
  const Axes axes{.data = 4};
  const Recording recording =
      record_ranks(4, [&](Communicator& world) { train(axes, world, true); }, kThreads, {0});
  REQUIRE(recording.ranks.size() == 1);
  std::vector<bool> begun, waited;
  bool ahead = false;
  int64_t under_way = 0;
  for (const TimelineEvent& event : recording.ranks[0].events) {
    if (event.kind == Kind::begin) {
      begun.push_back(true);
      ++under_way;
    }
    if (event.kind == Kind::wait) --under_way;
    if (event.kind == Kind::compute && under_way > 0) ahead = true;
  }
  CHECK(!begun.empty());
  CHECK(ahead);
}

TEST_CASE("simulation: a slower network makes a step longer, and hides less") {
  Cluster fast, slow;
  slow.inside.bytes_per_second = fast.inside.bytes_per_second / 1000;
  const auto program = [](Communicator& world) { train({.data = 4}, world, true); };
  const Simulation one = simulate(4, program, fast), other = simulate(4, program, slow);
  CHECK(other.seconds > one.seconds);
  CHECK(other.exposed > one.exposed);
  CHECK(one.flops == other.flops);
  CHECK(one.peak_bytes == other.peak_bytes);
}

TEST_CASE("simulation: one rank of each stage stands for all") {
  const Axes axes{.pipe = 2, .data = 2, .tensor = 2};
  const auto program = [&](Communicator& world) { train(axes, world, true); };
  const Simulation all = simulate(8, program, kThreads);
  const Simulation some = simulate(8, program, kThreads, {.ranks = {0, 4}});
  CHECK(some.seconds == Approx(all.seconds).epsilon(0.02));  // the last shards are shorter
  CHECK(some.peak_bytes == all.peak_bytes);
}

}  // namespace
