#pragma once
// A small GPT for tests of Trainer, its samples, and what a run of it ends with.
#include <map>
#include <string>
#include <vector>

#include "dist/ranks.h"

#include <hero/nn/nn.h>

namespace hero::test {

inline nn::GPT make_small_gpt() {
  manual_seed(4);
  return nn::GPT({.vocab_size = 24, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16});
}

/// What data rank `part` takes as its n-th micro-batch: one sequence.
inline Tensor small_tokens(int64_t n, int part) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 8; ++i) tokens.push_back((7 * n + 5 * part + i * i) % 24);
  return Tensor(Array::from(tokens, {1, 8}));
}

/// Losses of rank 0, and the parameters at the end.
struct GPTRun {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> values;
  bool operator==(const GPTRun&) const = default;
};

inline void add_trained(GPTRun& ended, const nn::StateDict& dict) {
  for (const auto& [name, values] : dict) {
    ended.values[name] = values.to(kFloat32).to_vector<float>();
  }
}

}  // namespace hero::test
