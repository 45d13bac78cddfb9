#pragma once
// GPTs that are cut among the ranks of a mesh's axis "tensor" and trained along "data".
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"

#include <hero/dist/tensor_parallel.h>

namespace hero::test {

/// Four heads, a vocabulary that nothing divides.
inline nn::GPTConfig tensor_gpt() {
  return {.vocab_size = 19, .block_size = 6, .n_layer = 2, .n_head = 4, .n_embd = 16};
}

struct TensorGrid {
  int data = 1, tensor = 1;
  int slices = 0;       ///< 0: as many as `tensor`
  bool shards = false;  ///< fully_shard() along "data", else DDP
  bool meta = false;    ///< made on meta
  bool sequence = false;
  int stage = 0;  ///< of ZeRO along "data", instead
  Device device = kCpu;

  int ranks() const { return data * tensor; }
};

inline dist::Mesh mesh_of(const dist::Communicator& world, const TensorGrid& grid) {
  return dist::Mesh(world, {{"data", grid.data}, {"tensor", grid.tensor}});
}

inline std::unique_ptr<nn::GPT> made_gpt(const nn::GPTConfig& config, bool meta) {
  manual_seed(7);
  std::optional<nn::DeviceScope> scope;
  if (meta) scope.emplace(kMeta);
  return std::make_unique<nn::GPT>(config);
}

/// A GPT on this rank of the grid.
inline std::unique_ptr<nn::GPT> cut_gpt(const nn::GPTConfig& config, const dist::Mesh& mesh,
                                        const TensorGrid& grid) {
  auto model = made_gpt(config, grid.meta);
  if (!grid.meta) model->to(grid.device);
  dist::tensor_parallel(*model, mesh["tensor"], {.slices = grid.slices, .sequence = grid.sequence});
  if (grid.stage > 0) {
    dist::ZeRO(*model, mesh["data"], {.stage = grid.stage, .bucket_bytes = 700});
  } else if (grid.shards) {
    dist::fully_shard(*model, mesh["data"],
                      {.unit = dist::each<nn::Block>(), .device = grid.device});
  } else {
    if (grid.meta) model->materialize(grid.device);
    if (grid.data > 1) dist::DDP(*model, mesh["data"]);
  }
  return model;
}

inline Tensor gpt_labels(const nn::GPTConfig& config, int step, int batch) {
  std::vector<int64_t> ids;
  const auto seed = static_cast<uint64_t>(100 * step + batch + 1);
  for (const float v : noise({2, config.block_size}, kFloat32, seed).to_vector<float>()) {
    ids.push_back(static_cast<int64_t>((v + 2.0f) * 0.25f * static_cast<float>(config.vocab_size)));
  }
  return Tensor(Array::from(ids, {2, config.block_size}));
}

/// Three steps of AdamW with clipping; micro-batches by the coordinate along "data".
inline std::unique_ptr<optim::Optimizer> train_gpt(nn::GPT& model, int batch, int steps = 3,
                                                   Device device = kCpu) {
  auto optimizer = make_method(Method::adamw, model.parameters());
  for (int step = 0; step < steps; ++step) {
    const nn::GPTConfig& config = model.config();
    const auto labels = [&](int at) { return gpt_labels(config, at, batch).to(device); };
    model.loss(labels(step), labels(step + 50)).backward();
    finish_step(model, *optimizer, 0.5);
  }
  return optimizer;
}

/// What training on a grid ends with.
inline void train_on(const nn::GPTConfig& config, const TensorGrid& grid, Whole& whole,
                     int steps = 3) {
  dist::run_ranks(grid.ranks(), [&](dist::Communicator& world) {
    const dist::Mesh mesh = mesh_of(world, grid);
    const auto model = cut_gpt(config, mesh, grid);
    const auto optimizer = train_gpt(*model, mesh.coordinate("data"), steps, grid.device);
    add_state(whole, *model, *optimizer);
  });
}

}  // namespace hero::test
