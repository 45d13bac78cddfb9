#pragma once
// Training the same small models in pipelines and in one process.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/data_parallel/strategies.h"

#include <hero/dist/pipeline.h>

namespace hero::test {

/// A pipeline model, on meta where it is asked for.
struct PipeModel {
  std::unique_ptr<nn::Sequential> net;
  std::unique_ptr<nn::GPT> gpt;
  std::unique_ptr<nn::PipelineSequential> of_net;

  nn::PipelineModel& pipeline_model() {
    return gpt ? static_cast<nn::PipelineModel&>(*gpt) : *of_net;
  }
  nn::Module& module() { return pipeline_model().root(); }
};

enum class PipeSubject { layers, gpt, gpt_tied };

/// Eight layers, of sizes that nothing divides, and parameters in each but the first.
/// `activations`: those of a GPT's blocks are offloaded so.
inline PipeModel make_pipe_model(PipeSubject subject, Device device = kMeta,
                                 const std::optional<OffloadOptions>& activations = {}) {
  manual_seed(11);
  std::optional<nn::DeviceScope> scope;
  if (device != kCpu) scope.emplace(device);
  PipeModel model;
  if (subject == PipeSubject::layers) {
    model.net = std::make_unique<nn::Sequential>();
    model.net->append<nn::Linear>(7, 13);
    for (int i = 0; i < 3; ++i) {
      model.net->append<nn::Linear>(13, 13);
      model.net->append<nn::LayerNorm>(Shape{13});
    }
    model.net->append<nn::Linear>(13, 5);
    model.of_net = std::make_unique<nn::PipelineSequential>(
        *model.net, [](const Tensor& y, const Tensor& t) { return mse_loss(tanh(y), t); });
  } else {
    nn::GPTConfig config = tiny_gpt();
    config.n_layer = 6;
    config.offload = activations;
    config.tie_weights = subject == PipeSubject::gpt_tied;
    model.gpt = std::make_unique<nn::GPT>(config);
  }
  return model;
}

/// 56 rows, which 1, 2, 4, 7 and 8 divide.
inline std::pair<Tensor, Tensor> pipe_batch(PipeSubject subject, int step, int replica = 0,
                                            Device device = kCpu) {
  const auto seed = static_cast<uint64_t>(100 * step + 10 * replica + 1);
  if (subject == PipeSubject::layers) {
    return {Tensor(noise({56, 7}, kFloat32, seed).to(device)),
            Tensor(noise({56, 5}, kFloat32, seed + 1).to(device))};
  }
  const auto ids = [device](uint64_t from) {
    std::vector<int64_t> list;
    for (const float v : noise({56 * 6}, kFloat32, from).to_vector<float>()) {
      list.push_back(static_cast<int64_t>((v + 2.0f) * 0.25f * 19.0f));
    }
    return Tensor(Array::from(list, {56, 6}).to(device));
  };
  return {ids(seed), ids(seed + 1)};
}

/// The gradients of m micro-batches, one after the other, in one process; returns the mean loss.
inline double accumulate_alone(nn::PipelineModel& model, const Tensor& x, const Tensor& y, int m) {
  const int64_t rows = x.size(0) / m;
  double sum = 0.0;
  for (int i = 0; i < m; ++i) {
    const auto micro = [&](const Tensor& t) { return t.slice(0, i * rows, (i + 1) * rows); };
    const Tensor loss = model.loss_from(0, micro(x), micro(y));
    sum += loss.item();
    (loss / static_cast<double>(m)).backward();
  }
  return sum / m;
}

struct PipeRun {
  PipeSubject subject = PipeSubject::layers;
  dist::Schedule schedule = dist::Schedule::one_f_one_b();
  int ranks = 2;
  int micro_batches = 4;
  int steps = 2;
  Method method = Method::adamw;
  Device device = kCpu;  ///< of all ranks
};

/// What an optimizer does with a step's gradients, whose norm is added to `numbers`.
inline void finish_pipe_step(const std::vector<Tensor>& parameters, optim::Optimizer& optimizer,
                             std::vector<double>& numbers) {
  numbers.push_back(optim::clip_grad_norm(parameters, 0.05).item());
  optimizer.step();
  optimizer.zero_grad();
}

/// Trains in one process; `numbers`: each step's loss and norm.
inline void train_pipe_alone(const PipeRun& c, Whole& whole, std::vector<double>& numbers) {
  PipeModel model = make_pipe_model(c.subject, kCpu);
  model.module().to(c.device);
  const auto optimizer = make_method(c.method, model.module().parameters());
  for (int step = 0; step < c.steps; ++step) {
    const auto [x, y] = pipe_batch(c.subject, step, 0, c.device);
    numbers.push_back(accumulate_alone(model.pipeline_model(), x, y, c.micro_batches));
    finish_pipe_step(model.module().parameters(), *optimizer, numbers);
  }
  add_state(whole, model.module(), *optimizer);
}

/// Trains as a rank of a pipeline.
inline void train_pipe(const PipeRun& c, const dist::Communicator& world, Whole& whole,
                       std::vector<double>& numbers) {
  PipeModel model = make_pipe_model(c.subject);
  dist::Pipeline pipe(
      model.pipeline_model(), world,
      {.schedule = c.schedule, .micro_batches = c.micro_batches, .device = c.device});
  const auto optimizer = make_method(c.method, pipe.parameters());
  for (int step = 0; step < c.steps; ++step) {
    const auto [x, y] = pipe_batch(c.subject, step, 0, c.device);
    numbers.push_back(pipe.step(x, y));
    finish_pipe_step(pipe.parameters(), *optimizer, numbers);
  }
  add_state(whole, model.module(), *optimizer);
}

/// Names of what differs from one process, and whose losses or norms do.
inline std::string pipe_difference(const PipeRun& c, const Whole& expected,
                                   const std::vector<double>& numbers) {
  Whole got;
  std::vector<std::vector<double>> of_ranks(static_cast<size_t>(c.ranks));
  dist::run_ranks(c.ranks, [&](dist::Communicator& world) {
    train_pipe(c, world, got, of_ranks[static_cast<size_t>(world.rank())]);
  });
  std::string found = expected.difference(got);
  for (size_t r = 0; r < of_ranks.size(); ++r) {
    if (of_ranks[r] != numbers) found += " numbers of rank " + std::to_string(r);
  }
  return expected.size() < 4 ? "too few names" : found;
}

}  // namespace hero::test
