// Three axes: a GPT cut into stages, into slices and into shards, with the bits of one process
#include <cmath>

#include "support/options/device.h"
#include "support/options/page.h"
#include "support/options/ranks.h"
#include "support/pictures/gantt.h"
#include "support/pictures/mesh.h"
#include "support/pictures/sharing.h"

#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::Mesh;
using tutorial::device, tutorial::everywhere, tutorial::RankTable, tutorial::say;
namespace dist = hero::dist;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

// [snippet: model]
constexpr int kSlices = 2;        // slices that define each layer, whatever the number of ranks
constexpr int kMicroBatches = 4;  // of a rank's batch
constexpr int kRows = 8, kPositions = 16;
const nn::GPTConfig kConfig = {.vocab_size = 64,
                               .block_size = kPositions,
                               .n_layer = 4,
                               .n_head = 4,
                               .n_embd = 32,
                               .tie_weights = false};
// [end]

// [snippet: mesh]
// Two stages and two slices where the ranks suffice; the rest is data parallel.
Mesh mesh_of(const Communicator& world) {
  const int ranks = world.size();
  const int pipe = ranks % 2 == 0 ? 2 : 1, tensor = ranks % 4 == 0 ? 2 : 1;
  return Mesh(world, {{"pipe", pipe}, {"data", ranks / pipe / tensor}, {"tensor", tensor}});
}
// [end]

// Rows that count in steps of one to four, modulo the vocabulary; the target is the next number.
std::pair<Tensor, Tensor> batch_of(int step, int replica) {
  std::vector<int64_t> tokens, targets;
  for (int row = 0; row < kRows; ++row) {
    const int first = 7 * row + 3 * step + 5 * replica, by = 1 + (row + step + replica) % 4;
    for (int i = 0; i < kPositions; ++i) {
      tokens.push_back((first + i * by) % kConfig.vocab_size);
      targets.push_back((first + (i + 1) * by) % kConfig.vocab_size);
    }
  }
  const auto ids = [](const std::vector<int64_t>& list) {
    return Tensor(Array::from(list, {kRows, kPositions}).to(device()));
  };
  return {ids(tokens), ids(targets)};
}

nn::GPT made_on_meta() {
  hero::manual_seed(1);
  const nn::DeviceScope meta(hero::kMeta);
  return nn::GPT(kConfig);
}

// What a step ends with.
struct Seen {
  double loss = 0.0, norm = 0.0;

  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen finish(const std::vector<Tensor>& parameters, optim::Optimizer& optimizer, double loss) {
  const double norm = optim::clip_grad_norm(parameters, 1.0).item();
  optimizer.step();
  optimizer.zero_grad();
  tutorial::note_step("", {{"loss", loss}, {"norm", norm}, {"rate", optimizer.lr()}});
  return {loss, norm};
}

// One process: each replica's micro-batches one after the other, then the mean over the replicas.
std::vector<Seen> train_alone(const Communicator& me, int replicas, int steps) {
  nn::GPT model = made_on_meta();
  dist::tensor_parallel(model, me, {.slices = kSlices});
  model.materialize(device());
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
  optim::Accumulator gradients(model.parameters());
  std::vector<Seen> seen;
  for (int step = 0; step < steps; ++step) {
    double loss = 0.0;
    for (int r = 0; r < replicas; ++r) {
      const auto [tokens, targets] = batch_of(step, r);
      double sum = 0.0;
      for (int i = 0; i < kMicroBatches; ++i) {
        const int64_t rows = kRows / kMicroBatches, at = i * rows;
        const Tensor micro =
            model.loss(tokens.slice(0, at, at + rows), targets.slice(0, at, at + rows));
        sum += micro.item();
        (micro / kMicroBatches).backward();
      }
      if (r == 0) loss = sum / kMicroBatches;
      gradients.add();
    }
    gradients.mean();
    seen.push_back(finish(model.parameters(), adamw, loss));
  }
  return seen;
}

void show_places(const Communicator& world, const Mesh& mesh, const dist::Pipeline& pipe,
                 const std::string& folder) {
  int64_t held = 0;
  for (const Tensor& leaf : pipe.parameters()) held += leaf.numel();
  const auto [first, end] = pipe.layers();
  RankTable table(world);
  for (const dist::Axis& axis : mesh.axes()) table.row(axis.name, mesh.coordinate(axis.name));
  table.row("layers", std::to_string(first) + " - " + std::to_string(end - 1));
  table.row("elements", held).print("who holds what");
  if (world.rank() > 0) return;
  std::vector<tutorial::MeshCell> cells;
  for (size_t i = 0; i < static_cast<size_t>(world.size()); ++i) {
    cells.push_back({table.cells(4)[i] + " elements", static_cast<int>(i)});
  }
  tutorial::draw_mesh(
      "Who holds what: a stage below the other, and half of each matrix to the right", mesh.axes(),
      cells,
      {"along tensor →: sums of activations,\nin every block",
       "along data ↓: parameters and gradients,\nonce a step",
       "from pipe to pipe: the activations at the\nborder, and their gradients"},
      folder, "19_mesh");
}

void show_schedule(const Communicator& world, const Mesh& mesh) {
  const int stages = mesh["pipe"].size();
  say(world, "\n1f1b, %d micro-batches\n", kMicroBatches);
  for (int stage = 0; stage < stages; ++stage) {
    std::string line = "  stage " + std::to_string(stage) + " ";
    for (const dist::Action& action :
         dist::Schedule::one_f_one_b().actions(stage, stages, kMicroBatches)) {
      line += " " + to_string(action);
    }
    say(world, "%s\n", line.c_str());
  }
}

// [snippet: formulas]
// For n floats, each of t ranks sends 2 n (t - 1) / t floats in an all_reduce.
int64_t sum_bytes(int64_t n, int t) { return 2 * 4 * n * (t - 1) / t; }

// One rank's bytes of a step, by axis.
struct Bytes {
  int64_t pipe, tensor;
};
Bytes expected_bytes(const Mesh& mesh) {
  const int p = mesh["pipe"].size(), t = mesh["tensor"].size(), stage = mesh.coordinate("pipe");
  const int64_t border = kRows * kPositions * kConfig.n_embd, rows = kRows * kPositions;
  const int64_t borders = (stage > 0 ? 1 : 0) + (stage + 1 < p ? 1 : 0);
  const int64_t blocks = kConfig.n_layer / p;
  Bytes bytes = {4 * borders * border, blocks * 4 * sum_bytes(border, t)};
  if (stage == 0) bytes.tensor += sum_bytes(border, t);        // the embedding's rows
  if (stage + 1 == p) bytes.tensor += sum_bytes(border, t);    // the last features' gradient
  if (stage + 1 == p) bytes.tensor += 3 * sum_bytes(rows, t);  // the loss
  if (stage + 1 == p) bytes.pipe += 8 * (p - 1);               // which all stages receive
  return bytes;
}
// [end]

void show_bytes(const Communicator& world, const Mesh& mesh, int64_t units) {
  const auto sent = [&](const char* axis) { return world.traffic().bytes_of_axis(axis); };
  const Bytes expected = expected_bytes(mesh);
  RankTable table(world);
  table.row("pipe", sent("pipe")).row("  formula", expected.pipe);
  table.row("tensor", sent("tensor")).row("  formula", expected.tensor);
  table.row("data", sent("data")).row("  formula", units);
  say(world, "\n");
  table.print("bytes of a step");
}

void train(const Communicator& world, int steps, const std::string& folder) {
  // [snippet: axes]
  const Mesh mesh = mesh_of(world);
  nn::GPT model = made_on_meta();  // only shapes, on every rank
  dist::tensor_parallel(model, mesh["tensor"], {.slices = kSlices});
  dist::Pipeline pipe(model, mesh["pipe"], {.micro_batches = kMicroBatches, .device = device()});
  const auto sharded = dist::fully_shard(
      model, mesh["data"], {.unit = dist::each<nn::Block>(), .reshard_after_forward = false});
  optim::AdamW adamw(pipe.parameters(), {.lr = 1e-2});
  // [end]
  show_places(world, mesh, pipe, folder);
  show_schedule(world, mesh);
  std::vector<Seen> seen;
  for (int step = 0; step < steps; ++step) {
    world.traffic().reset();
    // [snippet: step]
    const auto [tokens, targets] = batch_of(step, mesh.coordinate("data"));
    const double loss = pipe.step(tokens, targets);
    // [end]
    if (step == 0) {
      int64_t units = 0;  // each is gathered once and its gradients are averaged once
      for (const dist::UnitInfo& unit : sharded.units()) {
        const int64_t own = unit.own.count, others = mesh["data"].size() - 1;
        units += 4 * (own * others + unit.flat_numel - own);
      }
      show_bytes(world, mesh, units);
    }
    seen.push_back(finish(pipe.parameters(), adamw, loss));
  }
  const std::vector<Seen> alone =
      train_alone(world.split(world.rank(), 0), mesh["data"].size(), steps);
  say(world, "\nstep      loss      norm\n");
  for (int step = 0; step < steps; step += 5) {
    const Seen& now = seen[static_cast<size_t>(step)];
    say(world, "%4d  %8.4f  %8.4f\n", step + 1, now.loss, now.norm);
  }
  bool same = true;
  for (size_t i = 0; i < seen.size(); ++i) {
    // losses are those of a rank's own batch
    same = same && seen[i].norm == alone[i].norm;
    if (mesh.coordinate("data") == 0) same = same && seen[i] == alone[i];
  }
  say(world, "the losses and norms of one process, bit for bit: %s\n",
      everywhere(world, same) ? "yes" : "no");
}

}  // namespace

int main(int argc, char** argv) {
  return tutorial::run_ranks(
      argc, argv,
      {.title = "Pipeline, tensor and data parallelism together.", .ranks = 8, .steps = 21},
      [](Communicator& world, const tutorial::RankOptions& options) {
        train(world, static_cast<int>(options.steps), options.out);
        tutorial::draw_context(world, options.out);
        if (world.rank() > 0) return;
        tutorial::draw_experts(options.out);
        using dist::Schedule;
        tutorial::draw_schedules({Schedule::gpipe(), Schedule::one_f_one_b(),
                                  Schedule::interleaved(2), Schedule::zero_bubble()},
                                 4, 8, options.out);
      });
}
