#pragma once
// GPTs whose ranks share each sequence.
#include <memory>
#include <vector>

#include "dist/data_parallel/strategies.h"

#include <hero/dist/context_parallel.h>

namespace hero::test {

enum class ContextKind { tied, rotary, checkpointed };

inline nn::GPTConfig context_gpt(ContextKind kind) {
  nn::GPTConfig config = {
      .vocab_size = 19, .block_size = 16, .n_layer = 2, .n_head = 4, .n_embd = 16};
  if (kind == ContextKind::rotary) {
    config.rotary = true;
    config.tie_weights = false;
    config.n_kv_head = 2;
  }
  config.checkpoint = kind == ContextKind::checkpointed;
  return config;
}

inline std::unique_ptr<nn::GPT> context_model(const nn::GPTConfig& config) {
  manual_seed(7);
  return std::make_unique<nn::GPT>(config);
}

/// [2, 16]; of targets the first row's beginning, and more in the second, is left out.
inline Tensor context_ids(int step, int batch, bool targets) {
  const auto seed = static_cast<uint64_t>(100 * step + 2 * batch + (targets ? 51 : 1));
  std::vector<int64_t> ids;
  for (const float v : noise({2, 16}, kFloat32, seed).to_vector<float>()) {
    ids.push_back(static_cast<int64_t>((v + 2.0f) * 0.25f * 19.0f));
  }
  for (size_t i = 0; targets && i < ids.size(); ++i) {
    if (i < 3 || (i >= 16 && i < 29)) ids[i] = -100;
  }
  return Tensor(Array::from(ids, {2, 16}));
}

inline Tensor context_loss(nn::GPT& model, int step, int batch, Device device = kCpu) {
  return model.loss(context_ids(step, batch, false).to(device),
                    context_ids(step, batch, true).to(device));
}

struct ContextGrid {
  int data = 1, context = 1;
  ShardingStrategy strategy = ShardingStrategy::ddp;
  Device device = kCpu;
  int steps = 3;
};

/// The losses are those of all ranks that share.
inline void train_context(ContextKind kind, const ContextGrid& grid, Whole& whole,
                          std::vector<double>& losses) {
  dist::run_ranks(grid.data * grid.context, [&](dist::Communicator& world) {
    const dist::Mesh mesh(world, {{"data", grid.data}, {"context", grid.context}});
    const auto model = context_model(context_gpt(kind));
    model->to(grid.device);
    dist::context_parallel(*model, mesh["context"], {.slices = 4});
    if (grid.strategy == ShardingStrategy::hybrid) {
      dist::fully_shard(*model, mesh, {.unit = dist::each<nn::Block>()});
    } else {
      climb(grid.strategy, Subject::gpt, *model, world);
    }
    const auto optimizer = make_method(Method::adamw, model->parameters());
    for (int step = 0; step < grid.steps; ++step) {
      const Tensor loss = context_loss(*model, step, mesh.coordinate("data"), grid.device);
      loss.backward();
      if (world.rank() == 0) losses.push_back(loss.item());
      finish_step(*model, *optimizer, 0.5);
    }
    add_state(whole, *model, *optimizer);
  });
}

}  // namespace hero::test
