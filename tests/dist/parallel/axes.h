#pragma once
// GPTs in stages, slices and shards: ranks of a mesh with three axes, and one process that does the
// same.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/parallel/pipelines.h"

#include <hero/dist/checkpoint.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/mesh.h>
#include <hero/dist/tensor_parallel.h>
#include <hero/dist/zero.h>

namespace hero::test {

inline constexpr int kAxesMicroBatches = 4;

enum class Along { ddp, zero2, fsdp };

struct Axes {
  int pipe = 1, data = 1, tensor = 1;
  int ranks() const { return pipe * data * tensor; }
};

/// What ranks do beside.
struct AxesOptions {
  Along along = Along::fsdp;  ///< over "data"
  bool sequence = false;
  dist::Schedule schedule = dist::Schedule::one_f_one_b();
  int slices = 2;
  Device device = kCpu;
  bool alike = false;  ///< all replicas have the first one's batches
};

inline nn::GPTConfig axes_gpt() {
  return {.vocab_size = 19,
          .block_size = 6,
          .n_layer = 3,
          .n_head = 4,
          .n_embd = 16,
          .tie_weights = false};
}

inline std::unique_ptr<nn::GPT> axes_model() {
  manual_seed(5);
  const nn::DeviceScope scope(kMeta);
  return std::make_unique<nn::GPT>(axes_gpt());
}

inline std::pair<Tensor, Tensor> axes_batch(int step, int replica, Device device = kCpu) {
  const auto ids = [&](int which) {
    std::vector<int64_t> list;
    const auto seed = static_cast<uint64_t>(100 * step + 10 * replica + which);
    for (const float v : noise({8 * 6}, kFloat32, seed).to_vector<float>()) {
      list.push_back(static_cast<int64_t>((v + 2.0f) * 0.25f * 19.0f));
    }
    return Tensor(Array::from(list, {8, 6}).to(device));
  };
  return {ids(1), ids(2)};
}

/// A rank of the mesh, with what it trains.
struct AxesRank {
  dist::Mesh mesh;
  AxesOptions options;
  std::unique_ptr<nn::GPT> model;
  std::optional<dist::Pipeline> pipe;
  std::unique_ptr<optim::Optimizer> optimizer;

  AxesRank(const dist::Communicator& world, const Axes& axes, const AxesOptions& o = {})
      : mesh(world, {{"pipe", axes.pipe}, {"data", axes.data}, {"tensor", axes.tensor}}),
        options(o),
        model(axes_model()) {
    dist::tensor_parallel(*model, mesh["tensor"], {.slices = o.slices, .sequence = o.sequence});
    pipe.emplace(
        *model, mesh["pipe"],
        dist::PipelineOptions{
            .schedule = o.schedule, .micro_batches = kAxesMicroBatches, .device = o.device});
    if (o.along == Along::fsdp) {
      dist::fully_shard(*model, mesh["data"], {.unit = dist::each<nn::Block>()});
    }
    if (o.along == Along::ddp) dist::DDP(*model, mesh["data"]);
    if (o.along == Along::zero2) {
      dist::ZeRO(*model, mesh["data"], {.stage = 2, .bucket_bytes = 700});
    }
    optimizer = make_method(Method::adamw, pipe->parameters());
  }
  void step(int number, std::vector<double>& numbers) {
    const int replica = options.alike ? 0 : mesh.coordinate("data");
    const auto [x, y] = axes_batch(number, replica, options.device);
    pipe->step(x, y);
    finish_pipe_step(pipe->parameters(), *optimizer, numbers);
  }
};

/// The same in one process, whose layers are as many slices; `numbers`: the norm of each step.
inline void train_axes_alone(int replicas, int steps, Whole& whole, std::vector<double>& numbers,
                             const AxesOptions& options = {}) {
  dist::run_ranks(1, [&](dist::Communicator& world) {
    const auto model = axes_model();
    dist::tensor_parallel(*model, world, {.slices = options.slices, .sequence = options.sequence});
    model->materialize(options.device);
    const auto parameters = model->parameters();
    const auto optimizer = make_method(Method::adamw, parameters);
    optim::Accumulator gradients(parameters);
    for (int step = 0; step < steps; ++step) {
      for (int r = 0; r < replicas; ++r) {
        const auto [x, y] = axes_batch(step, r, options.device);
        accumulate_alone(*model, x, y, kAxesMicroBatches);
        gradients.add();
      }
      gradients.mean();
      finish_pipe_step(parameters, *optimizer, numbers);
    }
    add_state(whole, *model, *optimizer);
  });
}

/// Names of what ranks of a mesh differ in after so many steps from what one process ended with.
inline std::string axes_difference(const Axes& axes, const AxesOptions& options, int steps,
                                   const Whole& expected, const std::vector<double>& numbers) {
  Whole got;
  dist::run_ranks(axes.ranks(), [&](dist::Communicator& world) {
    AxesRank rank(world, axes, options);
    std::vector<double> found;
    for (int step = 0; step < steps; ++step) rank.step(step, found);
    expect(found == numbers, "norms of the whole model");
    add_state(got, *rank.model, *rank.optimizer);
  });
  return expected.size() < 5 ? "too few names" : expected.difference(got);
}

/// Trains from one step to another, from the newest checkpoint of `run`, which is of step `from`;
/// where the state is asked for nothing is saved.
inline void train_and_save(const std::string& run, const Axes& axes, const AxesOptions& options,
                           int from, int to, Whole* whole) {
  dist::run_ranks(axes.ranks(), [&](dist::Communicator& world) {
    AxesRank rank(world, axes, options);
    dist::Checkpointer checkpoint(run, world);
    checkpoint.track("model", *rank.model);
    checkpoint.track("optimizer", *rank.optimizer);
    expect(checkpoint.resume().value_or(0) == from, "the step");
    std::vector<double> numbers;
    for (int step = from; step < to; ++step) rank.step(step, numbers);
    if (whole == nullptr) {
      checkpoint.save(to);
    } else {
      add_state(*whole, *rank.model, *rank.optimizer);
    }
  });
}

}  // namespace hero::test
