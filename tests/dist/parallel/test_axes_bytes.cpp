// Three axes: what a rank holds, by tag, and sends, by axis, are formulas, on eight ranks and on a
// thousand.
#include <algorithm>
#include <string>
#include <vector>

#include "dist/parallel/axes.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

namespace {

constexpr int kLayers = 8, kRows = 8, kMicros = 4;
constexpr int64_t kPositions = 16, kWidth = 64, kWords = 128;

// Bytes of one rank: between two steps, and sent in one.
struct AxesBytes {
  int64_t parameters = 0, gradients = 0, states = 0, pipe = 0, tensor = 0, data = 0;
  bool operator==(const AxesBytes&) const = default;
};

std::string to_string(const AxesBytes& b) {
  std::string text;
  for (const int64_t n : {b.parameters, b.gradients, b.states, b.pipe, b.tensor, b.data}) {
    text += " " + std::to_string(n);
  }
  return text;
}

// Bytes that a rank sends in an all_reduce of n floats among t.
int64_t sum_of(int64_t n, int t) { return 2 * 4 * n * (t - 1) / t; }

// By the formulas of docs/guides/pipeline.md, tensor_parallel.md and ranks.md, for units that are
// not freed after forward and layers [first, end): the embedding, the blocks, the norm with the
// head.
AxesBytes formulas(const Mesh& mesh, const std::pair<size_t, size_t>& layers) {
  const int p = mesh["pipe"].size(), t = mesh["tensor"].size(), d = mesh["data"].size();
  const bool embeds = layers.first == 0, ends = layers.second == kLayers + 2;
  const auto blocks = static_cast<int64_t>(layers.second - layers.first) - embeds - ends;
  const int64_t h = kWidth, n = kRows * kPositions * h;
  const int64_t block = 12 * h * h / t + 7 * h / t + 6 * h;
  std::vector<int64_t> units(static_cast<size_t>(blocks), block);
  if (embeds || ends) {
    units.push_back((embeds ? (kWords / t + kPositions) * h : 0) +
                    (ends ? kWords / t * h + 2 * h : 0));
  }
  AxesBytes bytes;
  for (const int64_t numel : units) {
    const int64_t own = (numel + 8 * d - 1) / (8 * d) * 8;
    const int64_t stepped = std::clamp<int64_t>(numel - mesh.coordinate("data") * own, 0, own);
    bytes.parameters += 4 * own;
    bytes.gradients += 4 * own;
    bytes.states += 8 * stepped;
    bytes.data += 2 * 4 * own * (d - 1);  // gathered once, averaged once
  }
  bytes.tensor = blocks * 4 * sum_of(n, t) + (embeds + ends) * sum_of(n, t);
  if (ends) bytes.tensor += 3 * sum_of(kRows * kPositions, t);  // the loss
  bytes.pipe = 4 * n * (!embeds + !ends);
  if (ends) bytes.pipe += 8 * (p - 1);  // the loss, which all stages hear
  return bytes;
}

// What a rank of the mesh has and sends.
void check_rank(Communicator& world, const Axes& axes, Device device) {
  const Mesh mesh(world, {{"pipe", axes.pipe}, {"data", axes.data}, {"tensor", axes.tensor}});
  manual_seed(5);
  std::optional<nn::DeviceScope> meta(kMeta);
  nn::GPT model({.vocab_size = kWords,
                 .block_size = kPositions,
                 .n_layer = kLayers,
                 .n_head = 8,
                 .n_embd = kWidth,
                 .tie_weights = false});
  meta.reset();
  tensor_parallel(model, mesh["tensor"]);
  Pipeline pipe(model, mesh["pipe"], {.micro_batches = kMicros});
  fully_shard(model, mesh["data"], {.unit = each<nn::Block>(), .reshard_after_forward = false});
  optim::AdamW adamw(pipe.parameters());
  const Tensor ids(Array::zeros({kRows, kPositions}, kInt64, device));
  for (int step = 0; step < 2; ++step) {
    adamw.zero_grad();
    world.traffic().reset();
    pipe.step(ids, ids);
    const auto sent = [&](const char* axis) { return world.traffic().bytes_of_axis(axis); };
    AxesBytes got = {.pipe = sent("pipe"), .tensor = sent("tensor"), .data = sent("data")};
    adamw.step();
    const auto live = [&](MemoryTag tag) { return current_ledger().live(tag, device.type); };
    got.parameters = live(MemoryTag::parameter);
    got.gradients = live(MemoryTag::gradient);
    got.states = live(MemoryTag::optimizer);
    const AxesBytes expected = formulas(mesh, pipe.layers());
    expect(got == expected, "rank ", world.rank(), ", step ", step, ":", to_string(got),
           " and by the formulas", to_string(expected));
  }
}

}  // namespace

TEST_CASE("eight ranks on three axes hold and send what the formulas say", "[axes]") {
  for (const Axes& axes : {Axes{2, 2, 2}, Axes{4, 1, 2}, Axes{2, 4, 1}, Axes{1, 2, 4}}) {
    CAPTURE(axes.pipe, axes.data, axes.tensor);
    run_ranks(axes.ranks(), [&](Communicator& world) { check_rank(world, axes, kCpu); });
  }
}

TEST_CASE("a thousand simulated ranks on three axes hold and send what the formulas say",
          "[axes]") {
  const Axes axes = {8, 16, 8};
  std::vector<int> ranks;  // of each stage one, on different places along the other axes
  for (int stage = 0; stage < axes.pipe; ++stage) {
    ranks.push_back(stage * axes.data * axes.tensor + 17 * stage);
  }
  simulate_ranks(
      axes.ranks(), [&](Communicator& world) { check_rank(world, axes, kMeta); }, ranks);
}
