#pragma once
// GPTs cut eight slices, whose bits do not depend on the number of ranks.
#include <cstdlib>
#include <string>

#include "dist/parallel/tensor.h"

#include <hero/dist/checkpoint.h>

namespace hero::test {

/// Trains a GPT cut over all ranks, and one cut over half of them in two shards; the parameters
/// that they end with become files in the folder HERO_RUN.
inline void train_eight_slices(dist::Communicator& world) {
  const char* const run = std::getenv("HERO_RUN");
  check(run != nullptr, "slices: HERO_RUN names the folder");
  nn::GPTConfig config = tensor_gpt();
  config.n_head = 8;
  for (const int data : {1, 2}) {
    if (world.size() % data != 0) continue;
    const TensorGrid grid = {data, world.size() / data, 8, data > 1};
    const dist::Mesh mesh = mesh_of(world, grid);
    const auto model = cut_gpt(config, mesh, grid);
    train_gpt(*model, mesh.coordinate("data"), 2);
    dist::save_full(std::string(run) + "/" + std::to_string(data) + ".safetensors", world, *model);
  }
}

}  // namespace hero::test
